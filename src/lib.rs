//! kaudit judges every object of a Kubernetes cluster by Rego policies, at each change, and records what violates them.
//!
//! The walk of one object, which is also the order of the modules:
//!
//! ```text
//!  discovery ── kinds ──▶ informer (one task a scope: list, then watch) ┐
//!                         manifest (files, standard input)             ├─ Change ─▶ pipeline, the one owner of state
//!                                                                      ┘            cache   ▸ the latest of each object
//!                                                                                   gate    ▸ shut until every kind is synced or given up on
//!                                                                                   queue   ▸ keys to judge; the latest state wins
//!                                                                                   inventory ▸ what policies look up of other objects
//!                      evaluate (blocking threads; pure: policies × object → Verdict) ◀──┘
//!                                                                                   ledger  ▸ Verdict → Delta (appeared, resolved)
//!                      record: events · Audit status     output: text, json, ndjson     admin: health, metrics ◀──┘
//! ```
//!
//! Of several replicas one records, by a `lease`; of several shards each takes the namespaces that are its own, by a
//! `shard`.
//!
//! Beside that walk, `test` runs the unit tests of policies, and `rbac` prints the rights that the walk needs.
//!
//! One task owns cache, gate, queue and ledger, so there is no lock around any of them. `check -f`, `check --once` and
//! the long run differ only in the source and in what records.

// From the ground up: each room uses only those above it in this list, which `tests/rooms.rs` holds it to.
pub mod model;

pub mod metrics;

pub mod rego;

pub mod judge;

pub mod cluster;

pub mod source;

pub mod audit;

pub mod record;

pub mod output;

pub mod serve;

pub mod cli;

pub mod commands;
