//! Small random fleets, whose numbers are compared with those of a simple computation over all results; and pages.

mod naive;
mod random;
mod scale;

use std::sync::Arc;

use jiff::SignedDuration;

use super::{
    super::tests::{context, owned},
    *,
};
use crate::{
    audit::result::{AuditResult, Ended},
    fleet::{follow::FleetUpdate, samples::SampleCluster, scope::FleetScope, view::FleetView},
    model::verdict::Outcome,
    output::{
        page::{Page, PageContext},
        tests::{audit, cluster_with_gaps, entry, hostile, resource},
    },
};

/// The time of the pages.
fn now() -> Timestamp {
    context().at
}

fn page(clusters: &[SampleCluster]) -> FleetPage {
    page_in(clusters, &FleetScope::default())
}

fn page_in(clusters: &[SampleCluster], scope: &FleetScope) -> FleetPage {
    FleetPage::new(&FleetView::sample(clusters), scope, now(), Arc::default())
}

fn csv_lines(page: &FleetPage, query: &PageQuery) -> Vec<String> {
    let mut csv = Vec::new();
    page.write_csv(query, &mut csv).unwrap();
    String::from_utf8(csv).unwrap().lines().skip(1).map(str::to_owned).collect()
}

fn json(page: &FleetPage, query: &PageQuery) -> serde_json::Value {
    let mut json = Vec::new();
    page.write_json(query, &mut json).unwrap();
    serde_json::from_slice(&json).unwrap()
}

fn view_of(view: View) -> PageQuery {
    PageQuery { view, ..PageQuery::default() }
}

/// Returns results with a resolved violation.
fn with_ended() -> AuditResult {
    let fixed = entry(resource("v1", "Pod", "shop", "old"), "image", "deny_latest", Outcome::Fail, "no tag");
    AuditResult { ended: vec![Ended { at: now(), entry: fixed }], ..owned() }
}

#[test]
fn the_page_of_a_cluster_is_its_own() {
    let mut result = with_ended();
    // What a bucket does not have.
    result.policies.iter_mut().for_each(|policy| policy.excusable.clear());
    let fleet = page(&[
        SampleCluster::new("prod", result.clone(), now()),
        SampleCluster::new("test", audit(vec![], vec![], 1), now()),
    ]);
    let context = PageContext { changed: None, began: now(), ..context() };
    let own = Page::new(result, context);
    let object = Some("Deployment.apps/shop/web".to_owned());
    let views = View::ALL.map(|view| PageQuery { cluster: Some("prod".to_owned()), ..view_of(view) });
    let objects = PageQuery { object, ..views[0].clone() };
    for query in views.iter().chain([&objects]) {
        // Twice: the second time, the page is prepared.
        for _ in 0..2 {
            assert_eq!(fleet.html(query), own.html(query, None), "{query:?}");
        }
        assert!(fleet.html(query).contains("<a href=\"./\">All clusters</a>"));
        let html = fleet.html(query);
        let mut links = html.split("href=\"?").skip(1).filter_map(|rest| rest.split('"').next());
        assert!(links.all(|link| link.contains("cluster=prod")), "{html}");
        assert_eq!(csv_lines(&fleet, query).len(), if query.object.is_some() { 2 } else { 3 });
    }
}

#[test]
fn a_prepared_page_shows_what_has_changed_since() {
    let query = PageQuery { cluster: Some("prod".to_owned()), ..view_of(View::Objects) };
    let cache: Arc<FleetCache> = Arc::default();
    let mut view = FleetView::sample(&[]);
    view.take(FleetUpdate::Clusters(["prod".into()].into()));
    let mut html = |cluster: &SampleCluster, at: Timestamp| {
        view.set(&cluster.name, cluster.values(), now(), true);
        FleetPage::new(&view, &FleetScope::default(), at, Arc::clone(&cache)).html(&query)
    };
    let mut cluster = SampleCluster::new("prod", owned(), now());
    assert!(html(&cluster, now()).contains("settings"));
    cluster.results.retain(|entry| &*entry.resource.name != "settings");
    let changed = html(&cluster, now());
    assert!(!changed.contains("settings") && changed.contains("live · everything checked"), "{changed}");
    let later = now().saturating_add(SignedDuration::from_mins(4)).unwrap();
    let old = html(&cluster, later);
    assert!(old.contains(">outdated<") && old.contains("Not up to date: no heartbeat since"), "{old}");
}

#[test]
fn counts_that_are_kept_are_those_of_now() {
    let cache: Arc<FleetCache> = Arc::default();
    let mut view = FleetView::sample(&[SampleCluster::new("prod", with_ended(), now())]);
    view.take(FleetUpdate::Clusters(["prod".into(), "test".into()].into()));
    let counts = |view: &FleetView, hours: i64| {
        let at = now().saturating_add(SignedDuration::from_hours(hours)).unwrap();
        let page = FleetPage::new(view, &FleetScope::default(), at, Arc::clone(&cache));
        let query = PageQuery::default();
        let selection = FleetSelection::new(&page, &query);
        let counts = selection.count();
        (counts.total.violations(), counts.total.new, counts.total.resolved, counts.clusters.len())
    };
    assert_eq!(counts(&view, 0), (3, 2, 1, 2));
    assert_eq!(counts(&view, 0), (3, 2, 1, 2));
    assert_eq!(counts(&view, 24), (3, 2, 1, 2));
    assert_eq!(counts(&view, 25), (3, 0, 0, 2), "what is new has become old");
    assert_eq!(counts(&view, 0), (3, 2, 1, 2), "also if a clock is set back");
    let other = SampleCluster::new("test", owned(), now());
    view.set(&other.name, other.values(), now(), true);
    assert_eq!(counts(&view, 0), (6, 4, 1, 2));
    view.take(FleetUpdate::Clusters(["test".into()].into()));
    assert_eq!(counts(&view, 0), (3, 2, 0, 1));
}

