//! The fields of objects that rules read.

use kaudit_cel::{
    CelReads, Root,
    reads::ReadStep,
    schema::{CelSchema, SchemaStep, unescape},
};

use crate::judge::reads::{ReadTree, Segment};

/// Adds what an expression reads of a value at a place of the object.
pub(super) fn add(tree: &mut ReadTree, reads: &CelReads, schema: &CelSchema, place: &[Segment]) {
    for (paths, is_whole) in [(&reads.seen, false), (&reads.whole, true)] {
        for path in paths.iter().filter(|path| path.root == Root::Itself) {
            if let Some(steps) = segments(&path.steps, schema) {
                let path: Vec<Segment> = place.iter().cloned().chain(steps).collect();
                tree.insert(&path, is_whole);
            }
        }
    }
}

/// Returns a path of an expression with the names of the properties; `None` if no object has it.
fn segments(steps: &[ReadStep], schema: &CelSchema) -> Option<Vec<Segment>> {
    let (mut segments, mut schema) = (Vec::new(), Some(schema));
    for step in steps {
        let has_properties = schema.is_some_and(CelSchema::has_properties);
        let part = |step: SchemaStep<'_>| schema.and_then(|schema| schema.part(step)).map(AsRef::as_ref);
        match step {
            ReadStep::Field(name) if has_properties => {
                let name = unescape(name)?;
                segments.push(Segment::Field((&*name).into()));
                schema = part(SchemaStep::Property(&name));
            }
            ReadStep::Field(name) => {
                segments.push(Segment::Field(name.clone()));
                schema = part(SchemaStep::Values);
            }
            ReadStep::Any => {
                segments.push(Segment::Any);
                schema = part(SchemaStep::Items).or_else(|| part(SchemaStep::Values));
            }
        }
    }
    Some(segments)
}
