//! The commands in the guide about many clusters: three API servers take the place of kind's.

use std::{
    fmt::Write as _,
    fs,
    os::unix::{fs::symlink, process::CommandExt as _},
    path::Path,
    process::{Command, Stdio},
};

use kaudit_controlplane::{ControlPlane, Options, Tool, free_port, require, require_tool, tool};
use kaudit_test_support::{child::ChildGuard, files::folder, long_run};
use kube::config::Kubeconfig;

use crate::support::wait_for;

/// Returns the commands of the guide, one a line.
fn commands() -> Vec<String> {
    let guide = include_str!("../../../docs/operate/fleet.md");
    let (_, block) = guide.split_once("```sh\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    block.lines().map(str::to_owned).collect()
}

/// Writes a kubeconfig with the contexts that kind creates.
fn kubeconfig(planes: &[(&str, &ControlPlane)], path: &Path) {
    let mut all: Option<Kubeconfig> = None;
    for (name, plane) in planes {
        let mut own = Kubeconfig::read_from(plane.kubeconfig()).unwrap();
        let name = format!("kind-{name}");
        own.clusters[0].name.clone_from(&name);
        own.auth_infos[0].name.clone_from(&name);
        own.contexts[0].name.clone_from(&name);
        let context = own.contexts[0].context.as_mut().unwrap();
        context.cluster.clone_from(&name);
        context.user = Some(name.clone());
        own.current_context = Some(name);
        all = Some(match all {
            Some(all) => all.merge(own).unwrap(),
            None => own,
        });
    }
    fs::write(path, serde_json::to_string(&all.unwrap()).unwrap()).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_guide_show_three_clusters() {
    if !require() || !require_tool(Tool::NatsServer) {
        return;
    }
    let start = || ControlPlane::start(Options::default());
    let (blue, green, red) = tokio::try_join!(start(), start(), start()).unwrap();
    let home = folder(&[("kind", "#!/bin/sh\n")]);
    let home_path = home.path();
    kubeconfig(&[("blue", &blue), ("green", &green), ("red", &red)], &home_path.join("kubeconfig"));
    for (name, program) in [
        ("kaudit", Path::new(env!("CARGO_BIN_EXE_kaudit")).to_owned()),
        ("kubectl", tool(Tool::Kubectl).unwrap()),
        ("nats-server", tool(Tool::NatsServer).unwrap()),
    ] {
        symlink(program, home_path.join(name)).unwrap();
    }
    Command::new("chmod").arg("+x").arg(home_path.join("kind")).status().unwrap();
    let [nats, page] = [free_port().unwrap(), free_port().unwrap()];
    let path = format!("{}:{}", home_path.display(), std::env::var("PATH").unwrap());
    let mut background = Vec::new();
    let mut printed = String::new();
    let commands = commands();
    assert_eq!(commands.len(), 10);
    for command in commands {
        let command = command.replace("4222", &nats.to_string()).replace("8083", &page.to_string());
        let command = command.replace("/tmp/fleet", &home_path.join("data").display().to_string());
        if command.ends_with(" &") {
            // The shell is replaced by the program, so that it can be ended.
            let exec = format!("exec {}", command.trim_end_matches(" &"));
            let mut shell = Command::new("bash");
            shell.args(["-c", &exec]).current_dir(home_path).stdin(Stdio::null()).stdout(Stdio::null());
            shell.env("PATH", &path).env("KUBECONFIG", home_path.join("kubeconfig")).stderr(Stdio::null());
            background.push(ChildGuard(shell.process_group(0).spawn().unwrap()));
            continue;
        }
        // A user waits until the clusters are in their buckets.
        printed += &wait_for(&command, || async {
            let output = shell_output(&command, home_path, &path)?;
            let is_whole = !command.contains("kaudit fleet") || !output.contains("Not everything was checked");
            is_whole.then_some(output)
        })
        .await;
        writeln!(printed, "--- after {command}").unwrap();
    }
    for shown in ["deployment.apps/web created", "green", "web"] {
        assert!(printed.contains(shown), "{shown}:\n{printed}");
    }
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], page));
    let view = wait_for("the page", || async {
        long_run::get(address, "/").filter(|page| ["blue", "green", "red"].iter().all(|name| page.contains(name)))
    })
    .await;
    assert!(view.contains("live"), "{view}");
    drop(background);
    for plane in [blue, green, red] {
        plane.stop().await.unwrap();
    }
}

/// Returns the output of a command that must succeed, or find violations; `None` if it has to be run again.
fn shell_output(command: &str, home: &Path, path: &str) -> Option<String> {
    let mut shell = Command::new("bash");
    shell.args(["-c", command]).current_dir(home).stdin(Stdio::null());
    let output =
        shell.env("PATH", path).env("KUBECONFIG", home.join("kubeconfig")).env("NO_COLOR", "1").output().unwrap();
    matches!(output.status.code(), Some(0 | 1)).then(|| String::from_utf8(output.stdout).unwrap())
}
