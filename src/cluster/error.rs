//! Describes errors of requests to the API server in one line.

/// Returns an error as one line: the message of the server, or the causes without the repetitions of nested errors.
pub fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let message = status.message.trim();
        return if message.is_empty() { format!("HTTP {}", status.code) } else { message.to_owned() };
    }
    reasons(error)
}

/// Returns the causes of an error, each once; the error itself if it has none.
pub(crate) fn reasons(error: &dyn std::error::Error) -> String {
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
