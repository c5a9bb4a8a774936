//! `crypto.*`: digests and message authentication.

use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use md5::Md5;
use regorus::Value;
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha512};

use super::call::{Builtin, BuiltinResult, failed, string};

pub(super) const TABLE: &[Builtin] = &[
    ("crypto.hmac.equal", 2, equal),
    ("crypto.hmac.md5", 2, |arguments| authenticated(arguments, Hmac::<Md5>::new_from_slice)),
    ("crypto.hmac.sha1", 2, |arguments| authenticated(arguments, Hmac::<Sha1>::new_from_slice)),
    ("crypto.hmac.sha256", 2, |arguments| authenticated(arguments, Hmac::<Sha256>::new_from_slice)),
    ("crypto.hmac.sha512", 2, |arguments| authenticated(arguments, Hmac::<Sha512>::new_from_slice)),
    ("crypto.md5", 1, digest::<Md5>),
    ("crypto.sha1", 1, digest::<Sha1>),
    ("crypto.sha256", 1, digest::<Sha256>),
];

fn digest<D: Digest>(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(HEXLOWER.encode(&D::digest(string(arguments, 0)?))))
}

fn authenticated<M: Mac, E>(arguments: &[Value], with_key: fn(&[u8]) -> Result<M, E>) -> BuiltinResult {
    let (message, key) = (string(arguments, 0)?, string(arguments, 1)?);
    let Ok(mut mac) = with_key(key.as_bytes()) else { return failed("unsupported key length") };
    mac.update(message.as_bytes());
    Ok(Value::from(HEXLOWER.encode(&mac.finalize().into_bytes())))
}

fn equal(arguments: &[Value]) -> BuiltinResult {
    Ok(Value::from(string(arguments, 0)? == string(arguments, 1)?))
}
