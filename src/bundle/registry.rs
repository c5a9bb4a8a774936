//! Reads and writes manifests and blobs of a repository in a registry, by the OCI Distribution Specification.
//!
//! Everything that a registry sends is bounded and compared with its digest, and none of it can end the process.

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, LOCATION, WWW_AUTHENTICATE},
};
use reqwest::Url;
use serde::{Deserialize, Serialize};

use super::{
    credential::RegistryCredential,
    digest::{check, digest_of, is_digest},
    http::{BundleResponse, FetchError, Http, Request, is_loopback, secret},
    name::ArtifactName,
};

/// The maximum size of a manifest, in bytes; registries have the same limit.
const MANIFEST_BYTES: u64 = 4 << 20;
/// The maximum size of other responses (tokens, errors), in bytes.
const ANSWER_BYTES: u64 = 1 << 20;
/// The media type of a manifest.
pub(super) const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";
const ACCEPTED: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
                        application/vnd.oci.image.index.v1+json";
/// The header with the digest of the content.
const CONTENT_DIGEST: &str = "docker-content-digest";

/// A reference to a blob in a manifest.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Descriptor {
    pub(super) media_type: String,
    pub(super) digest: String,
    pub(super) size: u64,
    #[serde(default, skip_serializing_if = "serde_json::Map::is_empty", deserialize_with = "or_default")]
    pub(super) annotations: serde_json::Map<String, serde_json::Value>,
    #[serde(default, skip_serializing)]
    pub(super) artifact_type: Option<String>,
}

impl Descriptor {
    /// Returns an annotation.
    pub(super) fn annotation(&self, name: &str) -> Option<&str> {
        self.annotations.get(name)?.as_str()
    }
}

/// A manifest of an artifact, or an index of several.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct ArtifactManifest {
    #[serde(default)]
    pub(super) layers: Vec<Descriptor>,
    #[serde(default)]
    pub(super) manifests: Vec<Descriptor>,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) annotations: serde_json::Map<String, serde_json::Value>,
}

/// Returns the default for `null`, which Go writes for empty values.
fn or_default<'de, D: serde::Deserializer<'de>, T: Default + Deserialize<'de>>(deserializer: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A client of one repository, with its authorization.
pub(super) struct Registry {
    http: Http,
    name: ArtifactName,
    /// The prefix of all URLs; `None` before the first request.
    base: Option<Url>,
    authorization: Option<HeaderValue>,
    /// The actions for which tokens are requested: `pull`, or `pull,push`.
    actions: &'static str,
}

impl Registry {
    pub(super) fn new(http: Http, name: ArtifactName, actions: &'static str) -> Self {
        Self { http, name, base: None, authorization: None, actions }
    }

    /// Returns the digest of a manifest; `None` if the registry does not return it without the content.
    pub(super) async fn digest(&mut self, reference: &str) -> Result<Option<String>, FetchError> {
        let answer = self.request(Method::HEAD, &format!("manifests/{reference}"), ANSWER_BYTES).await?;
        match answer.status {
            StatusCode::OK => Ok(answer.header(CONTENT_DIGEST).map(str::to_owned)),
            // Some registries do not support HEAD.
            StatusCode::METHOD_NOT_ALLOWED => Ok(None),
            _ => Err(answer.refusal(format!("the manifest {reference} cannot be read"))),
        }
    }

    /// Reads a manifest, and returns its bytes too; `None` if there is none.
    pub(super) async fn manifest(
        &mut self,
        reference: &str,
    ) -> Result<Option<(ArtifactManifest, Vec<u8>)>, FetchError> {
        let answer = self.request(Method::GET, &format!("manifests/{reference}"), MANIFEST_BYTES).await?;
        match answer.status {
            StatusCode::OK => {}
            StatusCode::NOT_FOUND => return Ok(None),
            _ => return Err(answer.refusal(format!("the manifest {reference} cannot be read"))),
        }
        let declared = if reference.contains(':') { Some(reference) } else { answer.header(CONTENT_DIGEST) };
        if let Some(digest) = declared {
            check(digest, &answer.body)
                .map_err(|why| FetchError::Unacceptable(format!("the manifest {reference} {why}")))?;
        }
        let manifest = serde_json::from_slice(&answer.body)
            .map_err(|error| FetchError::Unacceptable(format!("the manifest {reference} cannot be used: {error}")))?;
        Ok(Some((manifest, answer.body)))
    }

