use http_body_util::BodyExt as _;
use tower::ServiceExt as _;

use super::*;
use crate::{
    audit::result::AuditResult,
    fleet::{follow::FleetUpdate, samples::SampleCluster},
};

/// Returns a site with one cluster, and the sender of its view.
fn site() -> (FleetSite, watch::Sender<Arc<FleetView>>) {
    let mut view = FleetView::sample(&[SampleCluster::new("prod", AuditResult::sample(1), Timestamp::now())]);
    view.take(FleetUpdate::Connection(String::new()));
    let (sender, view) = watch::channel(Arc::new(view));
    let scope = FleetScope { expected: vec!["gone".to_owned()], ..FleetScope::default() };
    (FleetSite::new(view, scope), sender)
}

fn change(sender: &watch::Sender<Arc<FleetView>>, update: FleetUpdate) {
    sender.send_modify(|view| Arc::make_mut(view).take(update));
}

async fn ask(router: Router, host: &str, path: &str) -> (StatusCode, HeaderMap, String) {
    let request = Request::builder().uri(path).header(header::HOST, host).body(Body::empty()).unwrap();
    let (head, body) = router.oneshot(request).await.unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    (head.status, head.headers, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn the_page_is_served_to_this_machine_only() {
    let (site, _sender) = site();
    for path in
        ["/", "/?cluster=prod", "/style.css", "/script.js", "/?format=json&q=", "/?format=csv", "/?view=nothing"]
    {
        let (status, headers, body) = ask(site.clone().pages(), "127.0.0.1:8083", path).await;
        assert_eq!(status, StatusCode::OK, "{path}: {body}");
        assert_eq!(headers[header::CONTENT_SECURITY_POLICY], page::POLICY);
        let (status, ..) = ask(site.clone().pages(), "fleet.example.com", path).await;
        assert_eq!(status, StatusCode::MISDIRECTED_REQUEST, "{path}");
    }
    let (.., csv) = ask(site.clone().pages(), "localhost", "/?format=csv").await;
    assert!(csv.starts_with("severity,result,") && csv.lines().count() == 1, "{csv}");
    let (.., html) = ask(site.pages(), "localhost", "/").await;
    assert!(html.contains("gone: has no bucket") && html.contains(">prod</a>"), "{html}");
}

#[tokio::test]
async fn it_is_ready_when_all_buckets_were_read() {
    let (site, sender) = site();
    assert_eq!(ask(site.clone().health(), "10.0.0.1", "/readyz").await.0, StatusCode::OK);
    change(&sender, FleetUpdate::Clusters(["prod".into(), "test".into()].into()));
    let (status, _, body) = ask(site.clone().health(), "10.0.0.1", "/readyz").await;
    assert_eq!((status, &*body), (StatusCode::SERVICE_UNAVAILABLE, "[-]buckets: 1 of 2 read\n"));
    let (_, headers, text) = ask(site.clone().health(), "10.0.0.1", "/metrics").await;
    assert_eq!(headers[header::CONTENT_TYPE], metrics::CONTENT_TYPE);
    for line in [
        "kaudit_fleet_clusters{status=\"live\"} 1",
        "kaudit_fleet_clusters{status=\"starting\"} 1",
        "kaudit_fleet_clusters{status=\"missing\"} 1",
        "kaudit_fleet_violations{cluster=\"prod\",severity=\"critical\"} 0",
        "kaudit_fleet_complete{cluster=\"prod\"} 1",
        "kaudit_fleet_complete{cluster=\"test\"} 0",
        "kaudit_fleet_connected 1",
    ] {
        assert!(text.lines().any(|known| known == line), "{line} in {text}");
    }
    assert_eq!(ask(site.clone().health(), "10.0.0.1", "/livez").await.0, StatusCode::OK);
    drop(sender);
    assert_eq!(ask(site.health(), "10.0.0.1", "/livez").await.0, StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn open_pages_learn_of_changes_and_later_of_heartbeats() {
    let (site, sender) = site();
    let values = site.view.borrow().values_revision;
    let mut events = Box::pin(changes(site, Some(values)));
    let began = Instant::now();
    change(&sender, FleetUpdate::Failed("prod".into(), "cannot be opened".to_owned()));
    assert!(events.next().await.is_some());
    assert!(began.elapsed() < REST.0, "at once: {:?}", began.elapsed());
    // Many changes are one event.
    for _ in 0..10 {
        change(&sender, FleetUpdate::Failed("prod".into(), "cannot be opened".to_owned()));
    }
    assert!(events.next().await.is_some());
    assert!(began.elapsed() >= REST.0 && began.elapsed() < HEARTBEATS, "{:?}", began.elapsed());
    let again = Instant::now();
    change(&sender, FleetUpdate::Connection(String::new()));
    assert!(events.next().await.is_some());
    assert!(again.elapsed() + REST.0 >= HEARTBEATS, "{:?}", again.elapsed());
    drop(sender);
    assert!(events.next().await.is_none());
}

#[test]
fn a_page_is_alive_only_while_nats_answers() {
    let (site, sender) = site();
    let at = site.view.borrow().listed_at.unwrap();
    let later = |seconds: i64| at.saturating_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    assert_eq!(listed_lately(&site.view.borrow(), later(9)), Some(at));
    assert_eq!(listed_lately(&site.view.borrow(), later(60)), None);
    change(&sender, FleetUpdate::Connection("NATS cannot be reached".to_owned()));
    assert_eq!(listed_lately(&site.view.borrow(), later(0)), None);
}

#[tokio::test]
async fn what_fails_before_the_first_byte_is_an_error() {
    let failing = file("text/csv", |_| Err(io::Error::other("too many results"))).await;
    assert_eq!(failing.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let body = failing.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(&*body, b"too many results\n");
    // What fails later must not look whole.
    let broken = file("text/csv", |out| {
        out.write_all(&vec![b'a'; 3 * CHUNK.0])?;
        Err(io::Error::other("damaged"))
    });
    let broken = broken.await;
    assert_eq!(broken.status(), StatusCode::OK);
    assert!(broken.into_body().collect().await.is_err());
}
