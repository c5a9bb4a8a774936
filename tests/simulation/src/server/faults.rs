//! Faults of requests and watches.

use std::time::Duration;

use super::request::RequestInfo;

/// Determines the faults of requests; by default there are none.
pub trait Faults: Send + Sync {
    /// Returns the fault of a request.
    fn decide(&self, request: &RequestInfo) -> RequestFault {
        let _ = request;
        RequestFault::None
    }

    /// Returns the fault of a watch event, after `number` events were sent.
    fn deliver(&self, request: &RequestInfo, number: usize) -> WatchFault {
        let _ = (request, number);
        WatchFault::None
    }

    /// Returns the groups that are missing from a discovery, as while an aggregated server starts.
    fn missing_groups(&self, request: &RequestInfo) -> Vec<String> {
        let _ = request;
        Vec::new()
    }
}

/// No faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl Faults for NoFaults {}

/// A fault of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestFault {
    /// It is executed immediately.
    None,
    /// It is executed after this time.
    Delay(Duration),
    /// It is executed immediately and answered after this time.
    DelayAnswer(Duration),
    /// It is refused with this HTTP status and a `Retry-After` in seconds.
    Refuse(u16, Option<u64>),
    /// The connection fails.
    ConnectError,
    /// It is not executed, and there is no response.
    Hang,
    /// It is executed, and the connection breaks before the response.
    LoseAnswer,
    /// It is executed, and there is no response.
    HangAnswer,
    /// The connection breaks after this many bytes of the response's body.
    CutBody(usize),
    /// The response's body ends after this many bytes, as if it were complete.
    Truncate(usize),
    /// The response's body stops after this many bytes, and the connection stays open.
    Stall(usize),
}

/// A fault of a watch event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFault {
    /// It is sent.
    None,
    /// It and all following events are delayed.
    Delay(Duration),
    /// The watch ends without it.
    End,
    /// The connection breaks.
    Break,
    /// Half of it is sent, then the watch ends.
    Cut,
    /// The watch gets an error that its version has expired.
    Expire,
    /// Nothing more is sent, and the connection stays open.
    Hang,
}
