//! kaudit judges every object of a Kubernetes cluster by Rego policies, at each change, and reports what violates them.
//!
//! The walk of one object, through the rooms of the house:
//!
//! ```text
//!  source     discovery ── kinds ──▶ informer: one list and watch a kind  ─┐
//!             manifest: files, standard input                             ─┤ Change
//!                                                                          ▼
//!  audit      pipeline: the one task that owns all state ◀── Command: reload of the policies, term, query of the result
//!               cache      ▸ the latest state of each object, as compact bytes
//!               gate       ▸ shut until every kind is synced or given up on
//!               queue      ▸ keys to judge: changes first, the latest state wins
//!               inventory  ▸ what policies look up of other objects
//!                 │ Job                                        ▲ Verdict
//!  judge          ▼  evaluate: policies × object → Verdict; pure, on blocking threads
//!  rego              Rego with OPA's meaning: rules compiled   │
//!                    to programs, and a machine that runs them │
//!                                                              ▼
//!  audit        ledger     ▸ Verdict → Delta: what appeared and what is resolved
//!                 │ Delta, while this replica leads (cluster::lease)
//!  record         ├──▶ Events · reports · the status of the Audit object
//!  output         ├──▶ text · json · ndjson · the forms of pipelines, and the exit code
//!  serve          └──▶ health · metrics · /status · /policies · the page
//! ```
//!
//! What a run does, and what it counts, [`telemetry`] also sends to a collector that the environment names.
//!
//! `check -f`, `check --once` and the long run differ only in their source and in what records; [`commands::check`] wires
//! them. One task owns cache, gate, queue and ledger, so nothing in them is locked. Of several replicas the one that holds
//! the lease records; of several shards each judges the namespaces that are its own ([`model::shard`]). Beside the walk,
//! [`commands::init`] writes policies to start from, [`commands::test`] runs their tests, and [`commands::rbac`] prints the
//! rights that the walk needs. [`commands::diff`] sends one source through two pipelines and compares their results, and
//! [`commands::explain`] asks again how a rule came to one. Policies that are published elsewhere come through [`bundle`].
//!
//! The modules below stand in the order of their imports: each uses only those before it, which `tests/rooms.rs` checks.

pub mod model;

pub mod blocking;
pub mod metrics;

/// Rego with OPA's meaning: a crate of its own, without anything of kaudit.
pub use kaudit_rego as rego;

pub mod judge;

pub mod cluster;

pub mod telemetry;

pub mod bundle;

pub mod source;

pub mod audit;

pub mod record;

pub mod output;

pub mod serve;

pub mod cli;

pub mod commands;
