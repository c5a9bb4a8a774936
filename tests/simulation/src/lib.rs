//! A simulation of kaudit in a cluster: the whole program against an in-memory API server, in one thread, determined by
//! a seed.
//!
//! ```text
//!              plan ────► run ────► replica      kaudit itself
//!                          │ │          │
//! cluster ◄── comparison ◄─┘ │          ▼
//! policies    history        │       faults
//! owners                     ▼          │
//!                          server ◄─────┤
//!                           bus ◄───────┘
//!
//! machine    the clock and the random numbers of a run
//! process    each run has a process of its own
//! ```

pub mod bus;
pub mod cluster;
pub mod comparison;
pub mod excuses;
pub mod faults;
pub mod history;
pub mod machine;
pub mod owners;
pub mod plan;
pub mod policies;
pub mod policy_files;
pub mod process;
pub mod replica;
pub mod run;
pub mod seeds;
pub mod server;
