//! A fence in front of the API server, which lets requests pass only while the Lease is held.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use tokio::{sync::watch, time::sleep_until};
use tower::{BoxError, Layer, Service};

use super::moment::Moment;

/// Is open until a time that each renewal moves forward. As a layer of a client, it refuses requests after that time, and
/// cancels those in flight.
///
/// A request that has left this process cannot be cancelled. Therefore a leader's deadline is some time before the end
/// of the Lease.
#[derive(Debug, Clone)]
pub struct Fence {
    until: watch::Receiver<Moment>,
}

impl Fence {
    pub(super) fn new(until: watch::Receiver<Moment>) -> Self {
        Self { until }
    }

    /// Whether requests may pass now. Reads the clocks, because timers may not have fired yet in a process that was
    /// frozen or on a machine that was suspended.
    pub fn is_open(&self) -> bool {
        !self.until.borrow().has_passed()
    }

    /// Waits until the fence is shut.
    async fn until_shut(mut self) {
        loop {
            let until = self.until.borrow_and_update().instant;
            tokio::select! {
                () = sleep_until(until) => if !self.is_open() { return },
                changed = self.until.changed() => if changed.is_err() { return sleep_until(until).await },
            }
        }
    }
}

impl<S> Layer<S> for Fence {
    type Service = Fenced<S>;

    fn layer(&self, inner: S) -> Fenced<S> {
        Fenced { inner, fence: Arc::new(self.clone()) }
    }
}

/// A service whose requests pass a [`Fence`].
#[derive(Debug, Clone)]
pub struct Fenced<S> {
    inner: S,
    fence: Arc<Fence>,
}

/// The error of requests after the fence has shut.
#[derive(Debug, thiserror::Error)]
#[error("the Lease was lost, and another replica may be recording")]
struct Shut;

impl<S, R> Service<R> for Fenced<S>
where
    S: Service<R>,
    S::Error: Into<BoxError>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, request: R) -> Self::Future {
        let fence = Arc::clone(&self.fence);
        if !fence.is_open() {
            return Box::pin(async { Err(Shut.into()) });
        }
        let response = self.inner.call(request);
        Box::pin(async move {
            let mut response = pin!(response);
            let mut shut = pin!(Fence::clone(&fence).until_shut());
            poll_fn(|context| {
                // Checked before each poll, as any poll may send the request.
                if !fence.is_open() || shut.as_mut().poll(context).is_ready() {
                    return Poll::Ready(Err(Shut.into()));
                }
                response.as_mut().poll(context).map_err(Into::into)
            })
            .await
        })
    }
}
