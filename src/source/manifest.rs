//! Manifests: files, directories and standard input as a source, for audits without a cluster.
//!
//! Out: the same [`Change`]s as from a cluster. A document that cannot be read is reported with file and line and
//! affects no other. YAML is read as kubectl reads it (1.1 booleans and octal numbers).

mod block;
mod chunks;
mod duplicates;
mod encoding;
mod field_lines;
mod field_types;
mod files;
mod fixes;
mod helm;
mod kinds;
mod open_list;
mod parse;
mod patch;
mod patched_value;
mod pool;
mod text_edits;
mod value_change;
mod yaml;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use tokio::sync::mpsc;
use tracing::warn;

use self::{
    chunks::Sizes,
    helm::Templates,
    parse::{ManifestItem, ManifestParser},
};
pub use self::{
    field_lines::FieldLines,
    files::{ManifestFile, download, files, is_stdin},
    fixes::{FixedLines, FixedObject, ManifestText},
    patch::{ObjectPatch, ResultFix},
};
pub(crate) use self::{field_lines::field_keys, parse::kind_of};
use crate::{
    model::{
        coverage::{NO_OBJECTS, State},
        object::{Kind, Object, ObjectKey, ObjectName, ObjectRef},
    },
    source::{
        change::{Change, Discovered, Unreadable, WatchScope},
        received::Secrets,
        selection::Selection,
    },
};

/// What manifests contain, apart from the objects themselves.
#[derive(Debug, Default)]
pub struct ManifestContent {
    /// Namespaces with objects that were read.
    pub namespaces: BTreeSet<Arc<str>>,
    /// Whether an object without a namespace was read.
    pub has_unplaced: bool,
    /// Count of the objects left out because of their namespace, by namespace.
    pub elsewhere: BTreeMap<Option<String>, usize>,
    /// Objects that more than one document defines.
    pub repeated: HashSet<ObjectName>,
    /// All objects that were read; empty unless they are to be listed.
    pub objects: HashSet<ObjectName>,
}

/// Reads all `files` into `changes`, and blocks until all is read. With `listed`, the names of all objects are
/// collected.
pub fn read(
    files: &[ManifestFile],
    selection: &Selection,
    secrets: Secrets,
    listed: bool,
    changes: &mpsc::Sender<Change>,
) -> ManifestContent {
    read_with(files, selection, secrets, listed, &mut |change| {
        // After an interrupt the receiver is closed; the little that is left is read in vain.
        let _ended = changes.blocking_send(change);
    })
}

/// Like [`read`], but passes the changes to `send`.
///
/// Files are read in chunks that are parsed in parallel and delivered in their order, so that the result is always the
/// same and the memory does not grow with the files.
pub fn read_with(
    files: &[ManifestFile],
    selection: &Selection,
    secrets: Secrets,
    listed: bool,
    send: &mut dyn FnMut(Change),
) -> ManifestContent {
    read_in_chunks(files, Sizes::default(), selection, secrets, listed, send)
}

fn read_in_chunks(
    files: &[ManifestFile],
    sizes: Sizes,
    selection: &Selection,
    secrets: Secrets,
    listed: bool,
    send: &mut dyn FnMut(Change),
) -> ManifestContent {
    let parser = ManifestParser { selection, secrets, templates: Templates::default() };
    let mut delivery = Delivery {
        send,
        scopes: HashSet::new(),
        names: NameCounts::default(),
        settings: BTreeSet::new(),
        excluded: BTreeSet::new(),
        listed,
        content: ManifestContent::default(),
    };
    let chunks = files.iter().flat_map(|file| chunks::of(file, sizes));
    pool::in_order(chunks, |chunk| parser.chunk(chunk), |items| delivery.items(items));
    delivery.end()
}

/// Converts the items of the files into changes.
struct Delivery<'a> {
    send: &'a mut dyn FnMut(Change),
    scopes: HashSet<WatchScope>,
    names: NameCounts,
    /// Files of tools that contain documents which are not objects.
    settings: BTreeSet<Arc<str>>,
    /// Kinds of objects left out by `--exclude`.
    excluded: BTreeSet<Arc<Kind>>,
    listed: bool,
    content: ManifestContent,
}

