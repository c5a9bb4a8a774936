//! The page of one cluster of a fleet, with all its results unpacked.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::Timestamp;

use crate::{
    fleet::{clusters::Cluster, view::ClusterStatus},
    output::page::prepared::{Page, PageContext},
};

/// How many pages are kept at most.
const MOST_PAGES: usize = 8;
/// How many results all kept pages have at most, unless there is only one.
const MOST_RESULTS: usize = 200_000;

/// The pages of clusters that were requested last, so that a click does not unpack all results again.
#[derive(Debug, Default)]
pub(super) struct PreparedPages(Mutex<VecDeque<PreparedPage>>);

#[derive(Debug)]
struct PreparedPage {
    /// The name and the revision of the cluster that it was made of.
    cluster: (Arc<str>, u64),
    status: ClusterStatus,
    page: Page,
}

impl PreparedPages {
    /// Returns the page of a cluster at a time; `None` if it has no results yet, or if they are damaged.
    pub(super) fn page(&self, cluster: &Arc<Cluster>, now: Timestamp) -> Option<Page> {
        let context = context(cluster, now);
        let status = cluster.status(now);
        if let Some(page) = self.known(cluster, &status) {
            return Some(page.with_context(context));
        }
        // Others can use the kept pages meanwhile; two that request the same page both make it.
        let page = Page::new(cluster.result(now).ok()??, context);
        let kept = page.with_context(page.context.clone());
        self.keep(PreparedPage { cluster: (Arc::clone(&cluster.name), cluster.revision), status, page: kept });
        Some(page)
    }

    fn known(&self, cluster: &Cluster, status: &ClusterStatus) -> Option<Page> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = pages.iter().position(|known| {
            *known.cluster.0 == *cluster.name && known.cluster.1 == cluster.revision && known.status == *status
        })?;
        let known = pages.remove(at)?;
        let page = known.page.with_context(known.page.context.clone());
        pages.push_front(known);
        Some(page)
    }

    /// Keeps a page instead of an earlier one of the cluster, and drops those that were requested longest ago.
    fn keep(&self, page: PreparedPage) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|known| known.cluster.0 != page.cluster.0);
        pages.push_front(page);
        let mut results = 0;
        let fits = pages.iter().take_while(|known| {
            results += known.page.result.results.len();
            results <= MOST_RESULTS
        });
        let fits = fits.count().clamp(1, MOST_PAGES);
        pages.truncate(fits);
    }
}

/// Returns the data about the result of a cluster.
fn context(cluster: &Cluster, now: Timestamp) -> PageContext {
    let syncing = cluster.states().filter_map(|state| state.syncing);
    let syncing = syncing.reduce(|sum, next| (sum.0 + next.0, sum.1 + next.1));
    PageContext {
        cluster: Arc::clone(&cluster.name),
        at: now,
        began: cluster.states().map(|state| state.began).min().unwrap_or(now),
        changed: None,
        syncing,
        waiting: 0,
        policies: cluster.states().map(|state| state.policies.clone()).next().unwrap_or_default(),
        policies_since: cluster.states().filter_map(|state| state.policies_since).max(),
        history: Arc::default(),
        outdated: cluster.gap(now),
        problems: cluster.states().flat_map(|state| state.problems.clone()).collect(),
    }
}
