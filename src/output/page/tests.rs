use std::sync::Arc;

use jiff::SignedDuration;

use super::*;
use crate::{
    audit::result::{About, AuditResult, Ended},
    judge::{
        frameworks::{FrameworkTable, TableControl},
        rule::RuleText,
        rule_example::RuleExample,
    },
    model::{
        coverage::{Coverage, State, UNNEEDED},
        rule_counts::RuleCounts,
        verdict::{Outcome, Severity, Source},
    },
    output::tests::{audit, cluster_with_gaps, entry, hostile, resource},
    rego::Problem,
};

pub(super) fn context() -> PageContext {
    PageContext {
        cluster: "prod".into(),
        at: "2026-11-23T10:00:00Z".parse().unwrap(),
        began: "2026-11-23T08:00:00Z".parse().unwrap(),
        changed: Some("2026-11-23T09:58:57Z".parse().unwrap()),
        syncing: None,
        waiting: 0,
        policies: "1780961d".to_owned(),
        policies_since: None,
        outdated: None,
        history: Arc::default(),
        problems: Vec::new(),
    }
}

fn html(result: &AuditResult, query: &PageQuery) -> String {
    Page::new(result.clone(), context()).html(query, None)
}

/// Returns results for two Pods of a Deployment and for a ConfigMap.
pub(super) fn owned() -> AuditResult {
    let owner = Arc::new(resource("apps/v1", "Deployment", "shop", "web"));
    let mut results: Vec<Entry> = ["web-1", "web-2"]
        .map(|name| {
            let found = entry(resource("v1", "Pod", "shop", name), "image", "deny_latest", Outcome::Fail, "no tag");
            Entry { owner: Some(Arc::clone(&owner)), since: Some(context().at), ..found }
        })
        .into();
    let settings = resource("v1", "ConfigMap", "blog", "settings");
    let mut critical = entry(settings, "image", "warn_size", Outcome::Warn, "large & <b>bold</b>");
    critical.severity = Some(Severity::Critical);
    critical.since = Some(context().at.saturating_sub(SignedDuration::from_hours(48)).unwrap());
    results.push(critical);
    AuditResult { teams: [("shop".into(), "checkout".into())].into(), ..audit(results, Vec::new(), 1) }
}

fn view(view: View) -> PageQuery {
    PageQuery { view, ..PageQuery::default() }
}

fn names(result: &AuditResult, query: &PageQuery) -> Vec<String> {
    let page = Page::new(result.clone(), context());
    page.entries(query).map(|entry| entry.resource.name.to_string()).collect()
}

#[test]
fn a_page_shows_everything() {
    let mut result = owned();
    let fixed = entry(resource("v1", "Pod", "shop", "old"), "image", "deny_latest", Outcome::Fail, "no tag");
    result.ended = vec![Ended { at: context().at, entry: fixed }];
    insta::assert_snapshot!(html(&result, &PageQuery::default()).replace("><", ">\n<"));
}

#[test]
fn rules_show_their_object_counts() {
    let mut result = owned();
    let counts = RuleCounts { applicable: 6, failing: 2, excused: 1, error: 0 };
    result.policies[0].objects.insert("deny_latest".to_owned(), counts);
    let of = |query: &PageQuery| html(&result, query);
    let rules = of(&view(View::Rules));
    assert!(
        rules.contains("data-label=\"Failing\">2</td>") && rules.contains("data-label=\"Share\">33 %</td>"),
        "{rules}"
    );
    let rule = of(&PageQuery { rule: Some("image/deny_latest".to_owned()), ..view(View::Rules) });
    assert!(rule.contains("In the whole audit: 2 of 6 objects, 1 excused"), "{rule}");
    // How many objects of a namespace a rule applies to is not known.
    let filtered = of(&PageQuery { namespace: Some("shop".to_owned()), ..view(View::Rules) });
    assert!(!filtered.contains(" %</td>"), "{filtered}");
    assert!(of(&view(View::Coverage)).contains("<li>deny_latest: 2 of 6 objects, 1 excused</li>"));
}