/// Counts the objects of each name. Only hashes are kept: if two names had the same hash, one would start at a higher
/// copy, and the keys would still differ.
#[derive(Default)]
struct NameCounts {
    hasher: RandomState,
    once: HashSet<u64>,
    /// Further objects of the names that occur more than once.
    more: HashMap<u64, u32>,
}

impl NameCounts {
    /// Returns how many objects of the same name came before.
    fn count(&mut self, key: &ObjectKey) -> u32 {
        let hash = self.hasher.hash_one(key);
        if self.once.insert(hash) {
            return 0;
        }
        let copies = self.more.entry(hash).or_default();
        *copies += 1;
        *copies
    }
}

impl Delivery<'_> {
    fn items(&mut self, items: Vec<ManifestItem>) {
        for item in items {
            match item {
                ManifestItem::Object(object) => self.object(*object),
                ManifestItem::Unreadable(at, why) => self.unreadable(at, why),
                // In YAML the last one wins, as in kubectl.
                ManifestItem::Duplicate(at, key) => warn!("{at} duplicate key {key:?}: remove one of the two"),
                ManifestItem::Settings(file) => drop(self.settings.insert(file)),
                ManifestItem::Excluded(kind) => drop(self.excluded.insert(kind)),
                ManifestItem::Elsewhere(namespace, objects) => {
                    *self.content.elsewhere.entry(namespace).or_default() += objects;
                }
            }
        }
    }

    fn object(&mut self, mut object: Object) {
        object.key.copy = self.names.count(&object.key);
        self.take_note(&object.key);
        let scope = WatchScope { kind: object.key.kind.clone(), namespace: None };
        if self.scopes.insert(scope.clone()) {
            self.send(Change::Appeared(scope.clone()));
        }
        self.send(Change::Seen(scope, object));
    }

    fn take_note(&mut self, key: &ObjectKey) {
        let ManifestContent { namespaces, has_unplaced, repeated, objects, .. } = &mut self.content;
        match &key.namespace {
            Some(namespace) if !namespaces.contains(namespace) => drop(namespaces.insert(namespace.clone())),
            Some(_) => {}
            None => *has_unplaced = true,
        }
        let name = || {
            let object = ObjectRef::new(key, &Arc::default());
            object.as_name()
        };
        if key.copy > 0 {
            repeated.insert(name());
        }
        if self.listed {
            objects.insert(name());
        }
    }

    /// Reports a document that cannot be read; its kind in the coverage is `*`.
    fn unreadable(&mut self, at: String, why: String) {
        let scope = WatchScope { kind: documents(), namespace: None };
        if self.scopes.insert(scope.clone()) {
            self.send(Change::Appeared(scope.clone()));
        }
        self.send(Change::Skipped(scope, at, why));
    }

    fn end(mut self) -> ManifestContent {
        let mut scopes: Vec<_> = self.scopes.iter().cloned().collect();
        scopes.sort();
        for scope in scopes {
            self.send(match &*scope.kind.plural {
                "*" => Change::Unreadable(scope, Unreadable { state: State::Failed, message: String::new() }),
                _ => Change::Synced(scope),
            });
        }
        let settings = self.settings.iter().map(|file| (documents(), format!("{file}{NO_OBJECTS}")));
        let kinds = self.excluded.iter().map(|kind| (kind.clone(), "--exclude".to_owned()));
        let excluded = settings.chain(kinds).collect();
        self.send(Change::Discovered(Discovered { excluded, ..Discovered::default() }));
        self.content
    }

    fn send(&mut self, change: Change) {
        (self.send)(change);
    }
}

