//! Placeholders for the names of an object in shared results.

use std::sync::Arc;

use memchr::memmem::Finder;

use crate::{
    judge::reads::{TOKEN_VOLUME, random},
    model::object::ObjectKey,
};

/// The names that replace the placeholders.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ObjectNames<'a> {
    pub(crate) key: &'a ObjectKey,
    /// The name of the Pod's token volume.
    pub(crate) token: Option<&'a str>,
}

/// Placeholders for the name and the namespace of an object, and for its token volume. They are random, so that no
/// policy and no object contains them.
#[derive(Debug)]
pub(crate) struct Placeholders {
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) token: Arc<str>,
    /// Finds the common prefix of all placeholders.
    start: Finder<'static>,
}

impl Placeholders {
    pub(crate) fn new() -> Self {
        let start = format!("kaudit{:032x}", random());
        let [name, namespace] = ['n', 's'].map(|end| Arc::from(format!("{start}{end}")));
        // With the same prefix, it sorts like the name that it replaces.
        let token = format!("{TOKEN_VOLUME}{start}t").into();
        Self { name, namespace, token, start: Finder::new(&start).into_owned() }
    }

    /// Whether a text contains a placeholder.
    pub(crate) fn are_in(&self, text: &[u8]) -> bool {
        self.start.find(text).is_some()
    }

    /// Replaces the placeholders in a text by the names of an object; `None` if there are none.
    pub(crate) fn replace(&self, text: &str, names: ObjectNames<'_>) -> Option<String> {
        self.are_in(text.as_bytes()).then(|| {
            let text = text.replace(&*self.name, &names.key.name);
            let text = text.replace(&*self.namespace, names.key.namespace.as_deref().unwrap_or_default());
            text.replace(&*self.token, names.token.unwrap_or_default())
        })
    }
}
