//! Exceptions of all clusters, those that need attention first.

use maud::{Markup, html};

use super::super::{layout::cluster_link, selection::FleetSelection};
use crate::{
    audit::exceptions::ExceptionSummary,
    output::{
        page::{
            paging::Pagination,
            parts::{exception_cells, time_at},
            prepared::NONE,
            query::PageQuery,
        },
        safe::shown_line,
        style::count,
    },
};

/// Number of exceptions per page.
const EXCEPTIONS: usize = 200;

/// An exception and the name of its cluster.
type ClusterException<'v> = (&'v str, &'v ExceptionSummary);

pub(super) fn view(selection: &FleetSelection<'_>) -> Markup {
    let exceptions = exceptions(selection);
    let pages = Pagination::new(exceptions.len(), EXCEPTIONS, selection.query);
    html! {
        h2 { (count(exceptions.len(), "exception")) }
        @if exceptions.is_empty() { p { "No exceptions." } } @else {
            div.scroll tabindex="0" role="region" aria-label="Exceptions" {
                table {
                    thead { tr {
                        th scope="col" { "Exception" } th scope="col" { "Cluster" } th scope="col" { "State" }
                        th.number scope="col" { "Excuses" } th scope="col" { "Ends" } th scope="col" { "Reason" }
                    } }
                    tbody { @for (cluster, exception) in &exceptions[pages.shown()] { tr {
                        th scope="row" { (shown_line(&exception.name)) }
                        td data-label="Cluster" { a href=(cluster_link(selection, cluster)) { (shown_line(cluster)) } }
                        (exception_cells(exception, |end| time_at(selection.page.at, end)))
                    } } }
                }
            }
            (pages.links(selection.query))
        }
    }
}

/// Returns the exceptions of the selected clusters, namespaces and teams.
fn exceptions<'v>(selection: &FleetSelection<'v>) -> Vec<ClusterException<'v>> {
    let PageQuery { namespace, team: wanted_team, .. } = selection.query;
    let mut exceptions: Vec<ClusterException<'v>> = Vec::new();
    for selected in &selection.clusters {
        let is_selected = |exception: &&ExceptionSummary| {
            let own = exception.namespace();
            let team = || selected.team(own).unwrap_or(NONE);
            namespace.as_deref().is_none_or(|wanted| own == Some(wanted))
                && wanted_team.as_deref().is_none_or(|wanted| own.is_some() && team() == wanted)
        };
        let of_cluster = selected.states.iter().flat_map(|state| &state.exceptions).filter(is_selected);
        exceptions.extend(of_cluster.map(|exception| (&*selected.cluster.name, exception)));
    }
    exceptions.sort_by_key(|(cluster, exception)| {
        (!exception.needs_attention(), exception.expires_at, *cluster, &*exception.name)
    });
    exceptions
}
