use super::*;
use crate::judge::{load_options::LoadOptions, set::PolicySet};

fn metadata(id: &str) -> Metadata {
    Metadata::of_id(Some(id.into()))
}

#[test]
fn rules_about_missing_objects_are_off_while_objects_are_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let rule = |lookups: &str| {
        let about = format!("# METADATA\n# custom: {{id: P-1, lookups: {lookups}}}\n");
        let text = format!("package p\n\n{about}deny_a contains \"a\"\n\ndeny_b contains \"b\"\n");
        std::fs::write(folder.path().join("p.rego"), text).unwrap();
    };
    let load = |rules: RuleSettings| {
        let options = LoadOptions { rules, ..LoadOptions::default() };
        PolicySet::load_with(&[folder.path().to_owned()], &options)
    };
    let skipping = |pattern| RuleSettings::skipping([RulePattern::new(pattern)]);
    for (lookups, settings, want) in [
        ("complete", RuleSettings::default(), vec![]),
        ("complete", RuleSettings::default().for_incomplete_objects(true), vec![("P-1", true)]),
        // A rule that the user switched off does not need the cluster.
        ("complete", skipping("P-1").for_incomplete_objects(true), vec![("P-1", false)]),
        ("optional", RuleSettings::default().for_incomplete_objects(true), vec![]),
        ("null", RuleSettings::default().for_incomplete_objects(true), vec![]),
    ] {
        rule(lookups);
        let set = load(settings.clone()).unwrap();
        let skipped = &set.rule_changes.skipped;
        let found = skipped.iter().map(|rule| (rule.id.as_deref().unwrap_or_default(), rule.needs_cluster()));
        let found: Vec<_> = found.collect();
        assert_eq!((found, set.rules() + skipped.len()), (want, 2), "{lookups} {settings:?}");
        assert!(set.rule_changes.check(&set.policies).is_ok());
    }
    for (lookups, help) in [("compleet", "did you mean complete?"), ("7", "use optional or complete")] {
        rule(lookups);
        let error = load(RuleSettings::default()).unwrap_err().to_string();
        assert!(error.contains("unknown value of custom.lookups") && error.contains(help), "{error}");
    }
}

#[test]
fn later_settings_take_precedence_and_invalid_ones_are_errors() {
    let mut settings =
        RuleSettings::parse("{IMG-01: off, 'images/*': {severity: LOW, namespaces: [shop-*]}, other: {off: false}}")
            .unwrap();
    let of = |settings: &RuleSettings, id: &str| settings.of("images", "deny_latest_tag", &metadata(id));
    let change = of(&settings, "IMG-01");
    assert_eq!((change.off, change.severity), (Some(true), Some(Severity::Low)));
    assert_eq!(of(&settings, "IMG-02").off, None);
    settings.extend(RuleSettings::parse("{'images/deny_latest_tag': {off: false, severity: high}}").unwrap());
    let change = of(&settings, "IMG-01");
    assert_eq!((change.off, change.severity), (Some(false), Some(Severity::High)));
    // In one source, an id or a name of a rule is more precise than the name of a policy, whatever comes first.
    let settings = RuleSettings::parse("{IMG-01: {severity: high}, images: {severity: low}, '*': off}").unwrap();
    let change = of(&settings, "IMG-01");
    assert_eq!((change.off, change.severity), (Some(true), Some(Severity::High)));
    assert_eq!(of(&settings, "IMG-02").severity, Some(Severity::Low));
    // Keys that look like numbers or booleans are names.
    let settings = RuleSettings::parse("{1.10: off, y: off}").unwrap();
    let off = |id: &str| settings.of("p", "deny", &metadata(id)).off;
    assert_eq!(["1.10", "1.1", "y", "true"].map(off), [Some(true), None, Some(true), None]);
    for nothing in ["", "~", "# none"] {
        assert_eq!(RuleSettings::parse(nothing), Ok(RuleSettings::default()), "{nothing}");
    }
    for (text, part) in
        [("{a: on}", "expected off"), ("{a: {severity: bad}}", "unknown severity \"bad\""), ("[a]", "mapping")]
    {
        let error = RuleSettings::parse(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
}
