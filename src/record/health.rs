//! What recorders report about themselves, for the condition `Recording` of the `Audit` object.

/// What is wrong with recording, or worth knowing about it. Empty while all is well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// What is wrong; makes the condition false.
    pub trouble: String,
    /// What explains records that are missing although nothing is wrong, such as a cluster without a report API.
    pub note: String,
}

impl Health {
    /// Joins what several recorders report.
    pub(super) fn join<'a>(healths: impl IntoIterator<Item = &'a Self> + Clone) -> Self {
        let joined = |text: fn(&Self) -> &str| -> String {
            let texts = healths.clone().into_iter().map(text).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("; ")
        };
        Self { trouble: joined(|health| &health.trouble), note: joined(|health| &health.note) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_recorders_report_is_joined() {
        let health = |trouble: &str, note: &str| Health { trouble: trouble.to_owned(), note: note.to_owned() };
        let all = [health("", "no API"), health("a", ""), health("b", "")];
        assert_eq!(Health::join(&all), health("a; b", "no API"));
        assert_eq!(Health::join(&[]), Health::default());
    }
}