#[test]
fn clusters_that_are_not_live_are_shown_first() {
    let mut old = SampleCluster::new("prod-old", owned(), now());
    old.heartbeat = Some(now().saturating_sub(SignedDuration::from_mins(9)).unwrap());
    let mut silent = SampleCluster::new("prod-silent", owned(), now());
    silent.heartbeat = None;
    let mut unread = SampleCluster::new("prod-unread", audit(vec![], vec![], 0), now());
    unread.is_read = false;
    let gaps = SampleCluster::new("prod-gaps", cluster_with_gaps(), now());
    let live = SampleCluster::new("prod-live", owned(), now());
    let scope = FleetScope { expected: vec!["prod-gone".to_owned(), "prod-live".to_owned()], ..FleetScope::default() };
    let mut view = FleetView::sample(&[old, silent, unread, gaps, live]);
    view.take(FleetUpdate::Failed("prod-silent".into(), "cannot be opened: no rights".to_owned()));
    let fleet = FleetPage::new(&view, &scope, now(), Arc::default());
    let overview = fleet.html(&PageQuery::default());
    for text in [
        "starting: 4 of 5 clusters read",
        "prod-gone: has no bucket",
        ">prod-old</a>: last heartbeat <time",
        ">prod-silent</a>: the bucket cannot be opened: no rights",
        ">prod-unread</a>: starting",
        ">prod-gaps</a>: not everything is checked",
        ">9 min ago</time>",
    ] {
        assert!(overview.contains(text), "{text} in {overview}");
    }
    let coverage = fleet.html(&view_of(View::Coverage));
    assert!(coverage.contains("checked in 1 of 5 clusters") && coverage.contains("not checked: secrets"), "{coverage}");
    let json = json(&fleet, &PageQuery::default());
    assert_eq!((&json["complete"], &json["missing"][0]), (&false.into(), &"prod-gone".into()));
    assert_eq!(json["clusters"][1]["status"], "live");
    assert_eq!(json["clusters"][1]["violations"]["critical"], 1);
}

#[test]
fn foreign_text_is_escaped() {
    let mut cluster = SampleCluster::new("prod", hostile(), now());
    cluster.state.labels = [("a".to_owned(), "<script>\u{1b}".to_owned())].into();
    cluster.state.problems = vec!["<script>\u{202e}".to_owned()];
    cluster.state.teams = [("shop".into(), "<script>\u{1b}[2J".into())].into();
    for entry in &mut cluster.results {
        entry.since = Some(now());
        entry.rule_id = Some("<script>\u{1b}".into());
        entry.title = Some("<script>\u{202e}".into());
    }
    cluster.ended = cluster.results.iter().cloned().map(|entry| (entry, now())).collect();
    let scope = FleetScope { expected: vec!["<script>\u{1b}".to_owned()], ..FleetScope::default() };
    let fleet = page_in(&[cluster], &scope);
    let script = Some("\"><script>alert(1)</script>\u{1b}".to_owned());
    for view in View::OF_FLEET {
        let plain = view_of(view);
        let filtered = PageQuery {
            q: script.clone(),
            namespace: script.clone(),
            team: script.clone(),
            rule: script.clone(),
            kind: script.clone(),
            since: script.clone(),
            cluster: script.clone(),
            ..plain.clone()
        };
        let labelled = PageQuery { label: script.clone(), ..plain.clone() };
        for query in [plain, filtered, labelled] {
            let html = fleet.html(&query);
            // A value of a form has what was typed.
            let shown = html.replace("alert(1)&lt;/script&gt;\u{1b}", "");
            assert_eq!(html.matches("<script").count(), 1, "{html}");
            assert!(!shown.contains('\u{202e}'), "{query:?}: {html}");
        }
    }
}

#[test]
fn links_keep_the_filters_of_clusters() {
    let mut cluster = SampleCluster::new("prod", owned(), now());
    cluster.state.labels = [("env".to_owned(), "prod".to_owned())].into();
    let fleet = page(&[cluster]);
    let query =
        PageQuery { label: Some("env=prod".to_owned()), severity: Some("critical".to_owned()), ..PageQuery::default() };
    for view in View::OF_FLEET {
        let html = fleet.html(&PageQuery { view, ..query.clone() });
        for other in View::OF_FLEET {
            let url = query.to(other).url().replace('&', "&amp;");
            assert!(url.contains("label=env%3Dprod") && html.contains(&format!("href=\"{url}\"")), "{url} in {view:?}");
        }
    }
    let none = fleet.html(&PageQuery { label: Some("env=(".to_owned()), ..query.clone() });
    assert!(none.contains("is not a label selector") && none.contains("in 0 of 0 clusters"), "{none}");
    // With a label, a cluster is a filter.
    let both = fleet.html(&PageQuery { cluster: Some("prod".to_owned()), ..query });
    assert!(both.contains("in 1 of 1 cluster<"), "{both}");
}
