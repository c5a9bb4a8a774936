//! Sessions, and the token of a request: from a program, or from the session of a user who has signed in.
//!
//! A session is the token, encrypted with a key of this process, in a cookie that scripts cannot read. Cookies are not
//! bound to a port: other servers on the same host, for example one forwarded to localhost, receive the cookie and must
//! not be able to read the token. Each replica uses its own cookie, so replicas do not share a key.

use std::sync::Arc;

use axum::{
    Form, Router,
    extract::{DefaultBodyLimit, Query as UrlQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::post,
};
use data_encoding::{BASE64URL_NOPAD, HEXLOWER};
use ring::{
    aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey},
    rand::{SecureRandom as _, SystemRandom},
};
use serde::Deserialize;

use super::access::{Denied, PageAccess, TOKEN_BYTES};
use crate::output::page::{PageQuery, refusal, sign_in_page};

/// Prefix of the cookie names.
const COOKIE: &str = "kaudit-session";
/// How long a browser keeps a cookie, in seconds; tokens usually expire earlier.
const COOKIE_SECONDS: u32 = 12 * 60 * 60;

/// Encrypts and decrypts the cookies of this process.
pub(super) struct Sessions {
    key: LessSafeKey,
    random: SystemRandom,
    /// Distinguishes the cookie of this process from those of others.
    id: String,
}

impl Sessions {
    /// Generates a new key; `None` if the system has no random numbers.
    pub(super) fn new() -> Option<Self> {
        let random = SystemRandom::new();
        let (mut key, mut id) = ([0; 32], [0; 4]);
        random.fill(&mut key).and_then(|()| random.fill(&mut id)).ok()?;
        let key = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).ok()?);
        Some(Self { key, random, id: HEXLOWER.encode(&id) })
    }

    /// Returns the token of a request, from its `Authorization` header or its session cookie.
    pub(super) fn token(&self, headers: &HeaderMap) -> Option<String> {
        let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
        });
        bearer.or_else(|| self.of_cookie(headers)).filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES)
    }

    fn of_cookie(&self, headers: &HeaderMap) -> Option<String> {
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
        // With TLS the name has a prefix.
        let (_, value) = pairs.find(|(name, _)| name.strip_prefix("__Host-").unwrap_or(name) == self.name())?;
        self.open(value)
    }

    fn name(&self) -> String {
        format!("{COOKIE}-{}", self.id)
    }

    fn seal(&self, token: &str) -> Option<String> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        let mut sealed = token.as_bytes().to_vec();
        let nonce_bytes = nonce;
        self.key
            .seal_in_place_append_tag(Nonce::assume_unique_for_key(nonce), Aad::empty(), &mut sealed)
            .ok()
            .map(|()| BASE64URL_NOPAD.encode(&[&nonce_bytes[..], &sealed].concat()))
    }

    fn open(&self, cookie: &str) -> Option<String> {
        let bytes = BASE64URL_NOPAD.decode(cookie.as_bytes()).ok()?;
        let (nonce, sealed) = bytes.split_at_checked(NONCE_LEN)?;
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let token = self.key.open_in_place(nonce, Aad::empty(), &mut sealed).ok()?;
        String::from_utf8(token.to_vec()).ok()
    }
}

/// Whether a request comes from this page or from no page at all. A form on another site could otherwise sign a user
/// out, or in with another token.
fn is_same_origin(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    match (text("sec-fetch-site"), text("origin")) {
        (Some(site), _) => matches!(site, "same-origin" | "none"),
        (None, Some(origin)) => origin.split_once("://").map(|(_, host)| host) == text("host"),
        (None, None) => true,
    }
}

/// State of the form handlers.
#[derive(Clone)]
struct SessionState {
    access: Option<Arc<PageAccess>>,
    sessions: Arc<Sessions>,
}

/// The fields of the form of [`sign_in_page`].
#[derive(Deserialize)]
struct SignIn {
    token: String,
}

/// Returns the routes to sign in and out; without `access`, sign-in answers 404.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(
    access: Option<Arc<PageAccess>>,
    sessions: Arc<Sessions>,
) -> Router<S> {
    Router::new()
        .route("/login", post(sign_in))
        .route("/logout", post(sign_out))
        .layer(DefaultBodyLimit::max(4 * TOKEN_BYTES))
        .with_state(SessionState { access, sessions })
}

/// Returns the response for a denied request; with an unknown token, the sign-in form.
pub(super) fn refuse(denied: &Denied, query: &PageQuery) -> Response {
    match denied {
        Denied::Unknown => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge, Html(sign_in_page(query, None))).into_response()
        }
        Denied::Forbidden { user, audit } => {
            let why = format!(
                "{user} may not get audits.kaudit.dev {audit}. To see this page, you need the permission to get it."
            );
            (StatusCode::FORBIDDEN, Html(refusal(&why))).into_response()
        }
        Denied::Busy => {
            let wait = [(header::RETRY_AFTER, "1")];
            (StatusCode::TOO_MANY_REQUESTS, wait, "too many sign-ins at the moment: try again in a second\n")
                .into_response()
        }
        Denied::Unavailable(why) => (
            StatusCode::SERVICE_UNAVAILABLE,
            format!("could not verify your token or access with the API server: {why}\n"),
        )
            .into_response(),
    }
}

