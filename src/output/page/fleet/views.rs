//! The views of a fleet as HTML. maud escapes markup in all text; control characters are escaped before.

mod changes;
mod clusters;
mod coverage;
mod exceptions;
mod namespaces;
mod objects;
mod overview;
mod rules;
mod teams;

use maud::{Markup, html};

use super::{counts::FleetCounts, layout, selection::FleetSelection};
use crate::output::page::query::View;

/// Returns the view that the query of a selection names.
pub(super) fn view(selection: &FleetSelection<'_>) -> Markup {
    let counts = selection.count();
    let content = html! {
        (layout::filter(selection))
        (content(selection, &counts))
    };
    layout::document_of(selection, &counts, &content)
}

fn content(selection: &FleetSelection<'_>, counts: &FleetCounts<'_>) -> Markup {
    match selection.query.view {
        View::Overview | View::Frameworks => overview::view(selection, counts),
        View::Clusters => clusters::view(selection, counts),
        View::Namespaces => namespaces::view(selection, counts),
        View::Teams => teams::view(selection, counts),
        View::Rules => rules::view(selection, counts),
        View::Objects => objects::view(selection, counts),
        View::Changes => changes::view(selection, counts),
        View::Exceptions => exceptions::view(selection),
        View::Coverage => coverage::view(selection),
    }
}
