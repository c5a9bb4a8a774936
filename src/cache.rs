//! The latest of each object, as compact bytes.

use std::{borrow::Cow, fmt, io, sync::Arc};

/// The JSON of one object, plain or compressed with the dictionary of its cache.
#[derive(Clone)]
pub struct Body {
    bytes: Arc<[u8]>,
    dictionary: Option<Arc<zstd::dict::DecoderDictionary<'static>>>,
}

impl Body {
    /// Wraps JSON as it is.
    pub fn plain(json: &[u8]) -> Self {
        Self { bytes: json.into(), dictionary: None }
    }

    /// Returns the JSON text.
    pub fn json(&self) -> io::Result<Cow<'_, [u8]>> {
        match &self.dictionary {
            None => Ok(Cow::Borrowed(&self.bytes)),
            Some(_) => Err(io::Error::other("not written yet")),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes)", self.bytes.len())
    }
}
