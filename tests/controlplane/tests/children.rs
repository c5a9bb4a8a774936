//! The servers end with the process that started them, in any case.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio, exit};
use std::thread;
use std::time::{Duration, Instant};

use kaudit_controlplane::{require, shared};

/// The environment variable that makes a test process end in a certain way.
const ENDING: &str = "KAUDIT_TEST_ENDING";

/// The control plane of a test process, as printed by it.
struct Plane {
    pids: Vec<String>,
    folder: PathBuf,
}

/// Not a test: the body of the processes that the tests start.
#[expect(clippy::exit, reason = "the test is about a process that exits without dropping anything")]
#[tokio::test]
async fn child() {
    let Ok(ending) = env::var(ENDING) else { return };
    let plane = shared().await;
    // A frozen server must also end.
    plane.pause_etcd().expect("a server to pause");
    let pids: Vec<_> = plane.pids().iter().map(u32::to_string).collect();
    let folder = plane.kubeconfig().parent().expect("a folder").display().to_string();
    println!("plane {}\nplane {folder}", pids.join(","));
    match ending.as_str() {
        "exit" => exit(3),
        "panic" => panic!("as requested"),
        _ => loop {
            thread::park();
        },
    }
}

#[test]
fn servers_end_when_we_are_killed() {
    if !require() {
        return;
    }
    let (mut child, plane) = start("park");
    assert_eq!(plane.pids.len(), 2);
    assert!(plane.pids.iter().all(|pid| is_alive(pid)));
    child.kill().expect("a process to kill");
    child.wait().expect("an end");
    wait_until_gone(&plane);
}

#[test]
fn servers_end_when_we_exit_without_dropping_anything() {
    if !require() {
        return;
    }
    let (mut child, plane) = start("exit");
    assert_eq!(child.wait().expect("an end").code(), Some(3));
    wait_until_gone(&plane);
}

#[test]
fn servers_end_when_a_test_panics() {
    if !require() {
        return;
    }
    let (mut child, plane) = start("panic");
    assert!(!child.wait().expect("an end").success());
    wait_until_gone(&plane);
}

fn start(ending: &str) -> (Child, Plane) {
    let mut child = Command::new(env::current_exe().expect("our own path"))
        .args(["--exact", "child", "--nocapture"])
        .env(ENDING, ending)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("a process");
    let output = BufReader::new(child.stdout.take().expect("an output"));
    let mut words = output.lines().map_while(Result::ok).filter_map(|line| {
        // The harness prints the test's name before our first line, on the same line.
        line.split_once("plane ").map(|(_, word)| word.to_owned())
    });
    let pids = words.next().expect("process ids").split(',').map(str::to_owned).collect();
    let folder = PathBuf::from(words.next().expect("a folder"));
    (child, Plane { pids, folder })
}

fn wait_until_gone(plane: &Plane) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while plane.pids.iter().any(|pid| is_alive(pid)) || plane.folder.exists() {
        assert!(Instant::now() < deadline, "still there: {}", plane.folder.display());
        thread::sleep(Duration::from_millis(20));
    }
}

fn is_alive(pid: &str) -> bool {
    let status = Command::new("kill").args(["-0", pid]).stderr(Stdio::null()).status();
    status.expect("a kill command").success()
}
