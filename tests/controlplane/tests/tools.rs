//! The tools that a control plane does not need, built before tests use them.

use std::process::Command;

use kaudit_controlplane::{Tool, require_tool, tool};

#[test]
fn tools_run() {
    let tools = [
        (Tool::Helm, &["version"][..], "v4."),
        (Tool::Opa, &["version"], "Version: 1."),
        (Tool::Conftest, &["--version"], "Conftest:"),
        (Tool::Gator, &["--version"], "gator"),
        (Tool::Promtool, &["--version"], "promtool, version"),
        (Tool::Prometheus, &["--version"], "prometheus, version"),
        (Tool::Alertmanager, &[], "127.0.0.1:"),
        (Tool::OtlpReceiver, &[], "127.0.0.1:"),
        (Tool::Registry, &[], "usage: registry"),
        (Tool::NatsServer, &["--version"], "nats-server: v2."),
        (Tool::OpaCases, &[], "\"version\""),
        (Tool::Trivy, &["library"], "trivy-checks@v"),
        (Tool::Sigstore, &["help"], "usage: sigstore"),
    ];
    for (name, arguments, expected) in tools {
        if !require_tool(name) {
            continue;
        }
        let output = Command::new(tool(name).expect("a binary")).args(arguments).output().expect("an output");
        let printed = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(printed.contains(expected), "{name:?}: {printed}");
    }
}
