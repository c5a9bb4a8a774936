//! What can happen to a request on its way, and to a watch.

use std::time::Duration;

use super::request::RequestInfo;

/// Decides what happens to requests; by default nothing unusual does.
pub trait Faults: Send + Sync {
    /// Decides what happens to a request.
    fn decide(&self, request: &RequestInfo) -> RequestFault {
        let _ = request;
        RequestFault::None
    }

    /// Decides what happens to an event of a watch, of which so many were sent before.
    fn deliver(&self, request: &RequestInfo, number: usize) -> WatchFault {
        let _ = (request, number);
        WatchFault::None
    }

    /// Returns the groups that a discovery misses, as while an aggregated server starts.
    fn missing_groups(&self, request: &RequestInfo) -> Vec<String> {
        let _ = request;
        Vec::new()
    }
}

/// No faults.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoFaults;

impl Faults for NoFaults {}

/// What happens to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestFault {
    /// It is carried out at once.
    None,
    /// It is carried out after some time.
    Delay(Duration),
    /// It is carried out at once and answered after some time.
    DelayAnswer(Duration),
    /// It is refused with this HTTP status and a `Retry-After` of so many seconds.
    Refuse(u16, Option<u64>),
    /// There is no connection.
    ConnectError,
    /// It is not carried out, and there is no answer.
    Hang,
    /// It is carried out, and the connection breaks before the answer.
    LoseAnswer,
    /// It is carried out, and there is no answer.
    HangAnswer,
    /// The connection breaks after so many bytes of the answer's body.
    CutBody(usize),
    /// The body of the answer ends after so many bytes, as if it were complete.
    Truncate(usize),
    /// The body of the answer stops after so many bytes, and the connection stays open.
    Stall(usize),
}

/// What happens to an event of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchFault {
    /// It is sent.
    None,
    /// It, and all behind it, is sent after some time.
    Delay(Duration),
    /// The watch ends without it.
    End,
    /// The connection breaks.
    Break,
    /// Half of it is sent, then the watch ends.
    Cut,
    /// An error says that the version of the watch has expired.
    Expire,
    /// Nothing is sent any more, and the connection stays open.
    Hang,
}
