//! Documents that an earlier kaudit wrote: audits and baselines, in files or pipes, compressed or not.

use std::{fs, io, io::Read as _, path::Path};

use serde::Deserialize;

use crate::cluster::identity::API_VERSION;

/// The largest size of an unpacked document, in bytes.
const LARGEST: u64 = 2 * 1024 * 1024 * 1024;
/// The first bytes of gzip data.
const GZIP: [u8; 2] = [0x1f, 0x8b];
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

/// The type that a JSON document declares.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DocumentType {
    pub(crate) api_version: String,
    pub(crate) kind: String,
}

/// A file, unpacked.
pub(crate) struct UnpackedFile {
    /// Without a byte order mark.
    pub(crate) content: Vec<u8>,
    /// Whether the file was compressed with gzip.
    pub(crate) compressed: bool,
}

impl UnpackedFile {
    /// Reads a file or a pipe.
    pub(crate) fn read(path: &Path) -> io::Result<Self> {
        Self::unpack(fs::read(path)?)
    }

    fn unpack(bytes: Vec<u8>) -> io::Result<Self> {
        let compressed = bytes.starts_with(&GZIP);
        let mut content = bytes;
        if compressed {
            let mut unpacked = Vec::new();
            flate2::read::MultiGzDecoder::new(&*content).take(LARGEST + 1).read_to_end(&mut unpacked)?;
            if unpacked.len() as u64 > LARGEST {
                return Err(io::Error::other(format!("it is larger than {LARGEST} bytes once it is unpacked")));
            }
            content = unpacked;
        }
        if content.starts_with(BYTE_ORDER_MARK) {
            content.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Self { content, compressed })
    }

    /// Returns the type of the document; `None` if it is not JSON or declares none.
    pub(crate) fn document_type(&self) -> Option<DocumentType> {
        serde_json::from_slice(&self.content).ok()
    }

    /// Checks that the document declares this kind, or none.
    ///
    /// # Errors
    /// If it declares another one.
    pub(crate) fn expect(&self, kind: &str, path: &Path) -> anyhow::Result<()> {
        let Some(declared) = self.document_type() else { return Ok(()) };
        anyhow::ensure!(
            declared.kind == kind && declared.api_version == API_VERSION,
            "{}: expected kind {kind} of {API_VERSION}, found {} of {}",
            path.display(),
            declared.kind,
            declared.api_version
        );
        Ok(())
    }
}
