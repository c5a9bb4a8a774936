//! Leadership terms: while this replica leads, recorders run and take the deltas of the pipeline; while another leads,
//! none run.
//!
//! Without leader election there is one term, from the start to the end.

use std::sync::Arc;

use kube::Client;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{
    earlier::Attempts,
    recorders::{RecorderSettings, Recorders, Started},
};
use crate::{
    audit::{
        command::{Command, Record, Term},
        ledger::Delta,
        overview::Overview,
    },
    cluster::{
        client::Clients,
        lease::{Candidate, LeaseStore},
    },
};

/// Takes deltas as lines of output; never blocks.
pub type Lines = Arc<dyn Fn(&Delta) + Send + Sync>;

/// What every term needs.
pub struct Terms {
    /// What is recorded, and where.
    pub settings: RecorderSettings,
    /// What the status is made from.
    pub overview: watch::Receiver<Option<Arc<Overview>>>,
    /// Prints deltas as lines of output, if there are any; never blocks.
    pub lines: Option<Lines>,
    /// Receives the start and the end of each term.
    pub pipeline: mpsc::Sender<Command>,
    /// Cancelled when the pipeline has ended.
    pub over: CancellationToken,
}

impl Record for Lines {
    fn record(&mut self, delta: &mut Delta) {
        self(delta);
    }
}

impl Terms {
    /// Records until the pipeline has ended and everything is written: from the start, or whenever `candidate` leads,
    /// with clients whose requests fail when it does not. Releases its lease in the end.
    ///
    /// # Errors
    /// If the kubeconfig has become unusable.
    pub async fn run(self, candidate: Option<Candidate<impl LeaseStore>>, clients: &Clients) -> anyhow::Result<()> {
        let Some(mut candidate) = candidate else {
            self.settings.metrics.set_leader(true);
            self.serve(self.settings.client.clone()).await;
            return Ok(());
        };
        loop {
            tokio::select! {
                biased;
                () = self.over.cancelled() => break,
                () = candidate.acquire() => {}
            }
            let client = clients.fenced(&candidate.fence())?;
            info!("This replica is the leader: recording starts");
            self.settings.metrics.set_leader(true);
            // When the lease is lost, dropping the recorders cancels the writes that are in flight.
            let lost = tokio::select! {
                () = candidate.keep() => true,
                () = self.serve(client) => false,
            };
            self.settings.metrics.set_leader(false);
            if !lost {
                break;
            }
            warn!("The Lease is lost: recording stops until this replica is the leader again");
            // An error means that the pipeline has ended.
            let _ended = self.pipeline.send(Command::Record(Term::End)).await;
        }
        candidate.release().await;
        Ok(())
    }

    /// Records for one term, until the pipeline has ended and everything is written.
    async fn serve(&self, client: Client) {
        loop {
            let recorders = tokio::select! {
                recorders = self.start(client.clone(), Attempts::Patient) => recorders,
                () = self.over.cancelled() => return,
            };
            tokio::select! {
                () = self.over.cancelled() => {
                    recorders.flush(&self.over).await;
                    return;
                }
                () = recorders.readable() => {}
            }
            info!("Records of earlier runs can be read now: recording starts again");
            // An error means that the pipeline has ended. The sinks end with the term.
            let _ended = self.pipeline.send(Command::Record(Term::Awaited)).await;
            recorders.end().await;
        }
    }

    /// Begins the one term of a run that ends. The recorders are to be flushed at the end.
    pub async fn begin(&self, client: Client) -> Recorders {
        self.start(client, Attempts::Limited).await
    }

    /// Begins a term: starts the recorders and informs the pipeline.
    async fn start(&self, client: Client, attempts: Attempts) -> Recorders {
        // An error means that the pipeline has ended; also below.
        let _ended = self.pipeline.send(Command::Record(Term::Awaited)).await;
        let mut overview = self.overview.clone();
        // The first status of a term is written although nothing has changed.
        overview.mark_changed();
        let settings = RecorderSettings { client, ..self.settings.clone() };
        let Started { recorders, recorded, mut sinks } = Recorders::start(&settings, overview, attempts).await;
        sinks.extend(self.lines.clone().map(|lines| Box::new(lines) as Box<dyn Record>));
        let _ended = self.pipeline.send(Command::Record(Term::Begin(recorded, Box::new(sinks)))).await;
        recorders
    }
}
