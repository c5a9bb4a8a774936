//! Responses of an API server that is overloaded or has compacted its history.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    http::{StatusCode, header, request::Parts},
    response::{IntoResponse as _, Response},
};
use futures::{StreamExt as _, stream};
use k8s_openapi::api::core::v1::ConfigMap;
use kaudit_controlplane::{require, shared};
use kube::{Api, api::PostParams};
use serde_json::json;

use super::{Scene, lasts};
use crate::proxy::{Act, Proxy};

/// The responses of the proxy.
#[derive(Debug, Default)]
struct Sky {
    /// The response to every request.
    storm: Option<(StatusCode, Option<&'static str>)>,
    /// Pages of this path are delayed, and the second one is not answered at first.
    slow: Option<String>,
    expired_pages: usize,
    /// Each watch gets one response with the status Expired.
    expired_watches: Option<BTreeSet<String>>,
}

impl Sky {
    fn act(&mut self, request: &Parts) -> Act {
        if let Some((code, after)) = self.storm {
            let answer = (code, "busy\n").into_response();
            return Act::Answer(match after {
                Some(seconds) => ([(header::RETRY_AFTER, seconds)], answer).into_response(),
                None => answer,
            });
        }
        let (path, query) = (request.uri.path(), request.uri.query().unwrap_or_default());
        let watch = query.contains("watch=true");
        if let Some(sent) = &mut self.expired_watches
            && watch
            && sent.insert(path.to_owned())
        {
            return Act::Answer(expired("too old resource version"));
        }
        if self.slow.as_deref() == Some(path) && !watch {
            if query.contains("continue=") && self.expired_pages == 0 {
                self.expired_pages += 1;
                return Act::Answer(expired("The provided continue parameter is too old"));
            }
            return Act::Wait(Duration::from_secs(1));
        }
        Act::Pass
    }
}

/// Returns the response to a request with an expired resource version.
pub(super) fn expired(message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message,
        "reason": "Expired", "code": 410,
    });
    (StatusCode::GONE, [(header::CONTENT_TYPE, "application/json")], status.to_string()).into_response()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_server_is_slow_busy_and_forgetful() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let mut scene = Scene::new(plane, "answers").await;
    // More than two pages of one kind.
    let api: Api<ConfigMap> = Api::namespaced(plane.admin().unwrap(), &scene.namespaces[0]);
    let create = |number: usize| {
        let object = json!({"metadata": {"name": format!("more-{number}"), "labels": {"bad": "9"}}});
        let (api, object) = (api.clone(), serde_json::from_value::<ConfigMap>(object).unwrap());
        async move { api.create(&PostParams::default(), &object).await.unwrap() }
    };
    stream::iter(0..1_050).map(create).buffer_unordered(8).collect::<Vec<_>>().await;

    let sky = Arc::new(Mutex::new(Sky::default()));
    sky.lock().unwrap().slow = Some(format!("/api/v1/namespaces/{}/configmaps", scene.namespaces[0]));
    let decides = sky.clone();
    let proxy = Proxy::start(plane, move |request| decides.lock().unwrap().act(request)).await;
    let writing = scene.write();
    let begin = std::time::Instant::now();
    let kaudit = scene.start(proxy.kubeconfig()).await;
    let opened = begin.elapsed();
    assert!(opened > Duration::from_secs(2), "a page, and then all of them at once: {opened:?}");
    assert_eq!(sky.lock().unwrap().expired_pages, 1);
    writing.stop().await;
    let took = scene.truth.converged(&kaudit, std::time::Instant::now()).await;
    println!("slow list whose page token expired: gate open after {opened:.1?}, right {took:.1?} after the last write");
    sky.lock().unwrap().slow = None;

    let (busy, down) = (StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE);
    for storm in [(busy, Some("1")), (busy, None), (down, Some("1")), (down, None)] {
        let storms = async || {
            sky.lock().unwrap().storm = Some(storm);
            proxy.cut();
            lasts(Duration::from_secs(3)).await;
            sky.lock().unwrap().storm = None;
        };
        scene.through(&format!("{storm:?}"), &kaudit, storms).await;
    }

    let forgets = async || {
        sky.lock().unwrap().expired_watches = Some(BTreeSet::new());
        proxy.cut();
        lasts(Duration::from_secs(1)).await;
    };
    scene.through("410 at the start of a watch", &kaudit, forgets).await;
    let sent = sky.lock().unwrap().expired_watches.take().unwrap();
    assert!(sent.len() > 20, "{sent:?}");
    assert_eq!(kaudit.stop().await, Some(0));
}
