//! Connects to a cluster, for every command that needs one.

use std::time::Duration;

use tokio::time::timeout;

use crate::{
    cli::{cluster::ClusterArgs, scope::ScopeArgs},
    cluster::{
        client::{Access, Clients},
        error::describe,
    },
    source::discovery::{Discovery, Served},
};

/// How long the first response of the API server may take; connecting may take ten of these seconds.
const FIRST_ANSWER: Duration = Duration::from_secs(12);

/// Connects, and checks that the API server responds and serves the kinds that the user named.
///
/// # Errors
/// With a message that says what to check.
pub(crate) async fn connect(cluster: &ClusterArgs, scope: &ScopeArgs) -> anyhow::Result<(Clients, Served)> {
    let (clients, served) = reach(cluster).await?;
    scope.selection(None).check(&served).map_err(anyhow::Error::msg)?;
    Ok((clients, served))
}

/// Connects, and checks that the API server responds.
///
/// # Errors
/// With a message that says what to check.
pub(crate) async fn reach(cluster: &ClusterArgs) -> anyhow::Result<(Clients, Served)> {
    let context = match &cluster.context[..] {
        [] => None,
        [context] => Some(context.clone()),
        contexts => anyhow::bail!(
            "--context names {} contexts: only check --once takes several, with policies from files",
            contexts.len()
        ),
    };
    let access = Access {
        kubeconfig: cluster.kubeconfig.clone(),
        context,
        impersonate: cluster.user.clone(),
        transport: cluster.transport.clone(),
    };
    let clients = Clients::new(&access).await?;
    let served = match timeout(FIRST_ANSWER, Discovery::new(clients.plain.clone()).discover()).await {
        Ok(Ok(served)) => served,
        Ok(Err(error)) => anyhow::bail!(
            "the API server at {} returned an invalid response or an error: {}\nCheck that the cluster runs, that the address and \
             the credentials in the kubeconfig are right, and that a proxy in the environment is meant for it",
            clients.url,
            describe(&error)
        ),
        Err(_) => anyhow::bail!(
            "the API server at {} did not answer within {} seconds\nCheck that the cluster runs and that its address \
             can be reached from here",
            clients.url,
            FIRST_ANSWER.as_secs()
        ),
    };
    Ok((clients, served))
}
