//! Text that must be escaped: characters that a terminal or a log viewer interprets, and markup that a browser
//! interprets.

use std::sync::Arc;

use clap::ValueEnum as _;
use kaudit::{
    audit::result::{AuditResult, Entry, PolicySummary, Summary},
    judge::{bundle::Edition, rule::RuleText},
    model::{
        object::ObjectRef,
        verdict::{Finding, Outcome, RuleDescriptor, RuleInfo, Source},
    },
    output::{Format, RenderOptions, render},
};
use proptest::prelude::*;

/// Whether a terminal, an editor or a web page would interpret a character instead of showing it.
fn is_obeyed(c: char) -> bool {
    let directional =
        matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    (c.is_control() && c != '\n') || directional || matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}')
}

/// Asserts that a text is harmless for every kind of reader.
pub(crate) fn assert_harmless(what: &str, text: &str) {
    if let Some(at) = text.find(is_obeyed) {
        let from = text.floor_char_boundary(at.saturating_sub(200));
        let to = text.ceil_char_boundary((at + 50).min(text.len()));
        panic!("{what}: {:?} in {:?}", text[at..].chars().next().unwrap(), &text[from..to]);
    }
    for line in text.lines().map(str::trim_start) {
        // `-o github` consists of commands; a message must not add another one.
        let command = line.strip_prefix("::").and_then(|rest| rest.split([' ', ':']).next());
        let own =
            what.ends_with("github") && command.is_some_and(|word| ["error", "warning", "notice"].contains(&word));
        assert!(own || command.is_none(), "{what}: a command: {line}");
        let line = line.to_lowercase();
        for command in ["##[", "##vso[", "##teamcity["] {
            assert!(!line.contains(command), "{what}: a command: {line}");
        }
    }
}

/// Parses JSON like other parsers: `serde_json` interprets one special key.
pub(crate) fn parsed(json: &str) -> serde_json::Value {
    serde_json::from_str(&json.replace("$serde_json::private::", "private:")).unwrap()
}

/// Asserts that the output of a format is harmless as text, and in its own format.
pub(crate) fn assert_harmless_as(format: Format, what: &str, text: &str) {
    assert_harmless(&format!("{what}: {}", format.name()), text);
    let markup: &[&str] = match format {
        Format::Html | Format::Junit => &["<script>alert", "<img", "]]><"],
        Format::Markdown => &["<script>alert", "<img", "](javascript"],
        _ => &[],
    };
    for markup in markup {
        assert!(!text.contains(markup), "{what}: {}: {markup}", format.name());
    }
    if [Format::Json, Format::Sarif, Format::Gitlab, Format::Openreport].contains(&format) {
        parsed(text);
    }
}

fn result(text: &str) -> AuditResult {
    let resource = ObjectRef {
        cluster: None,
        api_version: text.to_owned(),
        kind: text.to_owned(),
        namespace: Some(text.into()),
        name: text.into(),
        uid: text.into(),
    };
    let rule = RuleDescriptor {
        policy: text.into(),
        name: text.into(),
        info: Arc::new(RuleInfo { title: Some(text.into()), id: Some(text.into()), category: Some(text.into()) }),
        source: Source { file: text.into(), line: 1 },
    };
    let finding = Finding {
        rule: Arc::new(rule),
        outcome: Outcome::Fail,
        severity: None,
        message: text.into(),
        details: Some(Arc::new(serde_json::Map::from_iter([(text.to_owned(), text.into())]))),
        excused: None,
    };
    let about = kaudit::audit::result::About {
        title: Some(text.into()),
        description: Some(text.into()),
        id: Some(text.into()),
        category: Some(text.into()),
        ..Default::default()
    };
    AuditResult {
        api_version: "kaudit.dev/v1alpha1",
        kind: "AuditResult",
        scope: None,
        complete: false,
        summary: Summary { objects: 1, fail: 1, ..Summary::default() },
        coverage: vec![],
        frameworks: Arc::default(),
        bundles: vec![Edition {
            source: text.into(),
            digest: text.to_owned(),
            revision: Some(text.to_owned()),
            pinned: true,
            verified: true,
            stale: text.to_owned(),
        }],
        policies: vec![PolicySummary {
            name: text.to_owned(),
            dialect: "conftest".to_owned(),
            source: text.to_owned(),
            rules: vec![text.to_owned()],
            about: about.clone(),
            about_rules: [(text.to_owned(), about)].into(),
            objects: [].into(),
            texts: [(text.to_owned(), vec![RuleText { source: finding.rule.source.clone(), text: text.into() }])]
                .into(),
            excusable: [].into(),
        }],
        refused: vec![],
        not_judged: vec![],
        profile: None,
        skipped_rules: vec![],
        min_severity: None,
        excluded_namespaces: vec![],
        exceptions: vec![],
        baseline: None,
        results: vec![Entry::new(&finding, &Arc::new(resource), None, None)],
        ended: vec![],
        namespaces: std::collections::BTreeMap::new(),
        teams: std::collections::BTreeMap::new(),
        repeated: std::collections::HashSet::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_text_is_harmful_in_any_format(
        parts in prop::collection::vec(prop_oneof![
            any::<String>(),
            any::<char>().prop_map(String::from),
            (0_u32..0xa0).prop_map(|c| char::from_u32(c).unwrap().to_string()),
            (0x2000_u32..0x2070).prop_map(|c| char::from_u32(c).unwrap().to_string()),
            prop::sample::select(vec!["\n::error::x", "\r\n##[command]x", "##[", "##vso[a]", "#", "\u{1b}]0;x\u{7}", "<script>alert(1)</script>",
                "<img src=x onerror=alert(1)>", "]]><x>", "](javascript:x)", "|", "`", "\u{9b}2J", "\\", "\u{202e}"]).prop_map(str::to_owned),
        ], 0..8),
        color in any::<bool>(),
        width in prop_oneof![Just(usize::MAX), 0_usize..120],
    ) {
        let text = parts.concat();
        let result = result(&text);
        for format in Format::value_variants() {
            let mut out = Vec::new();
            render(*format, &result, &RenderOptions { color, width, ..RenderOptions::default() }, &mut out).unwrap();
            let mut out = String::from_utf8(out).unwrap();
            if color && *format == Format::Text {
                // kaudit's own colours. Runners treat them as text, so text after them does not start a line.
                for code in ["0", "1", "2", "31", "32", "33", "35"] {
                    out = out.replace(&format!("\u{1b}[{code}m"), "~");
                }
            }
            assert_harmless_as(*format, &format!("{text:?}"), &out);
            if *format == Format::Json {
                let read: serde_json::Value = serde_json::from_str(&out).unwrap();
                prop_assert_eq!(&read["results"][0]["message"], &serde_json::Value::from(text.as_str()));
            }
        }
    }
}
