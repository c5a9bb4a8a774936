//! A simulation of kaudit in a cluster: all of the program against an API server in memory, in one thread, by a seed.
//!
//! ```text
//! plan ────► run ────► replica      kaudit itself
//! cluster     │           │
//! policies    │           ▼
//! owners      │        faults
//!             ▼           │
//!           server ◄──────┘
//!
//! machine    the clock and the random numbers of a run
//! process    each run has a process of its own
//! ```

pub mod cluster;
pub mod faults;
pub mod machine;
pub mod owners;
pub mod plan;
pub mod policies;
pub mod process;
pub mod replica;
pub mod run;
pub mod seeds;
pub mod server;
