//! What the Events say that stands: all of it where there are no reports, and what reports do not say yet.
//!
//! The server drops Events after a while (`--event-ttl` of the API server, an hour by default): without reports, what
//! stands for longer is told once more after a restart.

use std::{collections::HashMap, time::Duration};

use k8s_openapi::api::events::v1::Event;
use kube::{Api, Client, api::ListParams};
use tokio::time::sleep;
use tracing::warn;

use super::writer::{APPEARED, RESOLVED, SINCE, VIOLATION};
use crate::{
    client::describe,
    ledger::{Id, Violation},
    memory::{Memory, Remembered},
    record::{CONTROLLER, Failure, failure},
    verdict::{Finding, Outcome, Source},
};

/// Events of a page.
const PAGE: u32 = 500;
/// How long to wait before another attempt.
const AGAIN: Duration = Duration::from_secs(2);

/// Adds what stands by the newest Event of each violation, in `namespaces` or everywhere. Tries until the server answers;
/// one that refuses leaves nothing to remember.
pub async fn remember(client: &Client, namespaces: &[String], memory: &mut Memory) {
    let apis: Vec<Api<Event>> = if namespaces.is_empty() {
        vec![Api::all(client.clone())]
    } else {
        namespaces.iter().map(|namespace| Api::namespaced(client.clone(), namespace)).collect()
    };
    let mut newest: HashMap<Id, Event> = HashMap::new();
    for api in apis {
        for event in own(&api).await {
            let Some(id) = id(&event) else { continue };
            match newest.get(&id) {
                Some(known) if when(known) >= when(&event) => {}
                _ => {
                    newest.insert(id, event);
                }
            }
        }
    }
    for remembered in newest.into_iter().filter_map(|(id, event)| remembered(id, &event)) {
        memory.add(remembered);
    }
}

/// Returns all own Events of a namespace, or of all.
async fn own(api: &Api<Event>) -> Vec<Event> {
    let mut events = Vec::new();
    let mut page = ListParams::default().fields(&format!("reportingController={CONTROLLER}")).limit(PAGE);
    loop {
        match api.list(&page).await {
            Ok(list) => {
                events.extend(list.items);
                match list.metadata.continue_.filter(|token| !token.is_empty()) {
                    Some(token) => page = page.continue_token(&token),
                    None => return events,
                }
            }
            Err(error) if matches!(&error, kube::Error::Api(status) if status.code == 410) => {
                // The pages are too old by now.
                events.clear();
                page.continue_token = None;
            }
            Err(error) => match failure(&error) {
                Failure::Later => {
                    warn!("The Events so far cannot be read, trying on: {}", describe(&error));
                    sleep(AGAIN).await;
                }
                Failure::Normal(_) | Failure::Refused(_) => {
                    warn!("The Events so far cannot be read, so what they told is told again: {}", describe(&error));
                    return events;
                }
            },
        }
    }
}

fn annotation<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    event.metadata.annotations.as_ref()?.get(name).map(String::as_str)
}

fn id(event: &Event) -> Option<Id> {
    Id::parse(annotation(event, VIOLATION)?).filter(|_| matches!(event.reason.as_deref(), Some(APPEARED | RESOLVED)))
}

fn when(event: &Event) -> Option<jiff::Timestamp> {
    event.event_time.as_ref().map(|time| time.0)
}

/// Returns what an Event says that stands. How bad it is it does not say; judging will.
fn remembered(id: Id, event: &Event) -> Option<Remembered> {
    if event.reason.as_deref() != Some(APPEARED) {
        return None;
    }
    let since = annotation(event, SINCE)?.parse().ok()?;
    let regarding = event.regarding.as_ref()?;
    let (rule, message) = event.note.as_deref()?.split_once(": ")?;
    let (policy, rule) = rule.split_once('/')?;
    let finding = Finding {
        policy: policy.into(),
        rule: rule.into(),
        outcome: Outcome::Fail,
        severity: None,
        category: None,
        message: message.into(),
        details: None,
        source: Source { file: "".into(), line: 0 },
    };
    Some(Remembered {
        api_version: regarding.api_version.clone()?,
        kind: regarding.kind.clone()?,
        namespace: regarding.namespace.as_deref().map(Into::into),
        name: regarding.name.as_deref()?.into(),
        uid: regarding.uid.as_deref().unwrap_or_default().into(),
        results: vec![Violation { id, finding, since }],
    })
}
