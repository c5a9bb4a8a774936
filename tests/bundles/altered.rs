//! Randomly altered keyless signatures: kaudit only approves what sigstore-go approves.

use std::{collections::BTreeMap, fmt::Write as _, path::Path, sync::Arc, time::Duration};

use data_encoding::BASE64;
use fastrand::Rng;
use kaudit::{
    bundle::{
        follower::follow,
        settings::{BundleSettings, KeylessIdentity, NameMatcher, Verification},
    },
    judge::bundle::BundleReference,
};
use kaudit_controlplane::{Tool, require_tool};
use kaudit_test_support::settings::setting;
use serde_json::{Value, json};

use super::{
    artifact::FakeRegistry,
    keyless::{EXACT, FORMS, ISSUER, SUBJECT, Signature, Sigstore},
};

/// Number of altered signatures per form, unless `KAUDIT_TEST_ALTERATIONS` is set.
const ALTERATIONS: u64 = 60;

/// A known difference: one of the two verifiers refuses what the other approves, by form and altered place, with an
/// example.
struct Difference {
    form: &'static str,
    place: &'static str,
    /// The error of the verifier that refuses.
    says: &'static str,
    is_refused_by: &'static str,
    /// Makes this alteration.
    example: fn(&mut Value),
}

/// Where only kaudit approves, no signed content differs; kaudit also refuses more cases than these.
const KNOWN: [Difference; 16] = [
    // kaudit ignores unknown fields.
    Difference {
        form: "",
        place: "",
        says: "unknown field",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| bundle["x"] = json!(1),
    },
    Difference {
        form: "",
        place: "/mediaType removed",
        says: "unsupported media type",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| {
            bundle.as_object_mut().unwrap().remove("mediaType");
        },
    },
    // One entry is enough.
    Difference {
        form: "",
        place: "/tlogEntries",
        says: "duplicate tlog entries",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| {
            let entries = bundle["verificationMaterial"]["tlogEntries"].as_array_mut().unwrap();
            entries.extend(entries.first().cloned());
        },
    },
    // In Rekor v2, the log is identified by the key that signed its checkpoint.
    Difference {
        form: "tiles",
        place: "/logId",
        says: "not enough verified log entries",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| {
            *entry(bundle, "/logId/keyId") = BASE64.encode(&[7; 32]).into();
        },
    },
    // Only the text above the signatures is signed.
    Difference {
        form: "",
        place: "/checkpoint/envelope",
        says: " note",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| {
            let envelope = entry(bundle, "/inclusionProof/checkpoint/envelope");
            *envelope = envelope.as_str().unwrap().trim_end().into();
        },
    },
    Difference {
        form: "annotations",
        place: "/dev.sigstore.cosign~1certificate",
        says: "certificate does not match",
        is_refused_by: SIGSTORE_GO,
        example: |annotations| {
            let certificate = &mut annotations["dev.sigstore.cosign/certificate"];
            *certificate = certificate.as_str().unwrap().replace('\n', "").into();
        },
    },
    // Different number formats.
    Difference {
        form: "",
        place: "",
        says: "invalid value for",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| *entry(bundle, "/logIndex") = json!("01001"),
    },
    Difference {
        form: "tiles",
        place: "/logId",
        says: "nil value",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| *entry(bundle, "/logId/keyId") = json!(""),
    },
    // The key determines the algorithm.
    Difference {
        form: "tiles",
        place: "/signedTimestamp",
        says: "unsupported algorithm",
        is_refused_by: SIGSTORE_GO,
        example: |bundle| {
            let place = "/verificationMaterial/timestampVerificationData/rfc3161Timestamps/0/signedTimestamp";
            let token = bundle.pointer_mut(place).unwrap();
            let mut bytes = BASE64.decode(token.as_str().unwrap().as_bytes()).unwrap();
            let ecdsa_with_sha384 = [0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x03];
            let at = bytes.windows(8).rposition(|window| window == ecdsa_with_sha384).unwrap();
            bytes[at] = 0x0a;
            *token = BASE64.encode(&bytes).into();
        },
    },
    // kaudit requires every part to be valid, even if another part would suffice.
    Difference {
        form: "bundle",
        place: "imestamp",
        says: "invalid RFC 3161 timestamp",
        is_refused_by: KAUDIT,
        example: |bundle| {
            let stamps = &mut bundle["verificationMaterial"]["timestampVerificationData"]["rfc3161Timestamps"];
            stamps[0]["signedTimestamp"] = BASE64.encode(b"none").into();
        },
    },
    Difference {
        form: "annotations",
        place: "imestamp",
        says: "invalid RFC 3161 timestamp",
        is_refused_by: KAUDIT,
        example: |annotations| {
            let stamp = json!({"SignedRFC3161Timestamp": BASE64.encode(b"none")});
            annotations["dev.sigstore.cosign/rfc3161timestamp"] = stamp.to_string().into();
        },
    },
    Difference {
        form: "annotations",
        place: "imestamp",
        says: "invalid annotations",
        is_refused_by: KAUDIT,
        example: |annotations| {
            annotations["dev.sigstore.cosign/rfc3161timestamp"] = json!({}).to_string().into();
        },
    },
    Difference {
        form: "annotations",
        place: "chain",
        says: "JSON error",
        is_refused_by: KAUDIT,
        example: |annotations| {
            let chain = &mut annotations["dev.sigstore.cosign/chain"];
            *chain = chain.as_str().unwrap().replacen("MI", "%%", 1).into();
        },
    },
    Difference {
        form: "bundle",
        place: "",
        says: "JSON error",
        is_refused_by: KAUDIT,
        example: |bundle| {
            *entry(bundle, "/kindVersion/kind") = json!("other");
        },
    },
    Difference {
        form: "tiles",
        place: "",
        says: "JSON error",
        is_refused_by: KAUDIT,
        example: |bundle| {
            *entry(bundle, "/inclusionProof/rootHash") = json!("");
        },
    },
    // sigstore-go recomputes it.
    Difference {
        form: "tiles",
        place: "/canonicalizedBody",
        says: "inclusion proof",
        is_refused_by: KAUDIT,
        example: |bundle| {
            *entry(bundle, "/canonicalizedBody") = BASE64.encode(b"{\"apiVersion\":\"0.0.2\",\"kind\":\"hashedrekord\",\"spec\":{\"hashedRekordV002\":{\"data\":{\"algorithm\":\"SHA2_256\",\"digest\":\"AA==\"},\"signature\":{\"content\":\"AA==\",\"verifier\":{\"keyDetails\":\"PKIX_ECDSA_P256_SHA_256\",\"x509Certificate\":{\"rawBytes\":\"AA==\"}}}}}}").into();
        },
    },
];
const SIGSTORE_GO: &str = "sigstore-go";
const KAUDIT: &str = "kaudit";