#[test]
fn an_object_has_a_view_of_its_own() {
    let view = |name: &str| html(&owned(), &PageQuery { object: Some(name.to_owned()), ..PageQuery::default() });
    insta::assert_snapshot!(view("Deployment.apps/shop/web").replace("><", ">\n<"));
    assert!(view("ConfigMap/blog/gone").contains("No results for this object"));
}

#[test]
fn filters_select_results() {
    let query = |field: fn(&mut PageQuery) -> &mut Option<String>, value: &str| {
        let mut query = PageQuery::default();
        *field(&mut query) = Some(value.to_owned());
        names(&owned(), &query)
    };
    assert_eq!(names(&owned(), &PageQuery::default()), ["web-1", "web-2", "settings"]);
    assert_eq!(query(|query| &mut query.namespace, "blog"), ["settings"]);
    assert_eq!(query(|query| &mut query.namespace, "-"), [""; 0]);
    assert_eq!(query(|query| &mut query.severity, "critical"), ["settings"]);
    assert_eq!(query(|query| &mut query.severity, "none").len(), 2);
    assert_eq!(query(|query| &mut query.rule, "other"), [""; 0]);
    for rule in ["image", "image/deny_latest", "deny_latest", "im*"] {
        assert!(query(|query| &mut query.rule, rule).starts_with(&["web-1".to_owned(), "web-2".to_owned()]), "{rule}");
    }
    assert_eq!(query(|query| &mut query.kind, "Deployment.apps"), ["web-1", "web-2"]);
    assert_eq!(query(|query| &mut query.kind, "Pod"), [""; 0]);
    assert_eq!(query(|query| &mut query.team, "checkout"), ["web-1", "web-2"]);
    assert_eq!(query(|query| &mut query.team, "-"), ["settings"]);
    for (since, expected) in [("24h", 2), ("15m", 2), ("3d", 3), ("never", 3)] {
        assert_eq!(query(|query| &mut query.since, since).len(), expected, "{since}");
    }
    assert_eq!(query(|query| &mut query.q, "TAG web-2"), ["web-2"]);
    assert_eq!(query(|query| &mut query.q, "ConfigMap LARGE"), ["settings"]);
    assert_eq!(query(|query| &mut query.q, "deployment"), [""; 0]);
    let mut umlaut = owned();
    umlaut.results[0].message = "Größe".into();
    assert_eq!(names(&umlaut, &PageQuery { q: Some("GRÖSSE gröẞe".to_owned()), ..PageQuery::default() }), [""; 0]);
    assert_eq!(names(&umlaut, &PageQuery { q: Some("GRÖß".to_owned()), ..PageQuery::default() }), ["web-1"]);
}

#[test]
fn links_keep_the_filters() {
    let query = PageQuery { q: Some("a&b <c>".to_owned()), page: Some(3), ..PageQuery::default() };
    assert_eq!(query.with(|query| query.severity = Some("high".to_owned())), "?severity=high&q=a%26b+%3Cc%3E");
    assert_eq!(query.with(|query| query.page = Some(2)), "?q=a%26b+%3Cc%3E&page=2");
    assert_eq!(query.to(View::Rules).url(), "?view=rules&q=a%26b+%3Cc%3E");
    for view in View::ALL {
        let page = html(&owned(), &PageQuery { view, namespace: Some("shop".to_owned()), ..PageQuery::default() });
        let tabs =
            View::ALL.map(|other| PageQuery { view: other, namespace: Some("shop".to_owned()), ..query.clone() });
        for tab in tabs {
            let url = PageQuery { q: None, page: None, ..tab }.url().replace('&', "&amp;");
            assert!(page.contains(&format!("href=\"{url}\"")), "{url} in {view:?}");
        }
    }
}

