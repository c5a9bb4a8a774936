//! Compares expressions with the API server's environment, and checks that no expression ends the process.

#![expect(clippy::unwrap_used, reason = "a test says what failed")]

mod generator;
mod kyverno;
mod random;
mod reads;
mod robust;
mod server;
mod table;

/// Calls a function on a stack as large as that of most threads.
fn on_small_stack<T: Send>(run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        std::thread::Builder::new().stack_size(2 << 20).spawn_scoped(scope, run).unwrap().join().unwrap()
    })
}
