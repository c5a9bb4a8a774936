//! Text to syntax tree: the language version of each file, and regorus' errors in plain words.

use std::panic::{AssertUnwindSafe, catch_unwind};

use regorus::{
    Engine, PolicyLengthConfig,
    unstable::{Module, Ref, Source, Token},
};

use super::{
    Limits,
    files::{File, Version},
    guard,
    problem::Problem,
};

/// Adds one module to the engine: in its version if that is known, else as Rego v1 if it is, else as v0.
///
/// # Errors
/// Returns what is wrong; of the two attempts, the one that got further is what the author meant.
pub(crate) fn add(engine: &mut Engine, file: &File, limits: &Limits) -> Result<(), Problem> {
    let source =
        Source::from_contents(file.shown.to_string(), file.text.clone()).map_err(|error| problem(file, &error))?;
    let tokens = guard::tokens(&source, limits);
    if let Some(refused) = guard::refuse(file, &tokens, limits) {
        return Err(refused);
    }
    let text = without_plain_input_import(&file.text, &tokens);
    if file.version == Version::V0 && guard::needs_v1(&tokens) {
        let help = "put it under code with engine: Rego and version: v1, or import future.keywords";
        return Err(Problem::refused(&file.shown, "this is Rego v1, but the template takes it for v0").help(help));
    }
    if file.version != Version::Either {
        return attempt(engine, file, &text, file.version == Version::V0);
    }
    let first = match attempt(engine, file, &text, false) {
        Ok(()) => return Ok(()),
        Err(problem) => problem,
    };
    if guard::needs_v1(&tokens) {
        return Err(first);
    }
    match attempt(engine, file, &text, true) {
        Ok(()) => Ok(()),
        Err(second) if (second.line, second.column) > (first.line, first.column) => Err(second),
        Err(_) => Err(first),
    }
}

/// Makes an engine with the settings that every unit shares, without policies.
pub(crate) fn engine(limits: &Limits) -> Engine {
    let mut engine = Engine::new();
    engine.set_policy_length_config(PolicyLengthConfig { max_col: limits.columns, ..PolicyLengthConfig::default() });
    // What OPA does: a builtin that fails is undefined, not the end of the evaluation.
    engine.set_strict_builtin_errors(false);
    // `print` would write into kaudit's own stderr.
    engine.set_gather_prints(true);
    engine.set_execution_timer_config(limits.timer());
    engine
}

/// Returns the syntax tree that was added last.
pub(crate) fn last_module(engine: &mut Engine) -> Option<Ref<Module>> {
    engine.get_modules().last().cloned()
}

fn attempt(engine: &mut Engine, file: &File, text: &str, v0: bool) -> Result<(), Problem> {
    engine.set_rego_v0(v0);
    // A parser that panics must not take kaudit with it; a module is pushed only after it was parsed, so the engine is
    // as it was.
    let added = catch_unwind(AssertUnwindSafe(|| engine.add_policy(file.shown.to_string(), text.to_owned())));
    match added {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(problem(file, &error)),
        Err(_) => Err(Problem::refused(&file.shown, "the parser failed on this file")),
    }
}

/// Blanks out `import input`: it has no meaning, and regorus writes a warning for it on stderr at each load.
fn without_plain_input_import(text: &str, tokens: &[Token]) -> String {
    let mut text = text.to_owned();
    for window in tokens.windows(2) {
        let [import, input] = window else { continue };
        let (start, end) = (import.1.start as usize, input.1.end as usize);
        let rest = text.get(end..).unwrap_or_default();
        let alone = !rest.starts_with(['.', '[']) && !rest.trim_start_matches([' ', '\t']).starts_with("as ");
        if import.1.text() == "import" && input.1.text() == "input" && alone && text.is_char_boundary(start) {
            // Line breaks between the two stay, so that lines keep their numbers.
            let blank: String = text[start..end].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
            text.replace_range(start..end, &blank);
        }
    }
    text
}

/// Where and why, out of one of regorus' error texts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// File, line, column; `None` if the text names none.
    pub(crate) place: Option<(String, u32, u32)>,
    /// The reason alone, on one line.
    pub(crate) reason: String,
}

/// Reads one of regorus' error texts: `--> file:line:column`, an excerpt, `error: reason`, sometimes more of the same
/// behind it.
pub(crate) fn told(text: &str) -> Told {
    let place = text.lines().find_map(|line| line.strip_prefix("--> ")).and_then(|place| {
        let (rest, column) = place.rsplit_once(':')?;
        let (file, line) = rest.rsplit_once(':')?;
        Some((file.to_owned(), line.parse().ok()?, column.parse().ok()?))
    });
    let reason = text
        .lines()
        .find_map(|line| line.strip_prefix("error: "))
        .or_else(|| text.lines().find(|line| !line.trim().is_empty() && !line.starts_with("-->")))
        .unwrap_or("no reason given");
    // The dumps of internal state that follow some reasons help nobody.
    let reason = reason.split(" (path [").next().unwrap_or(reason).trim().trim_end_matches('.');
    Told { place, reason: reason.to_owned() }
}

/// Turns an error of regorus about a file into a problem.
pub(crate) fn problem(file: &File, error: &anyhow::Error) -> Problem {
    let Told { place, reason } = told(&format!("{error:#}"));
    let problem = Problem::refused(&file.shown, reason);
    match place {
        Some((_, line, column)) => problem.at(&file.text, line, column),
        None => problem,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_place_and_the_first_reason() {
        let text = "\n--> dir/a:b.rego:7:3\n  |\n7 | x\n  |   ^\nerror: var x is unsafe (path [\"a\"], scopes [])";
        let place = Some(("dir/a:b.rego".to_owned(), 7, 3));
        assert_eq!(told(text), Told { place: place.clone(), reason: "var x is unsafe".to_owned() });
        let nested = format!("{text}\n--> b.rego:1:1\nerror: of another.");
        assert_eq!(told(&nested).place, place);
        assert_eq!(told("plain."), Told { place: None, reason: "plain".to_owned() });
    }

    #[test]
    fn a_plain_import_of_input_is_blanked_and_nothing_else() {
        let blank = |text: &str| {
            let source = Source::from_contents("a".to_owned(), text.to_owned()).unwrap();
            without_plain_input_import(text, &guard::tokens(&source, &Limits::default()))
        };
        assert_eq!(blank("package a\nimport input\nx := 1"), "package a\n            \nx := 1");
        for text in ["import input as i\n", "import input.request\n", "x := \"import input\"\n", "# import input\n"] {
            assert_eq!(blank(&format!("package a\n{text}")), format!("package a\n{text}"));
        }
    }
}