/// Returns a part of a bundle's log entry.
fn entry<'b>(bundle: &'b mut Value, place: &str) -> &'b mut Value {
    bundle.pointer_mut(&format!("/verificationMaterial/tlogEntries/0{place}")).unwrap()
}

/// Whether it is a known difference that kaudit approves this.
fn is_known(form: &str, what: &str, reference: &str) -> bool {
    KNOWN
        .iter()
        .filter(|known| known.is_refused_by == SIGSTORE_GO)
        .any(|known| form.contains(known.form) && what.contains(known.place) && reference.contains(known.says))
}

#[tokio::test]
async fn known_differences_from_sigstore_go_still_exist() {
    if !require_tool(Tool::Sigstore) {
        return;
    }
    let (mut sigstore, registry, directory) = (Sigstore::start(), FakeRegistry::new(), tempfile::tempdir().unwrap());
    let own = registry.artifact.digest.clone();
    for Difference { form, place, says, is_refused_by, example } in KNOWN {
        let form = if form.is_empty() { "bundle" } else { form };
        let mut signature = sigstore.sign(form, &own, &json!({}));
        example(signature.annotations.as_mut().or(signature.bundle.as_mut()).unwrap());
        let reference = sigstore.refusal(&signature, &own, EXACT);
        let refusal = refusal(directory.path(), &registry, &signature).await;
        let (error, other) = if is_refused_by == KAUDIT { (&refusal, &reference) } else { (&reference, &refusal) };
        assert!(
            error.contains(says) && other.is_empty(),
            "{form} {place}: sigstore-go: {reference}\nkaudit: {refusal}"
        );
    }
}

