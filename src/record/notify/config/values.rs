//! Durations, sizes and counts in the receiver file.

use std::time::Duration;

use serde::{Deserialize, Deserializer, de::Error as _};

use crate::model::text;

/// How long a request may take.
pub(super) const TIMEOUT: Duration = Duration::from_secs(10);

/// A duration such as `10s`.
pub(super) struct Period(pub(super) Duration);

/// The same, or 0.
pub(super) struct Wait(pub(super) Duration);

/// A number of bytes such as `100Mi`.
pub(super) struct Size(pub(super) u64);

/// A count of at least 1.
pub(super) struct PositiveCount(pub(super) usize);

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let period = String::deserialize(deserializer)?;
        text::duration(&period).map(Self).map_err(|why| D::Error::custom(format!("{period:?}: {why}")))
    }
}

impl<'de> Deserialize<'de> for Wait {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wait = String::deserialize(deserializer)?;
        if wait.trim() == "0" {
            return Ok(Self(Duration::ZERO));
        }
        text::duration(&wait).map(Self).map_err(|why| D::Error::custom(format!("{wait:?}: {why}")))
    }
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let size = String::deserialize(deserializer)?;
        let units = [("Ki", 1 << 10), ("Mi", 1 << 20), ("Gi", 1_u64 << 30), ("", 1)];
        let parse = |(unit, bytes): &(&str, u64)| size.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(*bytes);
        let bytes = units.iter().find_map(parse).filter(|bytes| *bytes > 0);
        bytes
            .map(Self)
            .ok_or_else(|| D::Error::custom(format!("{size:?}: expected a size such as 512Ki, 100Mi or 1Gi")))
    }
}

impl<'de> Deserialize<'de> for PositiveCount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match usize::deserialize(deserializer)? {
            0 => Err(D::Error::custom("must be at least 1")),
            count => Ok(Self(count)),
        }
    }
}
