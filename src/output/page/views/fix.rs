//! The fields of an object to change.

use maud::{Markup, html};
use serde_json::Value;

use super::super::{
    parts::lines,
    patch::{is_strategic, patch},
};
use crate::{audit::result::Entry, model::object::ObjectRef, output::safe::to_yaml};

/// Shows the fields of an owner to change, as a part of its manifest; `more` is further content. Its dependents follow it.
pub(super) fn fix(entries: &[&Entry], more: impl FnOnce(&ObjectRef, &Value) -> Markup) -> Markup {
    let own = entries.iter().find(|entry| entry.owner.is_none());
    let Some((object, patch)) = own.and_then(|own| Some((&own.resource, patch(&own.resource, entries)?))) else {
        return Markup::default();
    };
    html! {
        div.fix {
            h3 { "Fix" }
            p { "The fields with one correct value; the other results need a decision. In the manifest:" }
            pre tabindex="0" { (lines(&to_yaml(&patch).unwrap_or_default())) }
            (more(object, &patch))
        }
    }
}

/// Shows a patch as a command.
pub(super) fn command(object: &ObjectRef, patch: &Value) -> Markup {
    let kind = if is_strategic(object) { "strategic" } else { "merge" };
    let namespace = object.namespace.as_ref().map_or(String::new(), |namespace| format!(" -n {namespace}"));
    let name = format!("{}/{}", object.kind_with_group().to_lowercase(), object.name);
    // The text of a patch is JSON without single quotes that the shell could end at.
    let json = patch.to_string().replace('\'', "\\u0027");
    html! {
        details {
            summary { "The same as a command" }
            p.note { "If the manifest is in a repository, change it there: the next deployment undoes a change of the object alone." }
            pre tabindex="0" { (lines(&format!("kubectl patch {name}{namespace} --type={kind} -p '{json}'"))) }
        }
    }
}
