//! A real Kubernetes control plane for tests: etcd and kube-apiserver as child processes; also the event buses that
//! notifications are sent to.
//!
//! ```text
//! tools ──► go_build        which binary to run; builds it from tests/tools if necessary
//!   │
//! plane ──► certificates    own CA, serving and client certificates
//!   │  └──► server          one supervised child process, ends with this one
//!   ├── faults              kill, pause and restart the servers, compact and restore etcd
//!   ├── users               ServiceAccount identities and their kubeconfig files
//!   ├── kubectl             kubectl, apply, namespaces
//!   └── audit               the audit log of the API server
//! shared                    one plane for a whole test process
//! backup                    copies of the data of etcd and NATS
//! nats, kafka               a server of an event bus, which ends with this process
//! ```
//!
//! A test first calls [`require`], which prints that the test is skipped if there is neither a control plane nor Go to
//! build one. Then it uses [`shared`], or a [`ControlPlane`] of its own if it kills or freezes servers.

mod audit;
mod backup;
mod certificates;
mod faults;
mod go_build;
mod kafka;
mod kubectl;
mod nats;
mod plane;
mod server;
mod shared;
mod tools;
mod users;

pub use audit::{AuditPosition, AuditRecord};
pub use backup::DataBackup;
pub use certificates::{ServingCertificate, TestAuthority, serving_certificate};
pub use kafka::{KafkaBroker, KafkaOptions, require_kafka};
pub use nats::NatsServer;
pub use plane::{ControlPlane, Options};
pub use server::free_port;
pub use shared::shared;
pub use tools::{Tool, available, require, require_tool, tool};
pub use users::User;
