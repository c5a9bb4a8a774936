//! Times and memory for very many results:
//! `cargo test --release --lib page::fleet::tests::scale -- --ignored --nocapture`

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use fastrand::Rng;
use jiff::SignedDuration;

use super::{
    super::super::query::{PageQuery, View},
    now, view_of,
};
use crate::{
    audit::result::Entry,
    fleet::{samples::SampleCluster, scope::FleetScope, view::FleetView},
    model::verdict::{Outcome, Severity},
    output::{
        page::fleet::FleetPage,
        tests::{audit, entry, resource},
    },
};

/// The numbers of clusters, and of violations of each.
const SIZE: (usize, usize) = (1_000, 5_000);

/// Returns a violation as the library writes them, of an object with a generated name.
fn violation(random: &mut Rng, rules: &[(String, String, Severity)], namespace: usize) -> Entry {
    let (policy, rule, severity) = &rules[random.usize(..rules.len())];
    let suffix: String = std::iter::repeat_with(|| random.alphanumeric()).take(10).collect();
    let name = format!("service-{}-{suffix}", random.u16(..400));
    let object = resource("apps/v1", "Deployment", &format!("namespace-{namespace}"), &name);
    let message = format!("container \"main\" of {name} must set securityContext.allowPrivilegeEscalation to false");
    let age = SignedDuration::from_mins(random.i64(0..100_000));
    Entry {
        severity: Some(*severity),
        since: Some(now().saturating_sub(age).unwrap()),
        ..entry(object, policy, rule, Outcome::Fail, &message)
    }
}

fn cluster(random: &mut Rng, number: usize, rules: &[(String, String, Severity)]) -> SampleCluster {
    let results = (0..SIZE.1 / 5).flat_map(|object| {
        let first = violation(random, rules, object % 40);
        // Objects have several violations.
        let more: Vec<Entry> = (1..5).map(|_| violation(random, rules, object % 40)).collect();
        let resource = Arc::clone(&first.resource);
        let more = more.into_iter().map(move |entry| Entry { resource: Arc::clone(&resource), ..entry });
        std::iter::once(first).chain(more).collect::<Vec<_>>()
    });
    let mut cluster = SampleCluster::new(&format!("cluster-{number:04}"), audit(results.collect(), vec![], 0), now());
    cluster.state.labels = [("env".to_owned(), ["prod", "test"][number % 2].to_owned())].into();
    cluster
}

fn timed(page: &FleetPage, query: &PageQuery) -> (Duration, usize) {
    let best = (0..5).map(|_| {
        let began = Instant::now();
        let bytes = page.html(query).len();
        (began.elapsed(), bytes)
    });
    best.min().unwrap()
}

#[test]
#[ignore = "takes minutes, and gigabytes of memory"]
fn views_of_five_million_violations() {
    let mut random = Rng::with_seed(1);
    let severity = |number: usize| Severity::ALL[number % 4];
    let rules: Vec<_> =
        (0..60).map(|number| (format!("policy_{}", number / 4), format!("deny_{number}"), severity(number))).collect();
    let mut view = FleetView::sample(&[]);
    let names = (0..SIZE.0).map(|number| format!("cluster-{number:04}").as_str().into()).collect();
    view.take(crate::fleet::follow::FleetUpdate::Clusters(names));
    for number in 0..SIZE.0 {
        let cluster = cluster(&mut random, number, &rules);
        view.set(&cluster.name, cluster.values(), now(), true);
    }
    let parts = || view.clusters.values().flat_map(|cluster| cluster.shards()).flat_map(|shard| shard.parts.values());
    let (rows, bytes) = parts().fold((0, 0), |(rows, bytes), part| (rows + part.rows.len(), bytes + part.bytes()));
    println!("{rows} violations in {} parts: {} bytes each", parts().count(), bytes / rows.max(1));
    assert!(rows == SIZE.0 * SIZE.1 && bytes / rows <= 200);
    let page = FleetPage::new(&view, &FleetScope::default(), now(), Arc::default());
    let everywhere = PageQuery { q: Some("service-17".to_owned()), ..PageQuery::default() };
    assert!(page.html(&everywhere).contains("The text is searched in at most 500000 results"));
    let queries = View::OF_FLEET.map(view_of).into_iter().chain([
        PageQuery { label: Some("env=prod".to_owned()), severity: Some("critical".to_owned()), ..PageQuery::default() },
        PageQuery { namespace: Some("namespace-7".to_owned()), ..PageQuery::default() },
        PageQuery { page: Some(40_000), ..view_of(View::Objects) },
        PageQuery {
            namespace: Some("namespace-7".to_owned()),
            q: Some("service-17".to_owned()),
            ..PageQuery::default()
        },
        PageQuery { cluster: Some("cluster-0007".to_owned()), ..PageQuery::default() },
    ]);
    for query in queries {
        let (took, bytes) = timed(&page, &query);
        println!("{took:>10.1?} {bytes:>8} bytes  {}", query.url());
    }
}
