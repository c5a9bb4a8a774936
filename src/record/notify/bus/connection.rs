//! A connection to an event bus that is kept between attempts, and replaced after one that failed.

use std::{fmt, sync::Arc};

use tokio::sync::Mutex;

/// A place for a connection.
pub(super) struct ConnectionSlot<C>(Mutex<Option<Arc<C>>>);

impl<C> Default for ConnectionSlot<C> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<C> ConnectionSlot<C> {
    /// Returns the connection if it is usable, or a new one.
    ///
    /// # Errors
    /// If there is none and `connect` fails.
    pub(super) async fn get<E>(
        &self,
        is_usable: impl Fn(&C) -> bool,
        connect: impl Future<Output = Result<C, E>>,
    ) -> Result<Arc<C>, E> {
        let mut slot = self.0.lock().await;
        if let Some(connection) = slot.as_ref().filter(|connection| is_usable(connection)) {
            return Ok(Arc::clone(connection));
        }
        // Close the old one first.
        *slot = None;
        let connection = Arc::new(connect.await?);
        *slot = Some(Arc::clone(&connection));
        Ok(connection)
    }

    /// Closes the connection, so that the next attempt reads all settings and secrets again.
    pub(super) async fn close(&self) {
        *self.0.lock().await = None;
    }
}

impl<C> fmt::Debug for ConnectionSlot<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ConnectionSlot")
    }
}
