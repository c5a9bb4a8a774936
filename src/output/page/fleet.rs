//! The page of a fleet: all clusters in one view, or one of them with the views of its own page.
//!
//! Input: a [`FleetView`](crate::fleet::view::FleetView) and a [query](PageQuery). Output: HTML, JSON or CSV. Results stay packed: views count rows, and
//! only the results that a view lists are unpacked. All numbers of a view are those of the results that the query
//! [selects](selection).

mod cache;
mod cluster;
mod counts;
mod fleet_page;
mod layout;
mod results;
mod selection;
mod table;
mod tally;
mod views;

use std::{collections::BTreeMap, io};

use ::csv::Writer;
use jiff::Timestamp;
use serde::Serialize;

pub(crate) use self::{cache::FleetCache, fleet_page::FleetPage};
use self::{selection::FleetSelection, tally::ResultCounts};
use super::{
    prepared::Page,
    query::{PageQuery, View, severity},
};
use crate::{
    fleet::clusters::Cluster,
    output::{csv, safe::write_json},
};

/// The numbers of a cluster in JSON.
#[derive(Serialize)]
struct ListedCluster<'v> {
    name: &'v str,
    labels: BTreeMap<String, String>,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    heartbeat: Option<Timestamp>,
    /// Violations by severity.
    violations: BTreeMap<&'static str, usize>,
    new: usize,
    resolved: usize,
}

impl FleetPage {
    /// Returns the HTML of the view that the query selects.
    pub(crate) fn html(&self, query: &PageQuery) -> String {
        if let Some(page) = self.page_of_cluster(query) {
            return page.html(query, None);
        }
        // What only a cluster has.
        let view = if query.view == View::Frameworks { View::Overview } else { query.view };
        let query = PageQuery { view, framework: None, object: None, ..query.clone() };
        views::view(&FleetSelection::new(self, &query)).into_string()
    }

    /// Writes the results that the query selects as JSON, with the numbers of each cluster.
    ///
    /// # Errors
    /// If writing fails.
    pub(crate) fn write_json(&self, query: &PageQuery, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(page) = self.page_of_cluster(query) {
            return out.write_all(&page.json(query)?);
        }
        let selection = FleetSelection::new(self, query);
        let counts = selection.count();
        let clusters = selection.clusters.iter().zip(&counts.clusters);
        let clusters: Vec<_> = clusters.map(|(selected, counts)| self.numbers(selected.cluster, counts)).collect();
        let is_complete = self.is_complete() && selection.problem.is_none();
        write!(out, "{{\"complete\":{is_complete},\"clusters\":")?;
        write_json(&mut *out, &clusters)?;
        write!(out, ",\"missing\":")?;
        write_json(&mut *out, &self.missing)?;
        if let Some(problem) = &selection.problem {
            write!(out, ",\"problem\":")?;
            write_json(&mut *out, problem)?;
        }
        write!(out, ",\"results\":[")?;
        let mut separator = "";
        selection.each_result(|entry| {
            out.write_all(separator.as_bytes())?;
            separator = ",";
            write_json(&mut *out, entry)
        })?;
        out.write_all(b"]}")
    }

    /// Writes the results that the query selects as CSV, as `-o csv` does, but by cluster and namespace.
    ///
    /// # Errors
    /// If writing fails, or if too many results would have to be searched.
    pub(crate) fn write_csv(&self, query: &PageQuery, out: &mut dyn io::Write) -> io::Result<()> {
        if let Some(page) = self.page_of_cluster(query) {
            return out.write_all(&page.csv(query)?);
        }
        let selection = FleetSelection::new(self, query);
        if let Some(problem) = &selection.problem {
            return Err(io::Error::other(problem.clone()));
        }
        let mut rows = Writer::from_writer(out);
        rows.write_record(csv::HEAD)?;
        selection.each_result(|entry| {
            let record = csv::record(entry, (entry.rule_id.as_deref(), entry.title.as_deref()));
            Ok(rows.write_record(record)?)
        })?;
        rows.flush()
    }

    /// Returns the page of the cluster that a query names, if it names one that has results and no labels.
    fn page_of_cluster(&self, query: &PageQuery) -> Option<Page> {
        let name = query.cluster.as_deref().filter(|_| query.label.is_none() && !View::is_only_of_fleet(query.view))?;
        self.cache.pages.page(self.view.clusters.get(name)?, self.at)
    }

    fn numbers<'v>(&self, cluster: &'v Cluster, counts: &ResultCounts) -> ListedCluster<'v> {
        ListedCluster {
            name: &cluster.name,
            labels: cluster.labels().unwrap_or_default(),
            status: cluster.status(self.at).word(),
            heartbeat: cluster.heartbeat(),
            violations: counts.severities().iter().map(|(known, count)| (severity(known), count)).collect(),
            new: counts.new,
            resolved: counts.resolved,
        }
    }
}

#[cfg(test)]
mod tests;