/// Returns why kaudit refuses a signature; empty if it approves.
async fn refusal(at: &Path, registry: &FakeRegistry, signature: &Signature) -> String {
    let root = at.join("root.json");
    std::fs::write(&root, signature.root.to_string()).unwrap();
    registry.attach(signature.beside(registry));
    let (subject, issuer) = (NameMatcher::Exact(SUBJECT.to_owned()), NameMatcher::Exact(ISSUER.to_owned()));
    let identity = match KeylessIdentity::read(subject, issuer, &root) {
        Ok(identity) => identity,
        Err(error) => return format!("{error:#}"),
    };
    let verification = Some(Arc::new(Verification::Keyless(Box::new(identity))));
    let settings = BundleSettings {
        poll: None,
        timeout: Duration::from_mins(1),
        cache: None,
        ca: None,
        verification,
        repository: None,
    };
    let reference = BundleReference::Oci(registry.reference().trim_start_matches("oci://").to_owned());
    follow(&reference, &settings).await.err().map_or(String::new(), |error| format!("{error:#}"))
}

/// Returns the paths of all values below a value, including those in strings that contain JSON.
fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
    found.push(path.to_owned());
    match value {
        Value::Object(fields) => {
            for (key, field) in fields {
                paths(field, &format!("{path}/{}", key.replace('~', "~0").replace('/', "~1")), found);
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                paths(item, &format!("{path}/{index}"), found);
            }
        }
        _ => {}
    }
}

/// Alters a text: directly, in its decoded form, or within the JSON that it contains or encodes.
fn altered_text(text: &str, random: &mut Rng) -> Value {
    let inner = |decoded: &[u8], random: &mut Rng| {
        let json: Option<Value> = serde_json::from_slice(decoded).ok().filter(Value::is_object);
        json.map(|mut json| {
            alter(&mut json, random);
            json.to_string()
        })
    };
    if random.bool()
        && let Some(altered) = inner(text.as_bytes(), random)
    {
        return altered.into();
    }
    if let Some(decoded) = BASE64.decode(text.as_bytes()).ok().filter(|decoded| decoded.len() > 3) {
        if random.bool()
            && let Some(altered) = inner(&decoded, random)
        {
            return BASE64.encode(altered.as_bytes()).into();
        }
        if random.u8(..4) > 0 {
            return BASE64.encode(&altered_bytes(decoded, random)).into();
        }
    }
    let bytes = altered_bytes(text.as_bytes().to_vec(), random);
    String::from_utf8_lossy(&bytes).into_owned().into()
}

fn altered_bytes(mut bytes: Vec<u8>, random: &mut Rng) -> Vec<u8> {
    let at = random.usize(..=bytes.len());
    match random.u8(..6) {
        0 => bytes.truncate(at),
        1 => bytes.insert(at, random.u8(..)),
        2 => bytes.push(b' '),
        _ if at < bytes.len() => bytes[at] ^= 1 << random.u8(..8),
        _ => bytes.clear(),
    }
    bytes
}

