//! Processes items in parallel, and delivers the results in order.

use std::{
    num::NonZero,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use crate::blocking::STACK_BYTES;

/// The most items that wait for each thread, and the most results that wait to be taken.
const WAITING: usize = 2;

/// Calls `work` for all `items`, on as many threads as there are processors, and passes the results to `take` in the
/// order of the items. Only a few are held at a time.
pub(super) fn in_order<P: Send, R: Send>(
    mut items: impl Iterator<Item = P>,
    work: impl Fn(P) -> R + Sync,
    mut take: impl FnMut(R),
) {
    // A single item is not worth a thread.
    let (Some(first), second) = (items.next(), items.next()) else { return };
    let Some(second) = second else { return take(work(first)) };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| {
        let work = &work;
        let workers: Vec<(SyncSender<P>, Receiver<R>)> = (0..threads)
            .map_while(|_| {
                let (sender, received) = sync_channel::<P>(WAITING);
                let (done, results) = sync_channel(WAITING);
                let run = move || received.iter().map(work).all(|result| done.send(result).is_ok());
                thread::Builder::new().stack_size(STACK_BYTES).spawn_scoped(scope, run).ok()?;
                Some((sender, results))
            })
            .collect();
        // Round robin: the n-th result is that of the worker which got the n-th item.
        let (mut sent, mut taken) = (0, 0);
        let turn = |number: usize| workers.get(number % workers.len().max(1));
        let mut collect = |taken: &mut usize| {
            if let Some(Ok(result)) = turn(*taken).map(|(_, results)| results.recv()) {
                take(result);
            }
            *taken += 1;
        };
        for item in [first, second].into_iter().chain(items) {
            if sent - taken == workers.len() * WAITING {
                collect(&mut taken);
            }
            // A worker ends only after its sender.
            let _sent = turn(sent).map(|(sender, _)| sender.send(item));
            sent += 1;
        }
        while taken < sent {
            collect(&mut taken);
        }
    });
}
