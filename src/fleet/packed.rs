//! JSON compressed with zstd.

use std::io::Read as _;

use serde::{Serialize, de::DeserializeOwned};

/// The level of compression; higher ones take longer than they save.
const LEVEL: i32 = 3;
/// The most bytes of JSON that are unpacked: more is not what kaudit writes.
const MOST_BYTES: u64 = 16 << 20;

/// Returns the JSON of a value, which is the same for equal values.
///
/// # Errors
/// None in practice, since it is written to memory.
pub(crate) fn json(value: &impl Serialize) -> Result<Vec<u8>, String> {
    serde_json::to_vec(value).map_err(|error| error.to_string())
}

/// Compresses JSON.
///
/// # Errors
/// None in practice, since it is written to memory.
pub(crate) fn pack(json: &[u8]) -> Result<Vec<u8>, String> {
    zstd::bulk::compress(json, LEVEL).map_err(|error| error.to_string())
}

/// Decompresses JSON.
///
/// # Errors
/// If it is damaged, or larger than what kaudit writes.
pub(crate) fn unpack(packed: &[u8]) -> Result<Vec<u8>, String> {
    let decoder = zstd::Decoder::new(packed).map_err(|error| error.to_string())?;
    let mut json = Vec::new();
    decoder.take(MOST_BYTES + 1).read_to_end(&mut json).map_err(|error| format!("is damaged: {error}"))?;
    if json.len() as u64 > MOST_BYTES { Err("is larger than 16 MiB".into()) } else { Ok(json) }
}

/// Reads a value from compressed JSON.
///
/// # Errors
/// If it is damaged, or written by a version of kaudit that differs too much.
pub(crate) fn read<T: DeserializeOwned>(packed: &[u8]) -> Result<T, String> {
    read_measured(packed).map(|(value, _)| value)
}

/// Reads a value, with about the bytes of memory that it takes: short texts take eight times those of their JSON.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_measured<T: DeserializeOwned>(packed: &[u8]) -> Result<(T, usize), String> {
    let json = unpack(packed)?;
    let value = serde_json::from_slice(&json).map_err(|error| error.to_string())?;
    Ok((value, json.len() * 8))
}
