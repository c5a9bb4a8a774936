//! kaudit evaluates Rego policies on every object of a Kubernetes cluster whenever it changes, and reports violations.
//!
//! The path of an object through the modules:
//!
//! ```text
//!  source     discovery ── kinds ──▶ informer: a list and a watch for each kind ─┐
//!             manifest: files, standard input                                   ─┤ Change
//!                                                                                ▼
//!  audit      pipeline: the one task that owns all state ◀── Command: reload, leadership term, query of the result
//!               watched    ▸ cache: the latest state of each object, as compact bytes
//!                            gate: shut until every kind is synced or given up on
//!               schedule   ▸ queue: objects to evaluate, changes first; inventory: the objects that policies look up
//!                 │ Job                                              ▲ Verdict
//!  judge          ▼  evaluate: policies × object → Verdict, pure, on blocking threads
//!  rego              the rules, compiled to programs, and the machine that runs them
//!                                                                    │
//!  audit        results    ▸ exceptions: which violations are excused ▼
//!                            ledger: Verdict → Delta: which violations are new or resolved, and which an owner covers
//!                 │ Delta, while this replica is the leader (cluster::lease)
//!  record         ├──▶ Events · reports · notifications · status of the Audit and of PolicyExceptions
//!  output         ├──▶ text, JSON and the formats of other tools, and the exit code
//!  serve          └──▶ health · metrics · /status · /policies · the page
//! ```
//!
//! `check -f`, `check --once` and the continuous run differ only in their source and their recorders; [`run`] makes the
//! parts of a run from the options, and [`commands::check`] connects them. One task owns the
//! state of the audit, so it needs no locks; other tasks get what they need through channels. Of several replicas the one that holds the Lease records; of several shards each evaluates its own namespaces
//! ([`model::shard`]). [`telemetry`] sends traces and metrics of a run to a collector, and [`bundle`] downloads policies
//! that are published elsewhere.
//!
//! Other commands use parts of it: [`commands::diff`] sends one source through two pipelines and compares their results,
//! [`commands::explain`] evaluates one rule again with a trace, [`commands::test`] runs tests of policies, [`commands::init`]
//! writes policies to start from, and [`commands::rbac`] prints the rights that a run needs.
//!
//! The modules below are in the order of their imports: each uses only those before it, which `tests/rooms.rs` checks.

pub mod model;

pub mod blocking;
pub mod metrics;

/// The Rego evaluator, a separate crate that does not depend on kaudit.
pub use kaudit_rego as rego;

pub mod judge;

pub mod cluster;

pub mod bus;

pub mod telemetry;

pub mod bundle;

pub mod source;

pub mod audit;

pub mod fleet;

pub mod record;

pub mod output;

pub mod serve;

pub mod cli;

pub mod run;

pub mod commands;