/// Alters one value somewhere below a value; returns its path.
fn alter(value: &mut Value, random: &mut Rng) -> String {
    let mut found = Vec::new();
    paths(value, "", &mut found);
    let path = random.choice(found).unwrap();
    let (above, key) = path.rsplit_once('/').unwrap_or_default();
    let remove = random.u8(..5) == 0 && !key.is_empty();
    if remove {
        match value.pointer_mut(above).unwrap() {
            Value::Object(fields) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
            Value::Array(items) => drop(items.remove(key.parse().unwrap())),
            _ => {}
        }
        return format!("{path} removed");
    }
    let place = value.pointer_mut(&path).unwrap();
    *place = match place.take() {
        Value::String(text) => altered_text(&text, random),
        Value::Number(number) => (number.as_i64().unwrap_or_default() + random.i64(-2..3)).into(),
        Value::Array(mut items) => {
            items.extend(items.first().cloned());
            items.into()
        }
        Value::Object(mut fields) => {
            fields.insert("added".to_owned(), json!("1"));
            fields.into()
        }
        other => other,
    };
    path
}

/// Alters a signature, or replaces a part of it by that of another.
fn altered(signature: &Signature, other: &Signature, random: &mut Rng) -> (Signature, String) {
    let mut altered = signature.clone();
    let parts = |signature: &Signature| signature.annotations.clone().or_else(|| signature.bundle.clone()).unwrap();
    let (mut own, others) = (parts(signature), parts(other));
    let what = match random.u8(..8) {
        0 if signature.annotations.is_some() => {
            altered.payload = match altered_text(&altered.payload, random) {
                Value::String(text) => text,
                _ => String::new(),
            };
            "the payload".to_owned()
        }
        1 | 2 => {
            let mut found = Vec::new();
            paths(&others, "", &mut found);
            found.retain(|path| own.pointer(path).is_some());
            let path = random.choice(found).unwrap();
            *own.pointer_mut(&path).unwrap() = others.pointer(&path).unwrap().clone();
            format!("{path} of another")
        }
        _ => alter(&mut own, random),
    };
    if altered.annotations.is_some() {
        altered.annotations = Some(own);
    } else {
        altered.bundle = Some(own);
    }
    (altered, what)
}

#[tokio::test]
async fn altered_signatures_are_approved_only_if_sigstore_go_approves() {
    if !require_tool(Tool::Sigstore) {
        return;
    }
    let seed = setting("KAUDIT_TEST_SEED").unwrap_or(1);
    let alterations = setting("KAUDIT_TEST_ALTERATIONS").unwrap_or(ALTERATIONS);
    let (mut sigstore, registry, directory) = (Sigstore::start(), FakeRegistry::new(), tempfile::tempdir().unwrap());
    let (own, mut random) = (registry.artifact.digest.clone(), Rng::with_seed(seed));
    let mut differences = String::new();
    for form in FORMS {
        let signature = sigstore.sign(form, &own, &json!({}));
        let others =
            [json!({}), json!({"subject": "dev@example.com"}), json!({"instance": "other"}), json!({"late": true})];
        let others: Vec<Signature> = others.iter().map(|how| sigstore.sign(form, &own, how)).collect();
        let mut counts = BTreeMap::new();
        for _ in 0..alterations {
            let other = random.choice(&others).unwrap();
            let (altered, what) = altered(&signature, other, &mut random);
            let reference = sigstore.refusal(&altered, &own, EXACT);
            let refusal = refusal(directory.path(), &registry, &altered).await;
            *counts.entry((reference.is_empty(), refusal.is_empty())).or_insert(0) += 1;
            if refusal.is_empty() && !reference.is_empty() && !is_known(form, &what, &reference) {
                writeln!(differences, "{form}: {what}\n  sigstore-go: {reference}\n  kaudit: {refusal}").unwrap();
            }
        }
        eprintln!("{form}: approved by sigstore-go and kaudit, or not: {counts:?}");
    }
    assert!(differences.is_empty(), "KAUDIT_TEST_SEED={seed}\n{differences}");
}
