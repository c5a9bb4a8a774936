//! Random modules, and real policies with random changes.

mod reads;
mod written;
