//! What was read and checked, and what was not.

use maud::{Markup, html};

use super::super::{
    parts::{time, trust},
    selection::PageSelection,
};

pub(super) fn view(selection: &PageSelection<'_>) -> Markup {
    let page = selection.page;
    let context = &page.context;
    let more = html! {
        @if !selection.is_file { dl {
            dt { "Initial sync" }
            dd { @match context.syncing {
                Some((read, all)) => { "in progress: " (read) " of " (all) " lists read" }
                None => "done",
            } }
            dt { "Last change" }
            dd { @match context.changed { Some(changed) => (time(selection, changed)), None => "none yet" } }
        } }
        @if page.is_restricted { p { "Results in namespaces whose reports you may not list are left out." } }
    };
    trust(page, &more)
}