    /// Lists the referrers of a manifest, by the API of the registry or else by the fallback tag.
    pub(super) async fn referrers(&mut self, digest: &str) -> Result<Vec<Descriptor>, FetchError> {
        let answer = self.request(Method::GET, &format!("referrers/{digest}"), MANIFEST_BYTES).await?;
        if answer.status == StatusCode::OK {
            let index: Result<ArtifactManifest, _> = serde_json::from_slice(&answer.body);
            return Ok(index.map(|index| index.manifests).unwrap_or_default());
        }
        let tagged = self.manifest(&digest.replace(':', "-")).await?;
        Ok(tagged.map(|(index, _)| index.manifests).unwrap_or_default())
    }

    /// Reads a blob of at most `limit` bytes, and of exactly the size in its descriptor.
    pub(super) async fn blob(&mut self, blob: &Descriptor, limit: u64) -> Result<Vec<u8>, FetchError> {
        let shown = crate::model::text::shortened(&blob.digest, 80);
        if blob.size > limit {
            return Err(FetchError::Unacceptable(format!(
                "the layer {shown} has {} bytes, more than the limit of {limit}",
                blob.size
            )));
        }
        if !is_digest(&blob.digest) {
            return Err(FetchError::Unacceptable(format!(
                "the layer {shown} has a digest of an unsupported algorithm"
            )));
        }
        // An error response may be longer than the blob.
        let answer = self.request(Method::GET, &format!("blobs/{}", blob.digest), blob.size.max(ANSWER_BYTES)).await?;
        if answer.status != StatusCode::OK {
            return Err(answer.refusal(format!("the layer {shown} cannot be read")));
        }
        check(&blob.digest, &answer.body)
            .map_err(|why| FetchError::Unacceptable(format!("the layer {shown} {why}")))?;
        // The limits were checked against the declared sizes.
        if answer.body.len() as u64 != blob.size {
            return Err(FetchError::Unacceptable(format!(
                "the layer {shown} has {} bytes, but the manifest declares {}",
                answer.body.len(),
                blob.size
            )));
        }
        Ok(answer.body)
    }

