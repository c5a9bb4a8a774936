//! Child processes that end with their test.

use std::process::{Child, Command};

/// A child process that is killed when this is dropped, also if the test fails.
pub struct ChildGuard(
    /// The process.
    pub Child,
);

impl ChildGuard {
    /// Sends a signal, named without `SIG`.
    pub fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.0.id().to_string()).status().unwrap();
        assert!(sent.success());
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // It may have ended already.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
