//! Admission policies, as in OPA's Kubernetes tutorials: the input is an admission review, with the object at
//! `input.request.object`.

use super::conftest;
use crate::judge::dialect::{Dialect, DialectDescription, InputForm};

pub(crate) const DIALECT: Dialect = Dialect(&DialectDescription {
    outcome: conftest::outcome,
    has_exceptions: true,
    is_read_as: |input| input.contains("request"),
    ..DialectDescription::new("admission", InputForm::Review("request"), conftest::findings)
});
