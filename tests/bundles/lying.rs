//! Registries and servers that send wrong, slow, redirected or dangerous responses.

use std::{collections::BTreeMap, fs, path::Path};

use data_encoding::BASE64;
use kaudit_test_support::files::write;
use serde_json::{Value, json};

use super::{
    program::{ProgramOutput, check, policy, run},
    server::{ServerAnswer, answer, digest, serve},
};

const POLICY: &str = "application/vnd.cncf.openpolicyagent.policy.layer.v1+rego";

fn manifest(media_type: &str, digest: &str, size: usize, title: &str) -> String {
    let layer = json!({"mediaType": media_type, "digest": digest, "size": size,
        "annotations": {"org.opencontainers.image.title": title}});
    json!({"schemaVersion": 2, "layers": [layer]}).to_string()
}

/// Checks with an artifact of a registry that has just this content, by path below the repository.
fn checked(things: &[(&str, ServerAnswer)], reference: &str) -> ProgramOutput {
    let things: BTreeMap<String, Vec<u8>> = things
        .iter()
        .filter_map(|(path, answer)| match answer {
            ServerAnswer::Bytes(bytes) => Some((format!("/v2/p/{path}"), bytes.clone())),
            ServerAnswer::Silence => None,
        })
        .collect();
    let (host, _) = serve(move |request| match things.get(&request.path) {
        Some(bytes) => ServerAnswer::Bytes(bytes.clone()),
        None if request.path.ends_with("silent") => ServerAnswer::Silence,
        None => answer("404 Not Found", &[], b""),
    });
    let directory = tempfile::tempdir().unwrap();
    check(directory.path(), &[], &format!("oci://{host}/p{reference}"), &["--bundle-timeout", "2s"])
}

fn ok(body: &str) -> ServerAnswer {
    answer("200 OK", &[], body.as_bytes())
}

#[test]
fn content_that_does_not_match_its_digest_is_refused() {
    let module = policy("as published");
    let named = digest(module.as_bytes());
    let honest = manifest(POLICY, &named, module.len(), "own.rego");
    let blob = format!("blobs/{named}");
    assert_eq!(checked(&[("manifests/1", ok(&honest)), (&blob, ok(&module))], ":1").messages(), ["as published"]);

    let other = policy("as replaced");
    let pinned = format!("manifests/{}", digest(b"another"));
    let lies = answer("200 OK", &[("Docker-Content-Digest", &digest(b"another"))], honest.as_bytes());
    let long = manifest(POLICY, &named, 1 << 40, "own.rego");
    let [empty, short, longer] =
        [0, module.len() - 1, module.len() + 1].map(|size| manifest(POLICY, &named, size, "own.rego"));
    let odd = manifest(POLICY, "sha256:../../../secret", 1, "own.rego");
    let outside = manifest(POLICY, &named, module.len(), "../own.rego");
    let image = manifest("application/vnd.docker.image.rootfs.diff.tar.gzip", &named, module.len(), "");
    let image = image.replace("org.opencontainers.image.title", "x");
    for (things, reference, want) in [
        (vec![("manifests/1", ok(&honest)), (&*blob, ok(&other))], ":1".to_owned(), "does not match its digest"),
        (vec![(&*pinned, ok(&honest))], format!("@{}", digest(b"another")), "does not match its digest"),
        (vec![("manifests/1", lies)], ":1".to_owned(), "does not match its digest"),
        (vec![("manifests/1", ok(&long))], ":1".to_owned(), "more than the limit of"),
        (vec![("manifests/1", ok(&empty)), (&*blob, ok(&module))], ":1".to_owned(), "the manifest declares 0"),
        (vec![("manifests/1", ok(&short)), (&*blob, ok(&module))], ":1".to_owned(), "the manifest declares"),
        (vec![("manifests/1", ok(&longer)), (&*blob, ok(&module))], ":1".to_owned(), "the manifest declares"),
        (vec![("manifests/1", ok(&odd))], ":1".to_owned(), "a digest of an unsupported algorithm"),
        (vec![("manifests/1", ok(&outside)), (&*blob, ok(&module))], ":1".to_owned(), "leads out of the archive"),
        (vec![("manifests/1", ok(&image))], ":1".to_owned(), "is not a bundle of policies"),
        (vec![("manifests/1", ok(&"[".repeat(5 << 20)))], ":1".to_owned(), "exceeds the limit of 4194304 bytes"),
        (vec![("manifests/1", ok(&"[".repeat(1 << 20)))], ":1".to_owned(), "cannot be used"),
        (vec![("manifests/1", ok("{}"))], ":1".to_owned(), "it has no layers"),
        // Either of two timeouts of 2 s may expire first.
        (vec![], ":silent".to_owned(), "within 2 s|did not respond in time"),
        (vec![("manifests/1", answer("500 Oops", &[], b"\x1b[2Jout of order"))], ":1".to_owned(), "500"),
    ] {
        let output = checked(&things, &reference);
        assert_eq!(output.code, 2, "{reference}: {}", output.out);
        let is_reported = want.split('|').any(|want| output.err.contains(want));
        assert!(is_reported && !output.err.contains('\x1b'), "{want}: {}", output.err);
    }
}

