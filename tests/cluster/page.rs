//! The page for people, as a long run on a real API server serves it.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::{SocketAddr, TcpStream},
    sync::mpsc,
    time::Duration,
};

use kaudit_controlplane::{require, shared};
use serde_json::Value;

use crate::support::{PATIENCE, Running, denies_marked, get, marked, policies, wait_for};

/// Opens the stream of events; returns the names of those that come.
fn events(address: SocketAddr) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET /events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n").unwrap();
    // Ends with the connection, and that with kaudit.
    std::thread::spawn(move || {
        let lines = BufReader::new(stream).lines().map_while(Result::ok);
        for name in lines.filter_map(|line| line.strip_prefix("event: ").map(str::to_owned)) {
            if sender.send(name).is_err() {
                return;
            }
        }
    });
    receiver
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_page_learns_what_changes() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let namespace = plane.temp_namespace("page").await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&namespace))]);
    plane.apply(&marked("v1", "ConfigMap", &namespace, "first", &namespace)).await.unwrap();
    let arguments =
        ["-p", directory.path().to_str().unwrap(), "-n", &namespace, "--record=none", "--listen-ui=127.0.0.1:0"];
    let kaudit = Running::start(&plane.kubeconfig(), &arguments).await;
    kaudit.ready().await;
    let address = kaudit.page().await;
    let names = |view: &str| -> Option<Vec<String>> {
        let page: Value = serde_json::from_str(&get(address, view)?).unwrap();
        let name = |entry: &Value| entry["resource"]["name"].as_str().unwrap().to_owned();
        Some(page["results"].as_array().unwrap().iter().map(name).collect())
    };
    wait_for("the first", || async { names("/?format=json").filter(|names| names == &["first"]) }).await;

    let stream = events(address);
    let changed = || stream.recv_timeout(PATIENCE).unwrap();
    assert_eq!(changed(), "changed", "what is there already");
    plane.apply(&marked("v1", "ConfigMap", &namespace, "second", &namespace)).await.unwrap();
    while names("/?format=json").unwrap() != ["first", "second"] {
        assert_eq!(changed(), "changed");
    }
    assert_eq!(names("/?format=json&q=SECOND").unwrap(), ["second"]);
    assert_eq!(names("/?format=json&namespace=other").unwrap(), [""; 0]);
    let html = get(address, &format!("/?object=ConfigMap%2F{namespace}%2Fsecond")).unwrap();
    assert!(html.contains("Exception to copy") && html.contains("marked.rego:"), "{html}");

    // What is mended is among what was resolved, which the HTML shows.
    plane.kubectl(&["-n", &namespace, "delete", "configmap", "first"]).await.unwrap();
    while names("/?format=json").unwrap() != ["second"] {
        assert_eq!(changed(), "changed");
    }
    let html = get(address, "/").unwrap();
    assert!(html.contains("1 resolved") && html.contains("ConfigMap") && html.contains("/first"), "{html}");
    assert!(stream.recv_timeout(Duration::ZERO).is_err(), "nothing else has changed");
    assert_eq!(kaudit.stop().await, Some(0));
}
