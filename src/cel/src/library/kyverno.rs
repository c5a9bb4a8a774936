//! Functions that only policies of Kyverno have, as far as they depend on their arguments alone.

use data_encoding::{BASE64, HEXLOWER};
use sha2::{Digest as _, Sha256};

use super::{EvaluatedValue, Table, argument, maps, text};
use crate::{
    error::{failed, no_overload},
    value::CelValue,
};

/// The prefix of the user names of service accounts.
const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

pub(super) const TABLE: Table = &[
    ("base64_decode_string", decode),
    ("base64_encode_bytes", |values| match argument(values, 0)? {
        CelValue::Bytes(bytes) => Ok(CelValue::from(BASE64.encode(bytes))),
        _ => no_overload(),
    }),
    ("parse_service_account_string_non_prefixed", service_account),
    ("parse_service_account_string_prefixed", service_account),
    ("sha256_string_non_prefixed", sha256),
    ("sha256_string_prefixed", sha256),
];

fn decode<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let text = text(values, 0)?;
    let decoded = BASE64.decode(text.as_bytes());
    // Padding may be missing.
    let decoded = decoded.or_else(|_| data_encoding::BASE64_NOPAD.decode(text.as_bytes()));
    decoded.map_or_else(|why| failed(why.to_string()), |bytes| Ok(CelValue::Bytes(bytes.into())))
}

fn service_account<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    let account = text(values, 0)?.strip_prefix(SERVICE_ACCOUNT).and_then(|account| account.split_once(':'));
    let (namespace, name) = account.unwrap_or_default();
    let field = |name: &str, value: &str| (CelValue::from(name), CelValue::from(value));
    maps::from_entries(vec![field("Namespace", namespace), field("Name", name)])
}

fn sha256<'v>(values: &[CelValue<'v>]) -> EvaluatedValue<'v> {
    Ok(CelValue::from(HEXLOWER.encode(&Sha256::digest(text(values, 0)?))))
}