#[test]
fn signatures_are_bounded_in_number_and_size() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    fs::write(at.join("key"), "shared").unwrap();
    let module = policy("own");
    let honest = manifest(POLICY, &digest(module.as_bytes()), module.len(), "own.rego");
    let of_bundle = "application/vnd.dev.sigstore.bundle.v0.3+json";
    for (referrers, layers, size, most) in [(1, 800, 100, 16), (40, 3, 100, 16), (16, 1, (1 << 20) - 8, 4)] {
        // Each layer is another, unusable signature.
        let content =
            |referrer: usize, layer: usize| format!("{:8}", referrer * layers + layer) + &" ".repeat(size - 8);
        let index = |referrer: usize| {
            let layers = (0..layers).map(|layer| digest(content(referrer, layer).as_bytes()));
            let layers: Vec<Value> =
                layers.map(|digest| json!({"mediaType": of_bundle, "digest": digest, "size": size})).collect();
            json!({"layers": layers}).to_string()
        };
        let indexes: Vec<String> = (0..referrers).map(index).collect();
        let listed = indexes.iter().map(|index| {
            json!({"mediaType": "x", "size": index.len(), "artifactType": of_bundle, "digest": digest(index.as_bytes())})
        });
        let listed = json!({"manifests": listed.collect::<Vec<_>>()}).to_string();
        let signatures = (0..referrers).flat_map(|referrer| (0..layers).map(move |layer| content(referrer, layer)));
        let mut things: BTreeMap<String, String> =
            signatures.chain(indexes).chain([module.clone()]).map(|thing| (digest(thing.as_bytes()), thing)).collect();
        things.insert("1".to_owned(), honest.clone());
        let (host, log) = serve(move |request| {
            let name = request.path.rsplit('/').next().unwrap_or_default();
            match things.get(name) {
                _ if request.path.contains("/referrers/") => ok(&listed),
                Some(thing) => ok(thing),
                None => answer("404 Not Found", &[], b""),
            }
        });
        let output = check(at, &[], &format!("oci://{host}/p:1"), &["--verification-key", "key"]);
        assert!(
            output.code == 2 && ["by other keys", "the limit of"].iter().any(|why| output.err.contains(why)),
            "{}",
            output.err
        );
        let read = log.lock().unwrap().iter().filter(|request| request.contains("/blobs/")).count();
        // One of the blobs is the module.
        assert!((2..=1 + most).contains(&read), "{referrers} × {layers} of {size} bytes: {read} were read");
    }
}

/// Packs files, with names relative to a directory.
fn packed(at: &Path, names: &[&str]) -> Vec<u8> {
    let done = run("tar", at, &[], &[&["-czf", "packed"], names].concat());
    assert_eq!(done.code, 0, "{}", done.err);
    fs::read(at.join("packed")).unwrap()
}