/// Returns a placeholder for the kind of documents that are not objects.
fn documents() -> Arc<Kind> {
    let mut kind = kind_of("", "*");
    kind.plural.clone_from(&kind.kind);
    Arc::new(kind)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read_text(text: &str) -> (Vec<String>, Vec<String>) {
        read_text_in(Sizes::default(), text)
    }

    pub(super) fn read_text_in(sizes: Sizes, text: &str) -> (Vec<String>, Vec<String>) {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        read_files_in(sizes, &[file.path()])
    }

    fn read_files(files: &[&Path]) -> (Vec<String>, Vec<String>) {
        read_files_in(Sizes::default(), files)
    }

    /// Reads files; locations are `f` and the line.
    fn read_files_in(sizes: Sizes, files: &[&Path]) -> (Vec<String>, Vec<String>) {
        let files: Vec<_> = files.iter().map(|path| ManifestFile::named(path.to_path_buf())).collect();
        let (sender, mut receiver) = mpsc::channel(10_000);
        // The stack is as large as in production.
        std::thread::scope(|scope| {
            let read = || {
                let mut send = |change| sender.blocking_send(change).unwrap();
                read_in_chunks(&files, sizes, &Selection::default(), Secrets::Redact, false, &mut send)
            };
            std::thread::Builder::new().stack_size(crate::blocking::STACK_BYTES).spawn_scoped(scope, read).unwrap();
        });
        drop(sender);
        let (mut seen, mut skipped) = (Vec::new(), Vec::new());
        while let Some(change) = receiver.blocking_recv() {
            match change {
                Change::Seen(_, object) => {
                    let line = object.location.map_or(0, |location| location.line);
                    seen.push(format!("{line} {} #{}", object.key, object.key.copy));
                }
                Change::Skipped(_, at, why) => {
                    let place = at.split_once(':').map_or("", |(_, place)| place);
                    skipped.push(format!("f:{place} {why}"));
                }
                _ => {}
            }
        }
        (seen, skipped)
    }

    #[test]
    fn many_chunks_are_delivered_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let pod = |number: usize| {
            format!(
                "kind: Pod\napiVersion: v1\nmetadata:\n  name: p{}\n  labels:\n    filler: {}\n",
                number % 700,
                "x".repeat(300)
            )
        };
        // Comments whose lines look like document separators, and long ones in which no chunk ends.
        let stream: Vec<_> =
            (0..2_000).map(|number| format!("# --- {}\n{}", "-".repeat(number % 90), pod(number))).collect();
        let (first, second, third) = (folder.path().join("a"), folder.path().join("b"), folder.path().join("c"));
        std::fs::write(&first, stream.join("---\n")).unwrap();
        std::fs::write(&second, stream.join("--- # next\n")).unwrap();
        std::fs::write(&third, pod(7)).unwrap();
        let (seen, skipped) = read_files(&[&first, &second, &third]);
        let line = |number: usize| if number == 0 { 2 } else { number * 8 + 2 };
        let mut want: Vec<_> = (0..4_000)
            .map(|number| {
                format!(
                    "{} Pod p{} #{}",
                    line(number % 2_000),
                    number % 2_000 % 700,
                    number % 2_000 / 700
                        + if number < 2_000 {
                            0
                        } else if number % 2_000 % 700 < 600 {
                            3
                        } else {
                            2
                        }
                )
            })
            .collect();
        want.push("1 Pod p7 #6".to_owned());
        assert!(seen == want, "{:?}", seen.iter().zip(&want).find(|(seen, want)| seen != want));
        assert!(skipped.is_empty(), "{skipped:?}");
    }

    #[test]
    fn json_values_are_split_into_chunks_and_an_invalid_one_affects_no_other() {
        let pod = |number: usize, end: &str| {
            let padding = "x".repeat(number % 97 * 10);
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod",{end}"metadata":{{"name":"p{number}","labels":{{"a":"{padding}"}}}}}}"#
            )
        };
        let mut lines: Vec<_> = (0..2_000).map(|number| pod(number, if number % 3 == 0 { "\n" } else { "" })).collect();
        let broken = [900, 1_500];
        for at in broken {
            lines[at] = r#" {"kind":}"#.to_owned();
        }
        let text = lines.join("\n") + "\n";
        assert!(text.len() > 900_000);
        let (seen, skipped) = read_text(&text);
        let line = |number: usize| 1 + lines[..number].iter().map(|line| 1 + line.matches('\n').count()).sum::<usize>();
        let numbers = (0..2_000).filter(|number| !broken.contains(number));
        let want: Vec<_> = numbers.map(|number| format!("{} Pod p{number} #0", line(number))).collect();
        assert!(seen == want, "{:?}", seen.iter().zip(&want).find(|(seen, want)| seen != want));
        assert_eq!(skipped, broken.map(|at| format!("f:{}:10 expected value", line(at))));
        // As a second document.
        let (seen, _) = read_text(&format!("# one\n---\n{text}"));
        assert_eq!((seen.len(), &*seen[0]), (1_998, "3 Pod p0 #0"));
    }

    #[test]
    fn reads_streams_with_lines_and_continues_after_a_broken_document() {
        let (seen, skipped) = read_text(
            "# a comment\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\n---\na: [1\nb: 2\n---\n\n---\n# c\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: b\n--- # again\napiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: ns}\n---\nreplicas: 3\n",
        );
        assert_eq!(seen, ["2 Pod ns/a #0", "12 Deployment b #0", "17 Pod ns/a #1"]);
        assert_eq!(skipped.len(), 2, "{skipped:?}");
        assert!(skipped[0].starts_with("f:7:2 "), "{skipped:?}");
        assert_eq!(skipped[1], "f:21 not a Kubernetes object: apiVersion or kind is missing");
    }

    #[test]
    fn size_depth_and_aliases_that_kubectl_reads_are_read() {
        let head = "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n";
        for spec in [
            format!("a: &a 1\nb: *a\nmore: [{}]\n", "1,".repeat(300_000)),
            format!("more: &s {}1{}\n", "[".repeat(100), "]".repeat(100)),
            format!("a: &a {{b: c}}\nmore: [{}]\n", "*a ,".repeat(300)),
        ] {
            assert_eq!(read_text(&format!("{head}{spec}")), (vec!["1 Pod a #0".to_owned()], vec![]));
        }
        let (_, skipped) = read_text(&format!("{head}more: &s {}1{}\n", "[".repeat(200), "]".repeat(200)));
        assert_eq!(skipped, ["f:4:136 nested deeper than 127 levels"]);
        let laughs: String = ('b'..='h').fold("a: &a [1,1,1,1,1,1,1,1,1]\n".to_owned(), |text, anchor| {
            let alias = char::from_u32(u32::from(anchor) - 1).unwrap();
            text + &format!("{anchor}: &{anchor} [{}]\n", format!("*{alias} ,").repeat(9))
        });
        let (_, skipped) = read_text(&format!("{head}{laughs}"));
        assert_eq!(skipped, ["f:7:24 its anchors and aliases expand to too many values"]);
    }

    #[test]
    fn opens_lists_and_reviews_in_yaml_and_json() {
        let (seen, skipped) = read_text(
            "{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\"}},\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\"}}]}\n{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"object\":null,\"oldObject\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"c\"}}}}",
        );
        assert_eq!((seen, skipped), (vec!["2 Pod a #0".into(), "3 Pod b #0".into(), "4 Pod c #0".into()], vec![]));
        let (seen, _) = read_text("apiVersion: apps/v1\nkind: DeploymentList\nitems:\n- metadata: {name: x}\n");
        assert_eq!(seen, ["4 Deployment x #0"]);
    }

    #[test]
    fn items_of_lists_have_their_own_lines_however_the_list_is_written() {
        let item = |name: &str| format!("apiVersion: v1, kind: Pod, metadata: {{name: {name}}}");
        let (a, b) = (item("a"), item("b"));
        let list = "apiVersion: v1\nkind: List\nitems:\n";
        for (text, lines) in [
            (format!("{list}- {{{a}}}\n- {{{b}}}\n"), (4, 5)),
            (format!("apiVersion: v1\nkind: List\nitems: [{{{a}}}, {{{b}}}]\n"), (3, 3)),
            (format!("apiVersion: v1\nkind: List\nitems: [{{{a}}},\n  {{{b}}}]\n"), (3, 4)),
            (format!("# c\nx: &x {{labels: {{}}}}\n{list}- {{{a}, spec: *x}}\n- {{{b}}}\n"), (6, 7)),
            (
                format!(
                    "x: &x {{apiVersion: v1, kind: Pod}}\n{list}- <<: *x\n  metadata: {{name: a}}\n\n- <<: *x\n  metadata: {{name: b}}\n"
                ),
                (5, 8),
            ),
            (format!("x: &x\n  {{{a}}}\n{list}- *x\n# c\n- {{{b}}}\n"), (6, 8)),
            (format!("x: &x\n- {{{a}}}\n- {{{b}}}\napiVersion: v1\nkind: List\nitems: *x\n"), (2, 3)),
            (format!("{list}- apiVersion: v1\n  kind: List\n  items:\n  - {{{a}}}\n- {{{b}}}\n"), (7, 8)),
            (format!("{list}- apiVersion: v1\n  kind: List\n  items:\n  - &a {{{a}}}\n- {{{b}}}\n"), (7, 8)),
            (format!("# c\n- {{{a}}}\n- [!!map {{{b}}}]\n"), (2, 3)),
        ] {
            let before = read_text(&format!("# One.\n---\n{text}"));
            let read = |from: usize| {
                (vec![format!("{} Pod a #0", from + lines.0), format!("{} Pod b #0", from + lines.1)], vec![])
            };
            assert_eq!((read_text(&text), before), (read(0), read(2)), "{text}");
        }
    }

    #[test]
    fn an_object_with_a_field_of_a_wrong_type_is_not_read_in_any_form() {
        let pod = |name: &str, containers: &str| {
            format!(
                r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":{containers}}}}}"#
            )
        };
        let (good, bad) = (pod("a", "[]"), pod("b", r#"{"name":"c"}"#));
        let why = "spec.containers is an object, not a list";
        for (text, line) in [
            (format!("{good}\n{bad}\n"), 2),
            (format!("{good}\n---\n{bad}\n"), 3),
            (format!(r#"{{"apiVersion":"v1","kind":"PodList","items":[{good},{}{bad}]}}"#, "\n"), 2),
            (format!("apiVersion: v1\nkind: List\nitems:\n- {good}\n- {bad}\n"), 5),
            (
                "kind: Pod\napiVersion: v1\nmetadata: {name: a}\n---\nkind: Pod\napiVersion: v1\nmetadata: {name: b}\nspec:\n  containers: {name: c}\n".to_owned(),
                9,
            ),
            (format!("- {good}\n- &a {bad}\n"), 2),
        ] {
            let (seen, skipped) = read_text(&text);
            let names: Vec<_> = seen.iter().map(|seen| seen.split_once(' ').unwrap().1).collect();
            assert_eq!((names, skipped), (vec!["Pod a #0"], vec![format!("f:{line} {why}")]), "{text}");
        }
    }

    #[test]
    fn guesses_plurals() {
        for (kind, plural) in [("NetworkPolicy", "networkpolicies"), ("Ingress", "ingresses"), ("Pod", "pods")] {
            assert_eq!(kind_of("v1", kind).plural, plural);
        }
        assert_eq!(kind_of("apps/v1", "Deployment").api_version(), "apps/v1");
    }

    #[test]
    fn quoted_text_continues_wherever_kubectl_continues_it() {
        let (seen, skipped) = read_text(
            "apiVersion: v1\nkind: Pod\nmetadata:\n  annotations:\n    a: \"one\n    two\n\n  three\"\n    b: 'x\n y'\n  name: a\n",
        );
        assert_eq!((seen, skipped), (vec!["1 Pod a #0".to_owned()], vec![]));
    }
}