#[test]
fn a_restricted_page_shows_nothing_of_other_places() {
    let mut result = owned();
    result.results.push(entry(resource("v1", "Namespace", "", "blog"), "image", "deny_latest", Outcome::Fail, "bad"));
    let fixed = entry(resource("v1", "Pod", "bank", "old"), "image", "deny_latest", Outcome::Fail, "no tag");
    result.ended = vec![Ended { at: context().at, entry: fixed }];
    let page = Page::new(result, context());
    let places = |names: &[Option<&str>]| names.iter().map(|name| name.map(Arc::from)).collect::<Places>();
    assert_eq!(*page.places(), places(&[None, Some("bank"), Some("blog"), Some("shop")]));
    let restricted = page.restricted_to(&places(&[Some("shop")]));
    for view in View::ALL {
        let text = restricted.html(&PageQuery { view, ..PageQuery::default() }, Some("reader"));
        assert!(text.contains("2 failures") && text.contains("reader"), "{text}");
        assert!(!text.contains("blog") && !text.contains("settings") && !text.contains("bank"), "{text}");
    }
    let text = restricted.html(&view(View::Coverage), None);
    assert!(text.contains("are left out"), "{text}");
    assert_eq!(restricted.entries(&PageQuery::default()).count(), 2);
    let cluster = page.restricted_to(&places(&[None])).html(&PageQuery::default(), None);
    assert!(cluster.contains("1 failure") && !cluster.contains("shop") && !cluster.contains("checkout"), "{cluster}");
}

#[test]
fn long_tables_have_pages() {
    let entries = (0..250).map(|number| {
        let map = resource("v1", "ConfigMap", "shop", &format!("m{number:03}"));
        entry(map, "image", "deny_latest", Outcome::Fail, "no tag")
    });
    let result = audit(entries.collect(), Vec::new(), 0);
    let rows = |page| {
        let query = PageQuery { page: Some(page), ..view(View::Objects) };
        html(&result, &query).matches("<span class=\"kind\">").count()
    };
    assert_eq!([1, 2, 5, 6, usize::MAX, 0].map(rows), [30, 30, 30, 30, 10, 30]);
}

#[test]
fn an_object_with_many_results_has_pages() {
    let map = resource("v1", "ConfigMap", "shop", "many");
    let entries = (0..120).map(|n| entry(map.clone(), "image", "deny_latest", Outcome::Fail, &format!("no tag {n}")));
    let result = audit(entries.collect(), Vec::new(), 0);
    let view = |page| {
        let object = Some("ConfigMap/shop/many".to_owned());
        html(&result, &PageQuery { object, page: Some(page), ..PageQuery::default() })
    };
    assert_eq!([1, 2, 3, 4].map(|page| view(page).matches("<li><details").count()), [50, 50, 20, 20]);
    assert!(view(1).contains("120 results") && view(2).contains("object=ConfigMap%2Fshop%2Fmany&amp;page=3"));
}

#[test]
fn foreign_text_is_escaped() {
    let hostile = hostile();
    let script = Some("\"><script>alert(1)</script>".to_owned());
    let objects = hostile.results.iter().map(|entry| owners::name(owners::of(entry)));
    let queries = View::ALL.into_iter().flat_map(|view| {
        let plain = PageQuery { view, ..PageQuery::default() };
        let searched =
            PageQuery { q: script.clone(), namespace: script.clone(), rule: script.clone(), ..plain.clone() };
        [plain, searched]
    });
    let objects = objects.map(|object| PageQuery { object: Some(object), ..PageQuery::default() });
    for query in queries.chain(objects) {
        let html = html(&hostile, &query);
        assert_eq!(html.matches("<script").count(), 1, "{html}");
        assert!(!html.contains('\u{1b}') && !html.contains('\u{202e}'), "{html}");
    }
}

