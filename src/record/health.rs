//! What recorders report about themselves, for the condition `Recording` of the `Audit` object.

/// What is wrong with recording, or worth knowing about it. Empty while all is well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// What is wrong; makes the condition false.
    pub trouble: String,
    /// What explains records that are missing although nothing is wrong, such as a cluster without a report API.
    pub note: String,
    /// What was not written, and why, if no more attempt is made: a run that ends then has not recorded everything.
    pub lost: String,
}

impl Health {
    /// Joins what two recorders report.
    pub(super) fn join(&self, other: &Self) -> Self {
        let join = |texts: [&str; 2]| texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("; ");
        let (trouble, note) = (join([&self.trouble, &other.trouble]), join([&self.note, &other.note]));
        Self { trouble, note, lost: join([&self.lost, &other.lost]) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_recorders_report_is_joined() {
        let health = |trouble: &str, note: &str| Health {
            trouble: trouble.to_owned(),
            note: note.to_owned(),
            ..Health::default()
        };
        assert_eq!(health("a", "").join(&health("b", "no API")), health("a; b", "no API"));
        assert_eq!(health("", "").join(&health("b", "")), health("b", ""));
        assert_eq!(Health::default().join(&Health::default()), Health::default());
    }
}
