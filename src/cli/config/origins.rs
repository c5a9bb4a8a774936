//! The origins of the values of options, and errors about values that are not from the command line.

use std::collections::BTreeMap;

use clap::{ArgMatches, error::ErrorKind, parser::ValueSource};

/// The origin of the value of an option, by ascending precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum ValueOrigin {
    Default,
    File,
    Environment,
    CommandLine,
}

/// The origin of every option of the subcommand, by its id.
pub(super) struct ValueOrigins(BTreeMap<String, ValueOrigin>);

impl ValueOrigins {
    pub(super) fn new(matches: &ArgMatches) -> Self {
        let origin = |matches: &ArgMatches, id: &str| match matches.value_source(id) {
            Some(ValueSource::CommandLine) => ValueOrigin::CommandLine,
            Some(ValueSource::EnvVariable) => ValueOrigin::Environment,
            _ => ValueOrigin::Default,
        };
        let Some((_, matches)) = matches.subcommand() else { return Self(BTreeMap::new()) };
        Self(matches.ids().map(|id| (id.to_string(), origin(matches, id.as_str()))).collect())
    }

    pub(super) fn with_file(mut self, ids: Vec<String>) -> Self {
        self.0.extend(ids.into_iter().map(|id| (id, ValueOrigin::File)));
        self
    }

    pub(super) fn of(&self, id: &str) -> ValueOrigin {
        self.0.get(id).copied().unwrap_or(ValueOrigin::Default)
    }
}

/// Returns an error without the usage line, since the mistake is not on the command line.
pub(super) fn file_error(kind: ErrorKind, message: &str) -> clap::Error {
    clap::Error::raw(kind, format!("{}\n", message.trim_end()))
}
