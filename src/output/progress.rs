//! A progress bar for long syncs, on a terminal.

use std::{io::IsTerminal, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use tokio::{sync::watch, time::sleep};

use crate::audit::overview::Progress;

/// No progress bar is shown for syncs shorter than this.
const PATIENCE: Duration = Duration::from_millis(700);

/// Shows the progress of the sync, then of the evaluation, until the pipeline ends.
pub async fn show(mut progress: watch::Receiver<Progress>) {
    if !std::io::stderr().is_terminal() {
        return;
    }
    sleep(PATIENCE).await;
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {msg} [{wide_bar}] {pos}/{len}") {
        bar.set_style(style);
    }
    let mut most = 0;
    while progress.changed().await.is_ok() {
        let now = progress.borrow_and_update().clone();
        most = most.max(now.queue);
        let (done, all, message) = if now.open {
            (most - now.queue, most, "checking objects")
        } else {
            (now.scopes_done, now.scopes, "reading kinds")
        };
        bar.set_length(all as u64);
        bar.set_position(done as u64);
        bar.set_message(message);
    }
    bar.finish_and_clear();
}