#[test]
fn clean_and_incomplete_pages_differ() {
    let clean = clean();
    let text = html(&clean, &PageQuery::default());
    assert!(text.contains("Everything in scope is checked by") && text.contains("live · everything checked"), "{text}");
    let gaps = html(&cluster_with_gaps(), &PageQuery::default());
    assert!(gaps.contains("not checked.") && gaps.contains(">incomplete: "), "{gaps}");
    let nothing = html(&audit(Vec::new(), Vec::new(), 0), &PageQuery::default());
    assert!(nothing.contains(">nothing checked<") && !nothing.contains("everything"), "{nothing}");
    for context in [PageContext { waiting: 7, ..context() }, PageContext { syncing: Some((2, 9)), ..context() }] {
        let text = Page::new(clean.clone(), context).html(&PageQuery::default(), None);
        assert!(
            !text.contains("clean") && !text.contains("Everything") && !text.contains("everything checked"),
            "{text}"
        );
        assert!(text.contains("checking: 7 objects to go") || text.contains("starting: 2 of 9 kinds read"), "{text}");
    }
}

#[test]
fn the_coverage_shows_gate_changes_and_gaps() {
    let text = html(&clean(), &view(View::Coverage));
    assert!(text.contains("<dt>Initial sync</dt><dd>done</dd>") && text.contains(">1 min ago</time>"), "{text}");
    assert!(text.contains("revision <code title=\"1780961d\">1780961d</code>"), "{text}");
    let mut shut = PageContext { syncing: Some((2, 9)), changed: None, ..context() };
    shut.problems.push("newer policies are not in force: policies/a.rego:3: unsafe variable".to_owned());
    let mut gaps = cluster_with_gaps();
    gaps.refused = vec![Problem { line: 7, ..Problem::refused(&"policies/b.rego".into(), "no such function: nope") }];
    let text = Page::new(gaps, shut).html(&view(View::Coverage), None);
    for words in [
        "in progress: 2 of 9 lists read",
        "none yet",
        "<li>newer policies are not in force: policies/a.rego:3: unsafe variable</li>",
        "<li>not checked: secrets",
        "<li>not used: policies/b.rego:7: no such function: nope",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}

fn clean() -> AuditResult {
    let summary = Summary { objects: 3, pass: 3, ..Summary::default() };
    AuditResult { summary, ..audit(Vec::new(), Vec::new(), 3) }
}

#[test]
fn json_contains_the_results_of_the_view() {
    let json = |query: &PageQuery| -> serde_json::Value {
        serde_json::from_slice(&Page::new(owned(), context()).json(query).unwrap()).unwrap()
    };
    let all = json(&PageQuery::default());
    assert_eq!((all["results"].as_array().unwrap().len(), &all["summary"]["fail"]), (3, &2.into()));
    let object = json(&PageQuery { object: Some("ConfigMap/blog/settings".to_owned()), ..PageQuery::default() });
    assert_eq!(object["results"][0]["message"], "large & <b>bold</b>");
    let csv = Page::new(owned(), context()).csv(&PageQuery { namespace: Some("shop".to_owned()), ..view(View::Rules) });
    let csv = String::from_utf8(csv.unwrap()).unwrap();
    assert!(csv.lines().count() == 3 && csv.contains("web-2") && !csv.contains("settings"), "{csv}");
}

#[test]
fn many_changes_of_one_rule_are_a_group() {
    let at = context().at;
    let failing = |number: usize, namespace: &str, rule: &str| {
        let map = resource("v1", "ConfigMap", namespace, &format!("m{number}"));
        Entry { since: Some(at), ..entry(map, "image", rule, Outcome::Fail, "no tag") }
    };
    let many = (0..6).map(|number| failing(number, "shop", "deny_latest"));
    let few = (0..5).map(|number| failing(number, "blog", "deny_latest"));
    let mut result = audit(many.chain(few).collect(), Vec::new(), 0);
    result.ended = vec![Ended { at, entry: failing(9, "shop", "deny_size") }];
    let page = Page::new(result, context());
    let query = view(View::Changes);
    let selection = PageSelection::new(&page, &query);
    let sizes: Vec<(bool, usize)> =
        selection.changes().iter().map(|change| (change.resolved, change.entries.len())).collect();
    assert_eq!(sizes.iter().filter(|size| **size == (false, 1)).count(), 5, "{sizes:?}");
    assert!(sizes.contains(&(false, 6)) && sizes.contains(&(true, 1)) && sizes.len() == 7, "{sizes:?}");
    let text = page.html(&query, None);
    assert!(text.contains(">6 violations in shop</a>") && text.contains("11 new, 1 resolved"), "{text}");
}

#[test]
fn a_namespace_has_its_numbers_everywhere() {
    let query = |view| PageQuery { namespace: Some("blog".to_owned()), ..self::view(view) };
    let overview = html(&owned(), &query(View::Overview));
    assert!(overview.contains("1 warning in 1 object") && !overview.contains("no tag"), "{overview}");
    let namespaces = html(&owned(), &query(View::Namespaces));
    assert!(
        namespaces.contains("1 namespace with results")
            && !namespaces.contains("href=\"?view=objects&amp;namespace=shop")
    );
}

#[test]
fn a_misspelt_namespace_is_not_clean() {
    let result = AuditResult { namespaces: [(Some("shop".into()), 2), (None, 1)].into(), ..owned() };
    let notice = |result: &AuditResult, namespace: &str| {
        let query = PageQuery { namespace: Some(namespace.to_owned()), ..PageQuery::default() };
        html(result, &query).contains(&format!("No object of the namespace {namespace} was checked."))
    };
    assert!(notice(&result, "shpo") && !notice(&result, "shop") && !notice(&result, "-"));
    assert!(!notice(&owned(), "shpo"), "which namespaces were checked is not known");
}

#[test]
fn numbers_of_severities_are_in_order() {
    let page = Page::new(owned(), context());
    let query = PageQuery::default();
    let selection = PageSelection::new(&page, &query);
    let places: Vec<&str> = selection.namespaces().iter().map(|row| row.place).collect();
    assert_eq!(places, ["blog", "shop"], "one critical violation is more than two without severity");
}

/// Returns results of rules that serve controls of two frameworks.
fn of_frameworks() -> AuditResult {
    let mut result = owned();
    let serves = |controls: &[(&str, &str)]| {
        let controls = controls.iter().map(|(name, id)| (Arc::from(*name), vec![Arc::from(*id)]));
        About { frameworks: controls.collect(), ..About::default() }
    };
    let image = &mut result.policies[0];
    image.about_rules = [
        ("deny_latest".to_owned(), serves(&[("pss", "baseline"), ("acme", "A.1")])),
        ("warn_size".to_owned(), serves(&[("pss", "restricted")])),
    ]
    .into();
    let counts = RuleCounts { applicable: 4, failing: 2, ..RuleCounts::default() };
    image.objects = [("deny_latest".to_owned(), counts)].into();
    result
}

/// A control, its failing objects, and its failing and all its checks.
type ControlRow = (String, usize, Option<(usize, usize)>);

#[test]
fn controls_have_their_failing_objects() {
    let result = of_frameworks();
    let page = Page::new(result.clone(), context());
    let numbers = |query: &PageQuery| -> Vec<ControlRow> {
        let rows = controls::frameworks(&PageSelection::new(&page, query)).into_iter();
        let of_row = |row: controls::FrameworkRow| {
            let name = row.listed.name.clone();
            row.listed.controls.into_iter().zip(row.controls).map(move |(control, numbers)| {
                let checks = numbers.checks.map(|checks| (checks.failing, checks.applicable));
                (controls::control_name(&name, &control.id), numbers.failing, checks)
            })
        };
        rows.flat_map(of_row).collect()
    };
    let row = |name: &str, failing, checks| (name.to_owned(), failing, checks);
    // A level includes the one below it, in its numbers and in the filter to which they lead.
    let all = [
        row("acme:A.1", 2, Some((2, 4))),
        row("pss:baseline", 2, Some((2, 4))),
        row("pss:restricted", 3, Some((2, 4))),
    ];
    assert_eq!(numbers(&view(View::Frameworks)), all);
    for (name, failing, _) in all {
        let query = PageQuery { framework: Some(name.clone()), ..view(View::Objects) };
        assert_eq!(names(&result, &query).len(), failing, "{name}");
    }
    let of_acme = PageQuery { framework: Some("acme".to_owned()), ..view(View::Frameworks) };
    assert_eq!(numbers(&of_acme), [row("acme:A.1", 2, Some((2, 4)))]);
    let of_blog = PageQuery { namespace: Some("blog".to_owned()), ..view(View::Frameworks) };
    assert_eq!(numbers(&of_blog)[1..], [row("pss:baseline", 0, None), row("pss:restricted", 1, None)]);
    let text = html(&result, &view(View::Frameworks));
    assert!(text.contains("Pod Security Standards") && text.contains("framework=pss%3Arestricted"), "{text}");
    assert!(html(&owned(), &view(View::Frameworks)).contains("No rule in force names a control"));
}

#[test]
fn frameworks_of_libraries_name_controls_without_rules() {
    let mut result = of_frameworks();
    let control = |id: &str, unchecked: Option<&str>| TableControl {
        id: id.to_owned(),
        title: format!("Title of {id}"),
        unchecked: unchecked.map(str::to_owned),
        ..TableControl::default()
    };
    let table = FrameworkTable {
        name: "acme".to_owned(),
        title: "Acme's rules".to_owned(),
        version: None,
        link: Some("javascript:alert(1)".to_owned()),
        aliases: Vec::new(),
        controls: vec![control("A.1", None), control("A.2", Some("it needs a scanner"))],
    };
    result.frameworks = [table].into();
    let text = html(&result, &view(View::Frameworks));
    for part in ["Acme's rules", "Title of A.1", "1 checked in full, 0 in part, 1 not checked", ": it needs a scanner"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("javascript:"), "{text}");
}

#[test]
fn a_rule_has_an_example() {
    let mut result = owned();
    let image = &mut result.policies[0];
    let example = RuleExample { violating: "image: web:latest".to_owned(), correct: "image: web:1.4".to_owned() };
    let about = About {
        example: Some(Arc::new(example)),
        recommended_action: Some("Name a version.".into()),
        ..About::default()
    };
    image.about_rules = [("deny_latest".to_owned(), about)].into();
    let rule = PageQuery { rule: Some("image/deny_latest".to_owned()), ..view(View::Rules) };
    let text = html(&result, &rule);
    assert!(text.contains("image: web:latest") && text.contains("image: web:1.4"), "{text}");
    assert!(text.contains("How to fix it") && text.contains("Name a version."), "{text}");
    // A rule of the library has the one of its page in the documentation.
    let image = &mut result.policies[0];
    image.about_rules = [("deny_latest".to_owned(), About { id: Some("IMG-01".into()), ..About::default() })].into();
    let source = |file: &str| Source { file: file.into(), line: 3 };
    let text = |file: &str| vec![RuleText { source: source(file), text: "deny_latest contains result if {}".into() }];
    image.texts = [("deny_latest".to_owned(), text("builtin/images.rego"))].into();
    assert!(html(&result, &rule).contains("web:latest"), "{}", html(&result, &rule));
    result.policies[0].texts = [("deny_latest".to_owned(), text("policies/images.rego"))].into();
    assert!(!html(&result, &rule).contains("web:latest"), "another rule with this id");
}

#[test]
fn forbidden_kinds_have_the_rights_to_grant() {
    let kind = |group: &str, resource: &str, state, message: &str| Coverage {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: resource.to_owned(),
        resource: resource.to_owned(),
        state,
        objects: 3,
        inactive: 0,
        message: message.to_owned(),
    };
    let mut result = owned();
    result.coverage = vec![
        kind("", "pods", State::Synced, ""),
        kind("", "secrets", State::Forbidden, "forbidden"),
        kind("apps", "deployments", State::Forbidden, "forbidden"),
        kind("apps", "replicasets", State::Forbidden, &format!("{UNNEEDED}of no use")),
    ];
    let text = html(&result, &view(View::Coverage));
    assert!(text.contains("- apiGroups: [&quot;&quot;]<br>  resources: [secrets]<br>  verbs: [list, watch]"), "{text}");
    assert!(text.contains("resources: [deployments]<br>") && !text.contains("id=\"filter\""), "{text}");
    result.coverage.truncate(1);
    assert!(!html(&result, &view(View::Coverage)).contains("Rights to grant"));
}

#[test]
fn changes_since_the_policies_changed_are_selected() {
    let changed = context().at.saturating_sub(SignedDuration::from_mins(5)).unwrap();
    let query = PageQuery { since: Some("policies".to_owned()), ..view(View::Changes) };
    let text = |since| {
        let page = Page::new(owned(), PageContext { policies_since: since, ..context() });
        (page.entries(&query).count(), page.html(&query, None))
    };
    let (number, html) = text(Some(changed));
    assert!(number == 2 && html.contains("Since the policies changed: 2 new, 0 resolved"), "{html}");
    let (number, html) = text(None);
    assert!(number == 3 && html.contains("Last 24 hours") && !html.contains("since the policies changed"), "{html}");
}

#[test]
fn a_chart_shows_the_days_before() {
    let mut history = History::default();
    history.add("2026-11-21".parse().unwrap(), &clean());
    history.add("2026-11-22".parse().unwrap(), &owned());
    let page = Page::new(owned(), PageContext { history: Arc::new(history), ..context() });
    let text = page.html(&PageQuery::default(), None);
    assert!(
        text.contains("<polygon class=\"critical\"") && text.contains("0 on 2026-11-21, 3 now, 3 at most"),
        "{text}"
    );
    let namespace = |name: &str| PageQuery { namespace: Some(name.to_owned()), ..PageQuery::default() };
    let text = page.html(&namespace("shop"), None);
    assert!(text.contains("2 now, 2 at most") && !text.contains("polygon class=\"critical\""), "{text}");
    let searched = PageQuery { q: Some("tag".to_owned()), ..PageQuery::default() };
    assert!(!page.html(&searched, None).contains("<polygon"), "counts by words are not kept");
    let csv = |page: &Page| String::from_utf8(page.history_csv().unwrap()).unwrap();
    assert!(csv(&page).contains("2026-11-22,severity,critical,1\n"), "{}", csv(&page));
    assert!(csv(&page).contains("2026-11-22,namespace,shop,2\n"), "{}", csv(&page));
    // A reader of one namespace sees its counts only.
    let restricted = page.restricted_to(&[Some("shop".into())].into());
    assert_eq!(csv(&restricted), "date,by,name,violations\n2026-11-22,namespace,shop,2\n");
}

#[test]
fn a_file_has_all_views_and_links_within_it() {
    let mut out = Vec::new();
    render(&of_frameworks(), Some(context().at), &mut out).unwrap();
    let text = String::from_utf8(out).unwrap();
    for view in View::ALL {
        let section = format!("<section class=\"view\" id=\"view={}\"", view.word());
        assert_eq!(text.contains(&section), view.is_in_file(), "{view:?}");
    }
    assert!(text.contains("Audit of <time") && text.contains("2026-11-23 10:00:00 UTC"), "{text}");
    assert!(!text.contains("href=\"?") && text.contains("href=\"#view=objects&amp;namespace=shop\""), "{text}");
    // Links to an object and to a rule have targets.
    for id in ["object=Deployment.apps%2Fshop%2Fweb", "view=rules&amp;rule=image%2Fdeny_latest"] {
        assert!(text.contains(&format!("href=\"#{id}\"")) && text.contains(&format!("id=\"{id}\"")), "{id} in {text}");
    }
    assert!(
        text.contains("data-control=\"pss:restricted\"") && text.contains("data-rule=\"image/deny_latest\""),
        "{text}"
    );
}
