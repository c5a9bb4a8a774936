//! Host check of servers on loopback: only requests that name a loopback host are answered. A website whose name
//! resolves to 127.0.0.1 (DNS rebinding) could otherwise read the pages through the browser of a user of `kubectl
//! port-forward`.

use axum::{
    extract::Request,
    http::{HeaderMap, StatusCode, header},
    middleware::Next,
    response::{IntoResponse, Response},
};

/// Rejects requests for other hosts with 421.
pub(super) async fn only_loopback(request: Request, next: Next) -> Response {
    if names_loopback(request.headers()) { next.run(request).await } else { misdirected() }
}

/// Whether the `Host` header of a request names this machine.
pub(super) fn names_loopback(headers: &HeaderMap) -> bool {
    headers.get(header::HOST).and_then(|host| host.to_str().ok()).is_some_and(is_loopback)
}

/// Returns the response to a request for another host.
pub(super) fn misdirected() -> Response {
    let why = "This server only answers requests for http://localhost and http://127.0.0.1, for example via kubectl port-forward.\n";
    (StatusCode::MISDIRECTED_REQUEST, why).into_response()
}

fn is_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}
