//! The views of the page as HTML. maud escapes markup in all text; control characters are escaped before.

mod changes;
mod coverage;
mod exceptions;
mod fix;
mod frameworks;
mod history;
mod namespaces;
mod object;
mod objects;
mod overview;
mod rules;

use maud::{Markup, html};

use super::{layout, owners::OwnerResults, query::View, selection::PageSelection};
use crate::output::safe::shown_line;

/// Returns the view that the query of a selection names.
pub(super) fn view(selection: &PageSelection<'_>, reader: Option<&str>) -> Markup {
    let content = content(selection.query.view, selection);
    layout::document_of(
        selection,
        None,
        reader,
        &html! {
            @if let Some(why) = &selection.page.context.outdated { p.error { "Not up to date: " (shown_line(why)) "." } }
            @if selection.query.view.has_filters() { (layout::filter(selection)) }
            (content)
        },
    )
}

/// Returns the content of a view.
pub(super) fn content(view: View, selection: &PageSelection<'_>) -> Markup {
    match view {
        View::Overview | View::Clusters | View::Teams => overview::view(selection),
        View::Namespaces => namespaces::view(selection),
        View::Rules => rules::view(selection),
        View::Frameworks => frameworks::view(selection),
        View::Objects => objects::view(selection),
        View::Changes => changes::view(selection),
        View::Exceptions => exceptions::view(selection),
        View::Coverage => coverage::view(selection),
    }
}

/// Returns the view of one object and its dependents.
pub(super) fn object(selection: &PageSelection<'_>, owner: &OwnerResults<'_>, reader: Option<&str>) -> Markup {
    layout::document_of(selection, Some(&owner.name), reader, &object::view(selection, owner))
}
