//! Placeholders for the names of an object in results that are shared.

use std::sync::Arc;

use memchr::memmem::Finder;

use crate::{
    judge::reads::{TOKEN_VOLUME, random},
    model::object::ObjectKey,
};

/// The names that are replaced.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) key: &'a ObjectKey,
    /// The volume of the Pod's token.
    pub(crate) token: Option<&'a str>,
}

/// Texts in the place of the name and the namespace of an object, and of the volume of a Pod's token. They are random, so that
/// no policy and no object has them.
#[derive(Debug)]
pub(crate) struct Placeholders {
    pub(crate) name: Arc<str>,
    pub(crate) namespace: Arc<str>,
    pub(crate) token: Arc<str>,
    /// Finds what both begin with.
    start: Finder<'static>,
}

impl Placeholders {
    pub(crate) fn new() -> Self {
        let start = format!("kaudit{:032x}", random());
        let [name, namespace] = ['n', 's'].map(|end| Arc::from(format!("{start}{end}")));
        // It is sorted between others as the name is that it stands for.
        let token = format!("{TOKEN_VOLUME}{start}t").into();
        Self { name, namespace, token, start: Finder::new(&start).into_owned() }
    }

    /// Whether one of them is in a text.
    pub(crate) fn are_in(&self, text: &[u8]) -> bool {
        self.start.find(text).is_some()
    }

    /// Puts the names of an object into a text; `None` if there are none in it.
    pub(crate) fn replace(&self, text: &str, names: Names<'_>) -> Option<String> {
        self.are_in(text.as_bytes()).then(|| {
            let text = text.replace(&*self.name, &names.key.name);
            let text = text.replace(&*self.namespace, names.key.namespace.as_deref().unwrap_or_default());
            text.replace(&*self.token, names.token.unwrap_or_default())
        })
    }
}
