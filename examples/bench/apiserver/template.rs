//! JSON with gaps, which is parsed once and filled for each object: this costs little more than copying it.
//!
//! A gap is written `‹name›`, as a part of a string; a string that consists of `‹#name›` becomes a number.

use anyhow::{Context, Result, bail};

/// The content of a gap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Gap {
    Name,
    Namespace,
    Uid,
    Version,
    /// `metadata.generation`, and fields that depend on it.
    Generation,
    Created,
    /// The time of the last change of the specification; [`StatusTime`](Self::StatusTime) is that of the status.
    SpecTime,
    StatusTime,
    App,
    OwnerName,
    OwnerUid,
    TemplateHash,
    /// The tag of an image, which changes with the specification.
    Tag,
    /// A label of namespaces, which changes with each change of the namespace.
    Tier,
    Node,
    PodIp,
    HostIp,
    Replicas,
    /// The end of the name of a volume.
    Suffix,
    /// Hexadecimal digits that are the same in all objects of an app: an index, and the number of digits.
    Shared(u8, u8),
    /// Hexadecimal digits of one object: an index, and the number of digits.
    Own(u8, u8),
    /// A number of four digits that is the same in all objects of an app, by an index.
    Port(u8),
}

impl Gap {
    fn parse(text: &str) -> Result<Self> {
        let (name, numbers) = text.split_once(' ').unwrap_or((text, ""));
        let numbers: Vec<u8> = numbers
            .split_whitespace()
            .map(str::parse)
            .collect::<Result<_, _>>()
            .with_context(|| format!("a gap with an invalid number: {text:?}"))?;
        Ok(match (name, numbers[..].as_ref()) {
            ("name", []) => Self::Name,
            ("namespace", []) => Self::Namespace,
            ("uid", []) => Self::Uid,
            ("version", []) => Self::Version,
            ("generation", []) => Self::Generation,
            ("created", []) => Self::Created,
            ("spec-time", []) => Self::SpecTime,
            ("status-time", []) => Self::StatusTime,
            ("app", []) => Self::App,
            ("owner-name", []) => Self::OwnerName,
            ("owner-uid", []) => Self::OwnerUid,
            ("template-hash", []) => Self::TemplateHash,
            ("tag", []) => Self::Tag,
            ("tier", []) => Self::Tier,
            ("node", []) => Self::Node,
            ("pod-ip", []) => Self::PodIp,
            ("host-ip", []) => Self::HostIp,
            ("replicas", []) => Self::Replicas,
            ("suffix", []) => Self::Suffix,
            ("shared", [which, digits]) => Self::Shared(*which, *digits),
            ("own", [which, digits]) => Self::Own(*which, *digits),
            ("port", [which]) => Self::Port(*which),
            _ => bail!("unknown gap {text:?}"),
        })
    }
}

/// A JSON object with gaps.
#[derive(Debug)]
pub(crate) struct Template {
    text: Box<str>,
    /// The positions of gaps in the text, and their contents.
    gaps: Vec<(usize, Gap)>,
}

impl Template {
    pub(crate) fn parse(json: &str) -> Result<Self> {
        let (mut text, mut gaps) = (String::with_capacity(json.len()), Vec::new());
        let mut rest = json;
        while let Some((before, after)) = rest.split_once('‹') {
            let (gap, after) = after.split_once('›').context("a gap without an end")?;
            text.push_str(before);
            rest = after;
            let gap = match gap.strip_prefix('#') {
                None => gap,
                Some(number) => {
                    rest = rest.strip_prefix('"').context("a gap for a number must be a whole string")?;
                    text.pop();
                    number
                }
            };
            gaps.push((text.len(), Gap::parse(gap)?));
        }
        text.push_str(rest);
        Ok(Self { text: text.into(), gaps })
    }

    /// Appends the object, with each gap filled by `fill`.
    pub(crate) fn write(&self, out: &mut Vec<u8>, mut fill: impl FnMut(Gap, &mut Vec<u8>)) {
        let mut begin = 0;
        for (end, gap) in &self.gaps {
            out.extend_from_slice(&self.text.as_bytes()[begin..*end]);
            fill(*gap, out);
            begin = *end;
        }
        out.extend_from_slice(&self.text.as_bytes()[begin..]);
    }
}
