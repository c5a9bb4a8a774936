//! Errors of the API server in one line.

/// Says in one line what went wrong, without repeating itself as nested errors do.
pub fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let message = status.message.trim();
        return if message.is_empty() { format!("HTTP {}", status.code) } else { message.to_owned() };
    }
    reasons(error)
}

/// The reasons behind an error, each once.
pub(super) fn reasons(error: &dyn std::error::Error) -> String {
    let mut deepest = error;
    let mut parts: Vec<String> = Vec::new();
    while let Some(source) = deepest.source() {
        deepest = source;
        let text = source.to_string();
        parts.retain(|part| !part.contains(&text));
        parts.push(text);
    }
    if parts.is_empty() { error.to_string() } else { parts.join(": ") }
}