#[test]
fn each_layout_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let at = directory.path();
    write(at, &[("own.rego", &policy("archive")), ("templates/own.rego", &policy("directory"))]);
    let (archive, folder) = (packed(at, &["own.rego"]), packed(at, &["templates"]));
    let other = packed(at, &["templates", "own.rego"]);
    let of_opa = "application/vnd.oci.image.layer.v1.tar+gzip";
    let of_trivy = "application/vnd.cncf.openpolicyagent.layer.v1.tar+gzip";
    let layer = |media_type: &str, content: &[u8], annotations: Value| json!({"mediaType": media_type, "digest": digest(content), "size": content.len(), "annotations": annotations});
    let title = |name: &str| json!({"org.opencontainers.image.title": name});
    let unpacked = json!({"org.opencontainers.image.title": "templates", "io.deis.oras.content.unpack": "true"});
    for (name, layers, want) in [
        // The first layer counts, as for OPA.
        ("OPA", vec![layer(of_opa, &archive, Value::Null), layer(of_opa, &other, Value::Null)], "archive"),
        ("OPA by ORAS", vec![layer(of_opa, &archive, title("bundle.tar.gz"))], "archive"),
        ("Trivy", vec![layer(of_trivy, &archive, title("bundle.tar.gz"))], "archive"),
        ("gator", vec![layer(of_opa, &folder, unpacked)], "directory"),
    ] {
        let manifest = json!({"schemaVersion": 2, "layers": layers}).to_string();
        let blob = |content: &[u8]| (format!("blobs/{}", digest(content)), answer("200 OK", &[], content));
        let blobs = [blob(&archive), blob(&folder), blob(&other)];
        let mut things: Vec<(&str, ServerAnswer)> = vec![("manifests/1", ok(&manifest))];
        things.extend(blobs.iter().filter_map(|(path, answer)| match answer {
            ServerAnswer::Bytes(bytes) => Some((path.as_str(), ServerAnswer::Bytes(bytes.clone()))),
            ServerAnswer::Silence => None,
        }));
        let output = checked(&things, ":1");
        assert_eq!(output.code, 1, "{name}: {}", output.err);
        assert_eq!(output.messages(), [want], "{name}: {}", output.err);
    }
}

#[test]
fn odd_challenges_do_not_crash() {
    for challenge in [
        "Bearer",
        "Bearer realm=\"file:///etc/passwd\"",
        "Bearer realm=\"http://registry.example.com/token\"",
        "Basic realm=\"x\"",
        "Negotiate",
        "=\"=,",
    ] {
        let challenges = [("WWW-Authenticate", challenge)];
        let output = checked(&[("manifests/1", answer("401 Unauthorized", &challenges, b""))], ":1");
        assert_eq!(output.code, 2, "{challenge}: {}", output.err);
        assert!(output.err.contains("401") || output.err.contains("token"), "{challenge}: {}", output.err);
    }
    // A token that is not a valid header value.
    let (realm, _) = serve(|_| ok(r#"{"token": "a\nb"}"#));
    let challenge = format!("Bearer realm=\"http://{realm}/token\",service=\"x\"");
    let output =
        checked(&[("manifests/1", answer("401 Unauthorized", &[("WWW-Authenticate", &challenge)], b""))], ":1");
    assert!(output.code == 2 && output.err.contains("401"), "{}", output.err);
}

#[test]
fn credentials_do_not_follow_redirects() {
    let module = policy("from elsewhere");
    let named = digest(module.as_bytes());
    let (body, elsewhere) = (module.clone(), named.clone());
    let (store, _) = serve(move |request| {
        assert!(request.path.ends_with(&elsewhere), "{}", request.path);
        if request.headers.contains("authorization") { answer("400 Bad Request", &[], b"leaked") } else { ok(&body) }
    });
    let honest = manifest(POLICY, &named, module.len(), "own.rego");
    let (host, log) = serve(move |request| {
        if !request.headers.contains("authorization: basic") {
            return answer("401 Unauthorized", &[("WWW-Authenticate", "Basic realm=\"x\"")], b"");
        }
        if request.path.contains("/blobs/") {
            return answer("307 Temporary Redirect", &[("Location", &format!("http://{store}{}", request.path))], b"");
        }
        ok(&honest)
    });
    let directory = tempfile::tempdir().unwrap();
    let login = format!(r#"{{"auths": {{"{host}": {{"auth": "{}"}}}}}}"#, BASE64.encode(b"user:secret"));
    fs::write(directory.path().join("config.json"), login).unwrap();
    let variables = [("DOCKER_CONFIG", directory.path().to_str().unwrap())];
    let output = check(directory.path(), &variables, &format!("oci://{host}/p:1"), &[]);
    assert_eq!(output.messages(), ["from elsewhere"], "{} {:?}", output.err, log.lock().unwrap());
}

#[test]
fn unsafe_addresses_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    for (policies, want) in [
        ("http://bundles.example.com/b.tar.gz", "without TLS"),
        ("https://user:hunter2@bundles.example.com/b.tar.gz", "contains credentials"),
        ("oci://bundles.example.com", "names no repository"),
        ("oci://policies/team:v1", "not a registry"),
    ] {
        let output = check(directory.path(), &[], policies, &[]);
        assert!(output.code == 2 && output.err.contains(want), "{policies}: {}", output.err);
        assert!(!output.err.contains("hunter2"), "{}", output.err);
    }
}
