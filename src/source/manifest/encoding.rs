//! Decodes files in UTF-16, which begin with a byte order mark: Windows PowerShell writes them.

use std::io::{self, Cursor, Read};

/// Bytes read at a time.
const READ: usize = 16 * 1024;
const LITTLE_ENDIAN: [u8; 2] = [0xff, 0xfe];
const BIG_ENDIAN: [u8; 2] = [0xfe, 0xff];

/// Returns a reader of the same text, as UTF-8 if it begins as UTF-16.
///
/// # Errors
/// When the beginning cannot be read.
pub(super) fn decoded(mut input: impl Read + Send + 'static) -> io::Result<Box<dyn Read + Send>> {
    let mut mark = Vec::new();
    input.by_ref().take(2).read_to_end(&mut mark)?;
    let unit = match mark.first_chunk() {
        Some(&LITTLE_ENDIAN) => u16::from_le_bytes,
        Some(&BIG_ENDIAN) => u16::from_be_bytes,
        _ => return Ok(Box::new(Cursor::new(mark).chain(input))),
    };
    Ok(Box::new(Utf16Reader { input, unit, rest: Vec::new(), decoded: Cursor::default() }))
}

/// Decodes UTF-16.
struct Utf16Reader<R> {
    input: R,
    unit: fn([u8; 2]) -> u16,
    /// The bytes read of an incomplete character.
    rest: Vec<u8>,
    decoded: Cursor<Vec<u8>>,
}

impl<R: Read> Read for Utf16Reader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.decoded.read(into)?;
            if count > 0 || into.is_empty() {
                return Ok(count);
            }
            let before = self.rest.len();
            let is_end = self.input.by_ref().take(READ as u64).read_to_end(&mut self.rest)? == 0;
            if is_end && before == 0 {
                return Ok(0);
            }
            self.decode(is_end)?;
        }
    }
}

impl<R> Utf16Reader<R> {
    /// Decodes the complete characters that were read.
    fn decode(&mut self, is_end: bool) -> io::Result<()> {
        let units: Vec<u16> = self.rest.chunks_exact(2).map(|pair| (self.unit)([pair[0], pair[1]])).collect();
        // The second half of a surrogate pair may follow.
        let is_half = !is_end && units.last().is_some_and(|last| (0xd800..0xdc00).contains(last));
        let complete = units.len() - usize::from(is_half);
        let text: Result<String, _> = char::decode_utf16(units[..complete].iter().copied()).collect();
        self.rest.drain(..complete * 2);
        let text = text.ok().filter(|_| !is_end || self.rest.is_empty());
        let text =
            text.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "not UTF-16 text; save it as UTF-8"))?;
        self.decoded = Cursor::new(text.into_bytes());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> Result<String, String> {
        let mut text = String::new();
        let mut reader = decoded(Cursor::new(bytes.to_vec())).unwrap();
        reader.read_to_string(&mut text).map_err(|error| error.to_string())?;
        Ok(text)
    }

    #[test]
    fn utf_16_with_a_byte_order_mark_is_decoded_and_other_text_unchanged() {
        // The surrogate pair is split between reads: an odd number of units comes before it.
        for text in ["", "a", "ä: 😀\n", &format!("{}😀{}", "x".repeat(READ / 2 - 1), "ü".repeat(READ))] {
            let little: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
            let big: Vec<u8> = text.encode_utf16().flat_map(u16::to_be_bytes).collect();
            assert_eq!(read(&[&LITTLE_ENDIAN[..], &little].concat()).as_deref(), Ok(text));
            assert_eq!(read(&[&BIG_ENDIAN[..], &big].concat()).as_deref(), Ok(text));
            assert_eq!(read(text.as_bytes()).as_deref(), Ok(text));
        }
        for broken in [&[0xff, 0xfe, 0x61][..], &[0xff, 0xfe, 0x00, 0xd8], &[0xfe, 0xff, 0xdc, 0x00, 0x00, 0x61]] {
            assert_eq!(read(broken).unwrap_err(), "not UTF-16 text; save it as UTF-8", "{broken:?}");
        }
    }
}
