//! The token of a request: that of a program, or of somebody who has signed in.
//!
//! The token itself is the session, in a cookie that no script can read and no other site can have sent, so that every
//! replica knows it and none remembers it.

use std::sync::Arc;

use axum::{
    Form, Router,
    extract::{DefaultBodyLimit, Query as UrlQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{Html, IntoResponse, Response},
    routing::post,
};
use data_encoding::BASE64URL_NOPAD;
use serde::Deserialize;

use super::access::{Access, Denied, TOKEN_BYTES};
use crate::output::page::{Query, refusal, sign_in_page};

const COOKIE: &str = "kaudit-token";

/// What the form of [`sign_in_page`] sends.
#[derive(Deserialize)]
struct SignIn {
    token: String,
}

/// Returns the routes to sign in and out, where anybody is asked who they are.
pub(super) fn routes<S: Clone + Send + Sync + 'static>(access: Option<Arc<Access>>) -> Router<S> {
    Router::new()
        .route("/login", post(sign_in))
        .route("/logout", post(sign_out))
        .layer(DefaultBodyLimit::max(4 * TOKEN_BYTES))
        .with_state(access)
}

/// Returns the token that a request comes with.
pub(super) fn token(headers: &HeaderMap) -> Option<String> {
    let bearer = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok()).and_then(|value| {
        let (scheme, token) = value.split_once(' ')?;
        scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().to_owned())
    });
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = cookies.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    let signed_in = || {
        let (_, value) = pairs.find(|(name, _)| *name == COOKIE)?;
        String::from_utf8(BASE64URL_NOPAD.decode(value.as_bytes()).ok()?).ok()
    };
    bearer.or_else(signed_in).filter(|token| !token.is_empty() && token.len() <= TOKEN_BYTES)
}

/// Says why somebody may not see the page, and lets who is not known sign in.
pub(super) fn refuse(denied: &Denied, query: &Query) -> Response {
    match denied {
        Denied::Unknown => {
            let challenge = [(header::WWW_AUTHENTICATE, "Bearer")];
            (StatusCode::UNAUTHORIZED, challenge, Html(sign_in_page(query, None))).into_response()
        }
        Denied::Forbidden { user, audit } => {
            let why = format!("{user} may not get audits.kaudit.dev {audit}, which is what seeing this page takes.");
            (StatusCode::FORBIDDEN, Html(refusal(&why))).into_response()
        }
        Denied::Unavailable(why) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("the API server does not say who you are: {why}\n"))
                .into_response()
        }
    }
}

/// Keeps a token in the browser if it is somebody's who may see the page.
async fn sign_in(
    State(access): State<Option<Arc<Access>>>,
    UrlQuery(query): UrlQuery<Query>,
    headers: HeaderMap,
    Form(SignIn { token }): Form<SignIn>,
) -> Response {
    let Some(access) = access else { return StatusCode::NOT_FOUND.into_response() };
    let token = token.trim();
    let reader = if token.len() > TOKEN_BYTES { Err(Denied::Unknown) } else { access.reader(token).await };
    match reader {
        Ok(_) => {
            let location = format!("./{}", query.url());
            go(&location, &BASE64URL_NOPAD.encode(token.as_bytes()), &headers)
        }
        Err(Denied::Unknown) => {
            let why = "The cluster does not know this token, or it has expired.";
            (StatusCode::UNAUTHORIZED, Html(sign_in_page(&query, Some(why)))).into_response()
        }
        Err(denied) => refuse(&denied, &query),
    }
}

async fn sign_out(headers: HeaderMap) -> Response {
    go("./", "; Max-Age=0", &headers)
}

/// Sets the cookie and leads to a view.
fn go(location: &str, value: &str, headers: &HeaderMap) -> Response {
    // Said by a proxy that has ended TLS; on loopback there is none.
    let secure = headers.get("x-forwarded-proto").is_some_and(|proto| proto == "https");
    let secure = if secure { "; Secure" } else { "" };
    let cookie = format!("{COOKIE}={value}; Path=/; HttpOnly; SameSite=Strict{secure}");
    (StatusCode::SEE_OTHER, [(header::LOCATION, location), (header::SET_COOKIE, &cookie)]).into_response()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_token_is_a_bearer_s_or_in_the_cookie() {
        let of = |name: header::HeaderName, value: &str| {
            token(&HeaderMap::from_iter([(name, HeaderValue::from_str(value).unwrap())]))
        };
        let cookie = |value: &str| of(header::COOKIE, value);
        assert_eq!(of(header::AUTHORIZATION, "bearer  a.b-c").as_deref(), Some("a.b-c"));
        assert_eq!(cookie("theme=dark; kaudit-token=YSBi").as_deref(), Some("a b"), "whatever a token has in it");
        for header in ["Basic YTpi", "Bearer", "Bearer ", "a.b-c"] {
            assert_eq!(of(header::AUTHORIZATION, header), None, "{header}");
        }
        for header in ["kaudit-token=", "kaudit-token=a b", "kaudit-token=_w", "other-kaudit-token=YSBi", ""] {
            assert_eq!(cookie(header), None, "{header}");
        }
        assert_eq!(of(header::AUTHORIZATION, &format!("Bearer {}", "a".repeat(TOKEN_BYTES + 1))), None);
    }
}