    /// Writes a blob if the registry does not have it; returns its digest.
    pub(super) async fn push_blob(&mut self, content: &[u8]) -> Result<String, FetchError> {
        let digest = digest_of(content);
        if self.request(Method::HEAD, &format!("blobs/{digest}"), ANSWER_BYTES).await?.status == StatusCode::OK {
            return Ok(digest);
        }
        let begun = self.request(Method::POST, "blobs/uploads/", ANSWER_BYTES).await?;
        let upload = begun.header(LOCATION.as_str()).and_then(|to| begun.url.join(to).ok());
        let (StatusCode::ACCEPTED, Some(mut upload)) = (begun.status, upload) else {
            return Err(begun.refusal("an upload cannot be started"));
        };
        if begun.url.origin() != upload.origin() && upload.scheme() != "https" {
            return Err(begun.refusal("an upload would go to another server without TLS"));
        }
        upload.query_pairs_mut().append_pair("digest", &digest);
        let headers = [(CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"))];
        let put = self.send(Method::PUT, upload, &headers, content, ANSWER_BYTES).await?;
        if put.status == StatusCode::CREATED { Ok(digest) } else { Err(put.refusal("a layer cannot be written")) }
    }

    /// Writes a manifest; returns its digest.
    pub(super) async fn push_manifest(&mut self, reference: &str, content: &[u8]) -> Result<String, FetchError> {
        let url = self.url(&format!("manifests/{reference}")).await?;
        let headers = [(CONTENT_TYPE, HeaderValue::from_static(MANIFEST_TYPE))];
        let put = self.send(Method::PUT, url, &headers, content, ANSWER_BYTES).await?;
        if put.status != StatusCode::CREATED {
            return Err(put.refusal("the manifest cannot be written"));
        }
        Ok(digest_of(content))
    }

    async fn request(&mut self, method: Method, path: &str, limit: u64) -> Result<BundleResponse, FetchError> {
        let url = self.url(path).await?;
        self.send(method, url, &[(ACCEPT, HeaderValue::from_static(ACCEPTED))], &[], limit).await
    }

    /// Sends a request, and repeats it with a credential if one is required.
    async fn send(
        &mut self,
        method: Method,
        url: Url,
        headers: &[(HeaderName, HeaderValue)],
        body: &[u8],
        limit: u64,
    ) -> Result<BundleResponse, FetchError> {
        let mut tried = false;
        loop {
            let mut all: HeaderMap = headers.iter().cloned().collect();
            // An upload may go to another server.
            if self.base.as_ref().is_some_and(|base| base.origin() == url.origin()) {
                all.extend(self.authorization.clone().map(|value| (AUTHORIZATION, value)));
            }
            let request = Request { method: method.clone(), url: url.clone(), headers: all, body, limit };
            let answer = self.http.send(request).await?;
            // After a redirect, another server requires a credential, which it must not get.
            let is_own = self.base.as_ref().is_some_and(|base| base.origin() == answer.url.origin());
            if answer.status != StatusCode::UNAUTHORIZED || !is_own || std::mem::replace(&mut tried, true) {
                return Ok(answer);
            }
            self.authorization = None;
            match self.authorize(&answer).await? {
                Some(value) => self.authorization = Some(value),
                None => return Ok(answer),
            }
        }
    }

    /// Returns the authorization that the response to an unauthorized request requires; `None` if there is no credential.
    async fn authorize(&self, refused: &BundleResponse) -> Result<Option<HeaderValue>, FetchError> {
        let challenges = refused.headers.get_all(WWW_AUTHENTICATE);
        let challenges: Vec<&str> = challenges.iter().filter_map(|value| value.to_str().ok()).collect();
        let credential = RegistryCredential::of(self.name.host()).await;
        if let Some(bearer) = challenges.iter().find_map(|text| scheme(text, "bearer")) {
            return self.token(bearer, credential).await.map(|token| secret(&format!("Bearer {token}")));
        }
        let basic = challenges.iter().any(|text| scheme(text, "basic").is_some());
        Ok(credential.filter(|_| basic).and_then(|credential| secret(&credential.basic()?)))
    }

    /// Requests a token from the server named in the challenge.
    async fn token(&self, challenge: &str, credential: Option<RegistryCredential>) -> Result<String, FetchError> {
        #[derive(Deserialize)]
        struct TokenResponse {
            #[serde(default)]
            token: String,
            #[serde(default)]
            access_token: String,
        }
        let unusable = |why: &str| FetchError::Unavailable(format!("the registry requires a token, {why}"));
        let realm = parameter(challenge, "realm").and_then(|realm| Url::parse(&realm).ok());
        let mut realm = realm.ok_or_else(|| unusable("but does not name the token server"))?;
        if realm.scheme() != "https" && !is_loopback(&realm) {
            return Err(unusable("but its token server has no TLS"));
        }
        if is_loopback(&realm) && !self.base.as_ref().is_some_and(is_loopback) {
            return Err(unusable("but names a token server on this machine, although the registry is elsewhere"));
        }
        let scope = format!("repository:{}:{}", self.name.repository, self.actions);
        let mut query = vec![("scope", scope)];
        query.extend(parameter(challenge, "service").map(|service| ("service", service)));
        let mut request = Request::get(realm.clone(), ANSWER_BYTES);
        let form;
        if let Some(RegistryCredential::Refresh(refresh)) = &credential {
            query.extend([("grant_type", "refresh_token".to_owned()), ("client_id", "kaudit".to_owned())]);
            query.push(("refresh_token", refresh.clone()));
            form = form_urlencoded::Serializer::new(String::new()).extend_pairs(&query).finish();
            (request.method, request.body) = (Method::POST, form.as_bytes());
            request.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
        } else {
            realm.query_pairs_mut().extend_pairs(&query);
            request.url = realm;
            let basic = credential.and_then(|credential| secret(&credential.basic()?));
            request.headers.extend(basic.map(|value| (AUTHORIZATION, value)));
        }
        let answer = self.http.send(request).await?;
        if !answer.status.is_success() {
            return Err(answer.refusal("the registry issued no token"));
        }
        let token: TokenResponse =
            serde_json::from_slice(&answer.body).map_err(|_| unusable("but its token server returned none"))?;
        let token = if token.token.is_empty() { token.access_token } else { token.token };
        if token.is_empty() { Err(unusable("but its token server returned none")) } else { Ok(token) }
    }

    /// Returns the URL of a path in the repository. Only a registry on this machine may be without TLS.
    async fn url(&mut self, path: &str) -> Result<Url, FetchError> {
        if self.base.is_none() {
            let base = |scheme: &str| {
                Url::parse(&format!("{scheme}://{}/v2/", self.name.host())).map_err(|error| {
                    FetchError::Unavailable(format!("{} is not a registry: {error}", self.name.host()))
                })
            };
            let (tls, plain) = (base("https")?, base("http")?);
            let plain = is_loopback(&plain).then_some(plain);
            self.base = match plain {
                Some(plain) if !self.http.speaks_tls(&tls).await => Some(plain),
                _ => Some(tls),
            };
        }
        let path = format!("{}/{path}", self.name.repository);
        let url = self.base.as_ref().and_then(|base| base.join(&path).ok());
        url.ok_or_else(|| FetchError::Unavailable(format!("{path} is not a path of a registry")))
    }
}

/// Returns the parameters of an authentication challenge, if it is of this scheme.
fn scheme<'t>(challenge: &'t str, name: &str) -> Option<&'t str> {
    let (scheme, rest) = challenge.trim().split_once(' ').unwrap_or((challenge.trim(), ""));
    scheme.eq_ignore_ascii_case(name).then_some(rest)
}

