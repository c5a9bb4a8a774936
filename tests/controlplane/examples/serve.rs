//! Runs a control plane until standard input ends, or Ctrl-C.
//!
//! `cargo run -p kaudit-controlplane --example serve`, then in another terminal the printed commands.

use std::io::{Write as _, stdin, stdout};
use std::time::Instant;

use kaudit_controlplane::{ControlPlane, Options, Tool, tool};

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let kubectl = tool(Tool::Kubectl)?;
    let begin = Instant::now();
    let plane = ControlPlane::start(Options { controller_manager: true, ..Options::default() }).await?;
    let mut output = stdout();
    writeln!(output, "# {} is ready after {:.1?}", plane.url(), begin.elapsed())?;
    writeln!(output, "export KUBECONFIG={}", plane.kubeconfig().display())?;
    writeln!(output, "alias kubectl={}", kubectl.display())?;
    while stdin().read_line(&mut String::new())? > 0 {}
    plane.stop().await
}
