//! What the passes make of a text. That it means what OPA makes of it is compared in `tests/fidelity`.

use super::*;

#[test]
fn print_it() {
    let text = std::env::var("ADAPT").map(|file| std::fs::read_to_string(file).unwrap()).unwrap_or_default();
    match adapt([(text.as_str(), None)]).remove(0) {
        Ok(adapted) => eprintln!("{:?}\n{}", adapted.version, adapted.text),
        Err(why) => eprintln!("{why:?}"),
    }
}
