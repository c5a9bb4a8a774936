//! Secrets in output.

use data_encoding::BASE64;

/// Returns a part of a text that shows a secret, as it is or in base64; `None` if nothing shows it.
pub fn leak<'t>(text: &'t str, secret: &str) -> Option<&'t str> {
    let at = traces(secret).find_map(|trace| text.find(&trace))?;
    let from = text.floor_char_boundary(at.saturating_sub(300));
    let to = text.ceil_char_boundary((at + 100).min(text.len()));
    Some(&text[from..to])
}

/// Returns the texts to search for: the value, and its base64 encodings at each offset.
fn traces(secret: &str) -> impl Iterator<Item = String> {
    let encoded = (0..3).map(move |shift| {
        let encoded = BASE64.encode(format!("{}{secret}", "x".repeat(shift)).as_bytes());
        let whole = encoded.trim_end_matches('=');
        // The first and last characters also depend on the adjacent bytes.
        whole[shift * 2..whole.len() - 2].to_owned()
    });
    [secret.to_owned()].into_iter().chain(encoded)
}
