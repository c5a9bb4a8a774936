use std::convert::Infallible;

use http::{Request, Response};
use kube::{Client, client::Body};

use super::*;
use crate::{
    audit::recorded::Recorded,
    metrics::Metrics,
    model::object::ObjectRef,
    record::reports::{
        format::{Choice, Instance, Layout, ReportFormat},
        settings::Ownership,
    },
};

/// A recorder that has written a report of namespace `shop` to openreports.io.
fn recorder() -> ReportRecorder {
    let answer = |_: Request<Body>| std::future::pending::<Result<Response<Body>, Infallible>>();
    let instance = Instance::new("kaudit", "kaudit");
    let settings = ReportSettings {
        client: Client::new(tower::service_fn(answer), "default"),
        choice: Choice::Auto,
        layout: Layout::Namespace,
        instance: instance.clone(),
        owned: Ownership::default(),
        metrics: Arc::new(Metrics::default()),
    };
    let mut reports = ReportSet::new(ReportFormat { layout: Layout::Namespace, instance, dated: true });
    let object = ObjectRef {
        cluster: None,
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: Some("shop".into()),
        name: "web".into(),
        uid: "u".into(),
    };
    let key = ReportKey::of(&reports.format, &object);
    let stored = Stored { content: None, resource_version: "7".to_owned() };
    reports.reports.entry(key).or_default().stored.insert("kaudit".to_owned(), stored);
    let loaded = LoadedReports {
        recorded: Recorded::default(),
        api: Some(Api::OpenReports),
        reports,
        obsolete: Obsolete::new(),
        read_error: String::new(),
    };
    ReportRecorder::new(settings, loaded, watch::channel(Health::default()).0)
}

#[tokio::test]
async fn another_api_is_written_after_two_answers_and_the_reports_of_the_former_one_are_obsolete() {
    let (open, policy) = (Some(Api::OpenReports), Some(Api::WgPolicy));
    let now = Instant::now();
    for (answers, written) in [
        (vec![policy], None),
        (vec![policy, None, policy], None),
        (vec![policy, open], open),
        (vec![None, open], open),
        (vec![policy, policy], policy),
        (vec![None, policy, None, policy, policy], policy),
    ] {
        let mut recorder = recorder();
        recorder.api_lost(now);
        for answer in &answers {
            recorder.discovered(*answer, now);
        }
        assert_eq!(recorder.api, written, "{answers:?}");
        let obsolete: Vec<_> = recorder.obsolete.values().flatten().cloned().collect();
        let expected = if written == policy { vec![(Api::OpenReports, "kaudit".to_owned())] } else { Vec::new() };
        assert_eq!(obsolete, expected, "{answers:?}");
    }
}
