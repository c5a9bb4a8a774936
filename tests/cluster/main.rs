//! kaudit on a real control plane: etcd and kube-apiserver, started once for all tests of this binary.
//!
//! The real binary runs as users run it, mostly with the chart's ServiceAccount. Tests share the cluster, so each
//! creates its own namespaces and only reads those; tests that need a whole cluster start one.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test says what failed"
)]

mod admission_policies;
mod alerts;
mod basics;
mod browser;
mod bundles;
mod chart;
mod clusters;
mod convergence;
mod coverage;
mod crd_rules;
mod dependents;
mod diff;
mod events;
mod exception_status;
mod exceptions;
mod explain;
mod faults;
mod fleet;
mod image;
mod kubectl;
mod namespaced;
mod notify;
mod odd;
mod owners;
mod page;
mod plans;
mod pod_security;
mod policies;
mod program;
mod proxy;
mod reach;
mod recorders;
mod refused;
mod relist;
mod reloading;
mod reports;
mod requests;
mod rights;
mod secrets;
mod shards;
mod support;
mod telemetry;
mod tenant;
mod truth;
mod versions;
mod wire;
mod with_cluster;
mod writer;
mod writers;
