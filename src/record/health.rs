//! What recorders report about themselves, for the condition `Recording` of the `Audit` object.

/// Problems of recording, and notes about it. Empty while all is well.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Health {
    /// What is wrong; makes the condition false.
    pub trouble: String,
    /// Why records are missing although nothing is wrong, such as in a cluster without a report API.
    pub note: String,
    /// What was not written and will not be retried, and why: a run that ends then has not recorded everything.
    pub lost: String,
}

impl Health {
    /// Joins the health of two recorders.
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
    fn health_of_two_recorders_is_joined() {
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