/// Returns a parameter of an authentication challenge.
fn parameter(challenge: &str, name: &str) -> Option<String> {
    let mut rest = challenge;
    while let Some((key, after)) = rest.split_once('=') {
        let quoted = after.strip_prefix('"').and_then(|text| text.split_once('"'));
        let (value, next) = quoted.unwrap_or_else(|| after.split_once(',').unwrap_or((after, "")));
        if key.trim_matches([',', ' ']).eq_ignore_ascii_case(name) {
            return Some(value.to_owned());
        }
        rest = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_parsed_as_registries_write_them() {
        let challenge =
            r#"Bearer realm="https://auth.example.com/token",service="a b", scope="repository:x:pull,push""#;
        let rest = scheme(challenge, "bearer").unwrap();
        assert_eq!(parameter(rest, "realm").as_deref(), Some("https://auth.example.com/token"));
        assert_eq!(parameter(rest, "service").as_deref(), Some("a b"));
        assert_eq!(parameter(rest, "scope").as_deref(), Some("repository:x:pull,push"));
        assert_eq!(parameter("realm=x,service=y", "service").as_deref(), Some("y"));
        for odd in ["", "=", "realm", "realm=\"", "\"=\"=\"", ",,,="] {
            assert_eq!(parameter(odd, "service"), None, "{odd}");
        }
        assert!(scheme("Basic realm=\"x\"", "bearer").is_none());
    }
}
