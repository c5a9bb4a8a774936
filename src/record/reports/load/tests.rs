use std::{
    convert::Infallible,
    sync::atomic::{AtomicUsize, Ordering},
};

use axum::body::Body as Answer;
use http::{Request, Response};
use kube::client::Body;
use serde_json::Value;
use tokio::time::Instant;

use super::*;
use crate::{
    metrics::Metrics,
    record::reports::{
        format::{Instance, Layout},
        settings::Ownership,
    },
};

/// A server of both report APIs. `answer` returns the status code for a path, given the count of earlier requests that
/// listed reports.
fn settings(answer: impl Fn(&str, usize) -> u16 + Clone + Send + Sync + 'static) -> ReportSettings {
    let lists = Arc::new(AtomicUsize::new(0));
    let serve = move |request: Request<Body>| {
        let path = request.uri().path().to_owned();
        let is_list = path.ends_with("reports");
        let before = if is_list { lists.fetch_add(1, Ordering::Relaxed) } else { lists.load(Ordering::Relaxed) };
        let code = answer(&path, before);
        let body = match code {
            200 if is_list => {
                json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": []})
            }
            200 => resources(&path),
            code => json!({"kind": "Status", "status": "Failure", "code": code, "message": "no", "reason": ""}),
        };
        async move { Ok::<_, Infallible>(Response::builder().status(code).body(Answer::from(body.to_string())).unwrap()) }
    };
    ReportSettings {
        client: Client::new(tower::service_fn(serve), "default"),
        choice: Choice::Auto,
        layout: Layout::Namespace,
        instance: Instance::new("kaudit", "kaudit"),
        owned: Ownership::default(),
        metrics: Arc::new(Metrics::default()),
    }
}

fn resources(path: &str) -> Value {
    let name = if path.contains("openreports") { "reports" } else { "policyreports" };
    let resource = json!({"name": name, "singularName": "", "kind": "X", "namespaced": true, "verbs": []});
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "x/v1", "resources": [resource]})
}

#[tokio::test(start_paused = true)]
async fn reports_whose_list_is_refused_for_a_moment_are_read_later() {
    for code in [403, 404, 400, 500] {
        for attempts in [Attempts::Patient, Attempts::Limited] {
            let settings = settings(move |path, lists| if lists < 3 { code_of(path, code) } else { 200 });
            let began = Instant::now();
            let loaded = load(&settings, attempts).await.unwrap();
            assert_eq!((loaded.read_error.as_str(), loaded.api), ("", Some(Api::OpenReports)), "{code} {attempts:?}");
            assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
        }
    }
}

/// The code for lists of reports alone.
fn code_of(path: &str, code: u16) -> u16 {
    if path.ends_with("reports") { code } else { 200 }
}

#[tokio::test(start_paused = true)]
async fn reports_whose_list_stays_refused_are_left_out() {
    for (attempts, seconds) in [(Attempts::Patient, 20..30), (Attempts::Limited, 20..30), (Attempts::One, 0..1)] {
        let settings = settings(|path, _| code_of(path, 403));
        let began = Instant::now();
        let loaded = load(&settings, attempts).await.unwrap();
        assert!(!loaded.read_error.is_empty(), "{attempts:?}");
        assert!(seconds.contains(&began.elapsed().as_secs()), "{attempts:?}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn reports_of_an_api_that_is_not_written_cause_no_wait() {
    let settings = settings(|path, _| if path.contains("wgpolicy") { code_of(path, 403) } else { 200 });
    let began = Instant::now();
    let loaded = load(&settings, Attempts::Patient).await.unwrap();
    assert_eq!((loaded.read_error.as_str(), loaded.api), ("", Some(Api::OpenReports)));
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_preferred_api_is_found_where_the_first_answer_does_not_name_it() {
    for first_unserved in ["openreports", "wgpolicy", "io"] {
        let requests = Arc::new(AtomicUsize::new(0));
        let settings = settings(move |path, _| {
            let is_group = path.ends_with("v1alpha1") || path.ends_with("v1alpha2");
            let first_round = is_group && requests.fetch_add(1, Ordering::Relaxed) < 2;
            if first_round && path.contains(first_unserved) { 404 } else { 200 }
        });
        assert_eq!(load(&settings, Attempts::One).await.unwrap().api, Some(Api::OpenReports), "{first_unserved}");
    }
    let only_policy = settings(|path, _| if path.contains("openreports") { 404 } else { 200 });
    assert_eq!(load(&only_policy, Attempts::One).await.unwrap().api, Some(Api::WgPolicy));
}