/// Stores a token in a cookie if its user may see the page.
async fn sign_in(
    State(SessionState { access, sessions }): State<SessionState>,
    UrlQuery(query): UrlQuery<PageQuery>,
    headers: HeaderMap,
    Form(SignIn { token }): Form<SignIn>,
) -> Response {
    let Some(access) = access else { return StatusCode::NOT_FOUND.into_response() };
    if !is_same_origin(&headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    let token = token.trim();
    let reader = if token.len() > TOKEN_BYTES { Err(Denied::Unknown) } else { access.reader(token).await };
    match reader {
        Ok(_) => {
            let location = format!("./{}", query.url());
            match sessions.seal(token) {
                Some(value) => redirect(&location, &sessions, &format!("{value}; Max-Age={COOKIE_SECONDS}"), &headers),
                None => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
            }
        }
        Err(Denied::Unknown) => {
            let why = "The token is invalid or has expired.";
            (StatusCode::UNAUTHORIZED, Html(sign_in_page(&query, Some(why)))).into_response()
        }
        Err(denied) => refuse(&denied, &query),
    }
}

async fn sign_out(State(SessionState { sessions, .. }): State<SessionState>, headers: HeaderMap) -> Response {
    if !is_same_origin(&headers) {
        return StatusCode::FORBIDDEN.into_response();
    }
    redirect("./", &sessions, "; Max-Age=0", &headers)
}

/// Sets the cookie and redirects to a view of the page.
fn redirect(location: &str, sessions: &Sessions, value: &str, headers: &HeaderMap) -> Response {
    // Each proxy adds the protocol of its client; on loopback there is no proxy.
    let protocols = headers.get("x-forwarded-proto").and_then(|value| value.to_str().ok()).unwrap_or_default();
    let is_secure = protocols.split(',').any(|protocol| protocol.trim().eq_ignore_ascii_case("https"));
    let (prefix, secure) = if is_secure { ("__Host-", "; Secure") } else { ("", "") };
    let cookie = format!("{prefix}{}={value}; Path=/; HttpOnly; SameSite=Strict{secure}", sessions.name());
    (StatusCode::SEE_OTHER, [(header::LOCATION, location), (header::SET_COOKIE, &cookie)]).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&str, &str)| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    /// Returns the cookie set by a sign-in, and its attributes.
    fn cookie_of(sessions: &Sessions, token: &str, request: &HeaderMap) -> (String, String) {
        let response = redirect("./", sessions, &sessions.seal(token).unwrap(), request);
        let cookie = response.headers()[header::SET_COOKIE].to_str().unwrap();
        let (pair, attributes) = cookie.split_once(';').unwrap();
        (pair.to_owned(), attributes.to_owned())
    }

    #[test]
    fn tokens_come_from_the_bearer_header_or_the_cookie() {
        let sessions = Sessions::new().unwrap();
        let of = |name: &str, value: &str| sessions.token(&headers(&[(name, value)]));
        let (cookie, _) = cookie_of(&sessions, "a b", &headers(&[]));
        assert_eq!(of("authorization", "bearer  a.b-c").as_deref(), Some("a.b-c"));
        assert_eq!(of("cookie", &format!("theme=dark; {cookie}")).as_deref(), Some("a b"), "whatever a token contains");
        assert_eq!(of("cookie", &format!("__Host-{cookie}")).as_deref(), Some("a b"));
        for header in ["Basic YTpi", "Bearer", "Bearer ", "a.b-c"] {
            assert_eq!(of("authorization", header), None, "{header}");
        }
        for header in [&format!("{cookie}A"), &format!("other-{cookie}"), "kaudit-session=YSBi", ""] {
            assert_eq!(of("cookie", header), None, "{header}");
        }
        assert_eq!(of("authorization", &format!("Bearer {}", "a".repeat(TOKEN_BYTES + 1))), None);
    }

    #[test]
    fn cookies_are_encrypted_and_bound_to_one_process() {
        let (sessions, other) = (Sessions::new().unwrap(), Sessions::new().unwrap());
        let (cookie, _) = cookie_of(&sessions, "secret-token", &headers(&[]));
        let value = cookie.split_once('=').unwrap().1;
        let decoded = BASE64URL_NOPAD.decode(value.as_bytes()).unwrap();
        assert!(!String::from_utf8_lossy(&decoded).contains("secret"), "{cookie}");
        assert_eq!(other.token(&headers(&[("cookie", &cookie)])), None);
        assert_eq!(other.open(value), None);
        assert_ne!(cookie, cookie_of(&sessions, "secret-token", &headers(&[])).0, "a new nonce each time");
    }

    #[test]
    fn cookies_are_secure_behind_tls() {
        let sessions = Sessions::new().unwrap();
        for (protocol, is_secure) in
            [("https", true), ("https,http", true), ("http, HTTPS", true), ("http", false), ("", false)]
        {
            let (cookie, attributes) = cookie_of(&sessions, "a", &headers(&[("x-forwarded-proto", protocol)]));
            assert_eq!(attributes.contains("; Secure") || attributes.contains(" Secure"), is_secure, "{protocol}");
            assert_eq!(cookie.starts_with("__Host-"), is_secure, "{protocol}");
        }
    }

    #[test]
    fn forms_of_other_sites_are_rejected() {
        for (request, own) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (&[("sec-fetch-site", "cross-site")], false),
            // Another port of localhost.
            (&[("sec-fetch-site", "same-site")], false),
            (&[("origin", "http://evil.example"), ("host", "localhost:8082")], false),
            (&[("origin", "http://localhost:8082"), ("host", "localhost:8082")], true),
            (&[("origin", "null"), ("host", "localhost:8082")], false),
            (&[], true),
        ] {
            assert_eq!(is_same_origin(&headers(request)), own, "{request:?}");
        }
    }
}
