//! Errors when nothing can be checked: no cluster, or none of the selected kinds.

use std::{
    io::Read as _,
    net::TcpListener,
    time::{Duration, Instant},
};

use kaudit_controlplane::{require, shared};
use tokio::net::TcpSocket;

use crate::{
    proxy,
    support::{denies_marked, kaudit, policies, run},
};

#[tokio::test]
async fn wrong_kinds_or_contexts_are_errors_with_suggestions() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let directory = policies(&[("marked.rego", &denies_marked("none"))]);
    let policies = directory.path().to_str().unwrap();
    let common = ["check", "--once", "--policies", policies];
    for (argument, hint) in [
        ("--include=deploymnets", "the nearest name is deployments"),
        ("--exclude=secret.apps", "the cluster serves no kind secret.apps"),
        ("--context=elsewhere", "cannot use the context \"elsewhere\" (contexts in the kubeconfig: test)"),
    ] {
        let ended = run(&plane.kubeconfig(), &[&common[..], &[argument]].concat()).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(hint), "{ended:?}");
    }
}

/// How long a run may retry, on a busy machine. On a quiet one it gives up after ten seconds.
const IN_VAIN: Duration = Duration::from_mins(1);

/// Returns a port that refuses connections while the socket is kept: it is bound, so that no other process can use it,
/// but does not listen.
fn closed() -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    socket
}

#[tokio::test]
async fn an_unreachable_cluster_is_an_error_within_seconds() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    // Accepts connections and never responds.
    std::thread::spawn(move || {
        for mut stream in silent.incoming().map_while(Result::ok) {
            std::thread::spawn(move || stream.read_to_end(&mut Vec::new()));
        }
    });
    let closed = closed();
    let closed_port = closed.local_addr().unwrap().port();
    let directory = policies(&[("marked.rego", &denies_marked("none"))]);
    let policies = directory.path().to_str().unwrap();
    let cases = [
        (format!("https://127.0.0.1:{closed_port}"), "Check that the cluster runs, that the address"),
        (format!("https://127.0.0.1:{silent_port}"), "Check that the cluster runs"),
        (format!("http://127.0.0.1:{silent_port}"), "did not answer within"),
    ];
    let runs = cases.iter().flat_map(|case| [(case, "--once"), (case, "--listen=127.0.0.1:0")]);
    let runs = runs.map(|((server, hint), mode)| async move {
        let files = tempfile::tempdir().unwrap();
        let kubeconfig = proxy::kubeconfig(files.path(), server);
        let begin = Instant::now();
        let ended = run(&kubeconfig, &["check", "--policies", policies, mode]).await;
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{ended:?}");
        assert!(ended.stderr.contains(server) && ended.stderr.contains(hint), "{ended:?}");
        assert!(begin.elapsed() < IN_VAIN, "{:?}", begin.elapsed());
    });
    futures::future::join_all(runs).await;
}

#[tokio::test]
async fn the_proxy_is_used_unless_no_proxy_names_the_cluster() {
    if !require() {
        return;
    }
    let plane = shared().await;
    let closed = closed();
    let closed_port = closed.local_addr().unwrap().port();
    let directory = policies(&[("marked.rego", &denies_marked("none"))]);
    for (no_proxy, code) in [("", 2), ("elsewhere.example.com", 2), ("127.0.0.0/8", 0), ("localhost,127.0.0.1", 0)] {
        let policies = directory.path().to_str().unwrap();
        let mut command =
            kaudit(&plane.kubeconfig(), &["check", "--once", "--exclude=*", "--include=namespaces", "-p", policies]);
        command.env("HTTPS_PROXY", format!("http://127.0.0.1:{closed_port}")).env("NO_PROXY", no_proxy);
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        assert_eq!(output.status.code(), Some(code), "NO_PROXY={no_proxy}: {output:?}");
    }
}
