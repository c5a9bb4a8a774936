//! stub
use std::time::Duration;
#[derive(Debug, Default)]
pub struct Metrics;
impl Metrics {
    pub fn forget_kind(&self, _group: &str, _resource: &str) {}
    pub fn unreadable_object(&self, _group: &str, _resource: &str) {}
    pub fn watch_restart(&self, _group: &str, _resource: &str, _reason: &str) {}
    pub fn set_gate_open(&self, _open: bool) {}
    pub fn evaluated(&self, _took: Duration) {}
    pub fn policy_error(&self, _policy: &str) {}
    pub fn verdict_latency(&self, _took: Duration) {}
    pub fn event_latency(&self, _took: Duration) {}
    pub fn policy_reload(&self, _ok: bool) {}
    pub fn set_queue_length(&self, _length: usize) {}
    pub fn set_coverage(&self, _coverage: &[crate::output::Coverage]) {}
    pub fn set_violations(&self, _counts: &crate::ledger::Counts) {}
    pub fn recorder_write(&self, _recorder: &str) {}
    pub fn recorder_drop(&self, _recorder: &str, _reason: &str) {}
}
