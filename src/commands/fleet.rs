//! `kaudit fleet`: the results of all clusters that mirror them into buckets of NATS.

mod serve;

use std::sync::Arc;

use anyhow::bail;
use jiff::Timestamp;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::timeout,
};

use crate::{
    audit::result::{AuditScope, ObjectSource},
    bus::nats::NatsServers,
    cli::fleet::FleetArgs,
    fleet::{
        bucket::BucketServer as _,
        clusters::Cluster,
        follow, keys, result,
        scope::FleetScope,
        view::{self, FleetView},
    },
    model::shard::Shard,
    output::{self, Format, Target, note, style::count},
};

/// How many updates wait until they are taken.
const UPDATES: usize = 1_024;

/// Runs `kaudit fleet`; returns the exit code.
///
/// # Errors
/// If nothing could be read. The message says what to do; the exit code is 2.
pub async fn run(fleet: FleetArgs) -> anyhow::Result<u8> {
    let servers = fleet.login.servers(&fleet.nats, None)?;
    if !fleet.create_bucket.is_empty() {
        return create_buckets(&servers, &fleet.create_bucket).await;
    }
    let (sender, updates) = mpsc::channel(UPDATES);
    let (keep, view) = watch::channel(Arc::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(follow::follow(servers, scope(&fleet), sender));
    tasks.spawn_blocking(move || view::keep(updates, &keep));
    if fleet.serves() { serve::run(&fleet, view).await } else { write(&fleet, view).await }
}

/// Creates the buckets of these clusters that do not exist.
async fn create_buckets(servers: &NatsServers, clusters: &[String]) -> anyhow::Result<u8> {
    for cluster in clusters {
        keys::check_cluster(cluster).map_err(|why| anyhow::anyhow!("--create-bucket {why}"))?;
        servers.open(cluster).await.map_err(anyhow::Error::msg)?;
        note(&format!("the bucket {} exists", keys::bucket(cluster)));
    }
    Ok(0)
}

/// Writes the results of all clusters once.
async fn write(fleet: &FleetArgs, mut view: watch::Receiver<Arc<FleetView>>) -> anyhow::Result<u8> {
    let is_settled = |view: &Arc<FleetView>| view.is_read() || !view.problem.is_empty();
    // What is not read by then makes the result incomplete.
    let _late = timeout(fleet.sync_timeout, view.wait_for(is_settled)).await.map(drop);
    let view = Arc::clone(&view.borrow());
    if !view.is_listed {
        let why = if view.problem.is_empty() { "NATS did not answer in time" } else { &view.problem };
        bail!("{why}\nCheck --nats and the login");
    }
    let scope = scope(fleet);
    let clusters = view.clusters_in(&scope);
    let result = result::merged(&clusters, view.missing(&scope), Timestamp::now()).map_err(anyhow::Error::msg)?;
    let Some(mut result) = result else {
        bail!("no cluster: {}", nothing(fleet, &view));
    };
    result.scope = Some(AuditScope {
        clusters: clusters.keys().map(ToString::to_string).collect(),
        source: ObjectSource::Cluster,
        namespaces: Vec::new(),
        shard: Shard::WHOLE,
        selector: None,
    });
    let targets =
        if fleet.output.is_empty() { vec![Target { format: Format::Text, file: None }] } else { fleet.output.clone() };
    output::write_all(&targets, &result, fleet.log.color, &fleet.rendering())?;
    Ok(output::exit_code(&result, fleet.fail_on, true))
}

/// Returns which clusters the options select, and which they expect.
fn scope(fleet: &FleetArgs) -> FleetScope {
    FleetScope { names: fleet.cluster.clone(), labels: fleet.selector.clone(), expected: fleet.expect_cluster.clone() }
}

/// Says why there is no result.
fn nothing(fleet: &FleetArgs, view: &FleetView) -> String {
    let selected = view.clusters_in(&scope(fleet));
    let problem = |cluster: &Arc<Cluster>| Some(format!("\n{}: {}", cluster.name, cluster.problem()?));
    let problems: Vec<String> = selected.values().filter_map(problem).collect();
    match selected.len() {
        0 if view.clusters.is_empty() && fleet.cluster.is_empty() => {
            "there is no bucket of a cluster: run kaudit check --fleet in the clusters".to_owned()
        }
        0 => "--cluster and --selector select none".to_owned(),
        buckets => format!("none of {} has results yet{}", count(buckets, "bucket"), problems.concat()),
    }
}
