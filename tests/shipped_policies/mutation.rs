//! Mutation testing of the library: a test notices each change of a rule, except those that a comment in Rego marks as
//! equivalent. `KAUDIT_TEST_MUTANTS` sets how many changes are tested.

use std::{collections::BTreeSet, path::PathBuf};

use kaudit_test_support::{
    files,
    mutation::{self, MutationReport},
    settings::setting,
};

/// Number of changes in the short version.
const MUTANTS: usize = 600;

/// Returns the changes that no test notices.
fn unnoticed(report: &MutationReport) -> BTreeSet<String> {
    report.unnoticed.iter().map(ToString::to_string).collect()
}

#[test]
fn tests_of_the_library_notice_each_change() {
    let count = setting("KAUDIT_TEST_MUTANTS").unwrap_or(MUTANTS);
    let report = mutation::test(&[PathBuf::from("policies")], Some(count)).unwrap();
    let tested: usize = report.files.values().map(|(all, _)| all).sum();
    assert!(tested > count.min(1_000) / 2, "only {tested} of {count} changes compile");
    let new = unnoticed(&report);
    assert!(new.is_empty(), "add a case that fails with each of these changes, or simplify the rules: {new:#?}");
}

#[test]
fn changes_without_a_case_are_reported() {
    let rule = "package shop\n\ndeny contains msg if {\n\tinput.kind == data.limits.kind\n\tinput.n > data.limits.n\n\t\
        msg := lower(input.name)\n}\n\nunused := 1 if input.a\n";
    let test = "package shop_test\n\ntest_deny if {\n\tdata.shop.deny == {\"a\"} with input as {\"kind\": \"Pod\", \"n\": 3, \"name\": \"a\"}\n\t\
        count(data.shop.deny) == 0 with input as {\"kind\": \"Job\", \"n\": 3, \"name\": \"a\"}\n\t\
        count(data.shop.deny) == 0 with input as {\"kind\": \"Pod\", \"n\": 1, \"name\": \"a\"}\n}\n";
    let folder = files::folder(&[
        ("shop.rego", rule),
        ("shop_test.rego", test),
        ("limits/limits.yaml", "kind: Pod\nn: 2\n"),
        ("pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n"),
        (".hidden/broken.rego", "package"),
    ]);
    let path = folder.path().to_owned();
    let report = mutation::test(std::slice::from_ref(&path), None).unwrap();
    let shop = path.join("shop.rego").display().to_string();
    let found: Vec<String> = unnoticed(&report).into_iter().map(|one| one.replace(&shop, "shop.rego")).collect();
    let boundary = "shop.rego: input.n > data.limits.n: >= instead of >";
    let unused = ["1: 2 instead", "input.a: negated", "input.a: removed"].map(|change| format!("shop.rego: {change}"));
    assert_eq!(found, [unused[0].as_str(), &unused[1], &unused[2], boundary]);
    assert_eq!(report.unnoticed.iter().map(|one| one.evaluated).collect::<Vec<_>>(), [true, false, false, false]);
    // Removed, another operator: each of two conditions, the second of which is also negated.
    assert_eq!(report.files[&shop], (8, 4));
    files::write(&path, &[("shop_test.rego", "package shop_test\n\ntest_deny if input.a\n")]);
    let error = mutation::test(&[path], None).unwrap_err();
    assert!(error.ends_with("shop_test.rego:3: the test fails"), "{error}");
}
