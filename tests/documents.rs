//! Checks of the documents: links resolve, commands print what is shown, and no sentence is in two of them.
//!
//! `.ci/picture --check` compares README's picture with real output, `.ci/live` the output in README and in
//! `examples/README.md`.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test says what failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    ffi::OsString,
    fmt::Write as _,
    fs,
    ops::Range,
    path::{Component, Path, PathBuf},
    process::Command,
};

use kaudit_controlplane::{Tool, require_tool, tool};
use pulldown_cmark::{BrokenLink, CodeBlockKind, CowStr, Event, Options, Parser, Tag, TagEnd};

/// Shorter sentences may be repeated.
const SHORTEST_SENTENCE: usize = 7;
/// The beginning of a generated document, which repeats what other sources say.
const GENERATED: &str = "<!-- Made by ";
/// Represents any number of output lines.
const CUT: &str = "…";

/// Commands in `console` blocks that need a cluster or a registry, with the file and text that cover them.
const COVERED_ELSEWHERE: &[(&str, &str, &str)] = &[
    ("cargo run --release --example live", ".ci/run", ".ci/live"),
    (".ci/release/binary", ".ci/run", ".ci/release/binary"),
    (
        ".ci/release/image",
        "tests/cluster/image.rs",
        "fn the_image_runs_with_the_arguments_and_the_security_context_of_the_chart",
    ),
    (
        ".ci/release/image --push registry.example.com/kaudit",
        ".github/workflows/release.yml",
        ".ci/release/image --push ",
    ),
    (
        "helm install kaudit charts/kaudit --namespace kaudit --create-namespace --wait --set reports.installCRDs=true",
        "tests/cluster/chart.rs",
        "fn optional_objects_match_the_server_schemas",
    ),
    ("kubectl apply -f examples/manifests/namespace.yaml", "examples/live.rs", "examples/manifests/namespace.yaml"),
    ("kubectl apply -f examples/manifests", "examples/live.rs", "\"examples/manifests\""),
    ("kubectl -n kaudit wait --for=condition=Synced audit/kaudit --timeout=5m", ".ci/run", ".ci/live"),
    ("kubectl get audits -A", ".ci/run", ".ci/live"),
    ("kubectl -n shop get events --field-selector=reason=PolicyViolation", ".ci/run", ".ci/live"),
    (
        "kubectl -n shop get reports",
        "tests/cluster/reports.rs",
        "fn switching_report_api_or_layout_keeps_timestamps_and_leaves_nothing_behind",
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A Markdown file of the repository.
struct MarkdownFile {
    /// Relative to the root.
    path: String,
    text: String,
}

/// Returns all Markdown files, sorted by path.
fn documents() -> Vec<MarkdownFile> {
    fn below(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            let hidden = name.starts_with('.') && name != ".github";
            if path.is_dir() && !hidden && path != root().join("target") {
                below(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                found.push(path);
            }
        }
    }
    let mut paths = Vec::new();
    below(root(), &mut paths);
    paths.sort();
    let read = |path: PathBuf| MarkdownFile {
        text: fs::read_to_string(&path).unwrap(),
        path: path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned(),
    };
    paths.into_iter().map(read).collect()
}

impl MarkdownFile {
    /// Returns the Markdown events with their positions.
    fn events(&self) -> Vec<(Event<'_>, Range<usize>)> {
        let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH;
        // A reference without a definition is a broken link, which `links` reports.
        let broken =
            |link: BrokenLink<'_>| Some((CowStr::from(format!("undefined:{}", link.reference)), CowStr::from("")));
        Parser::new_with_broken_link_callback(&self.text, options, Some(broken))
            .into_offset_iter()
            .map(|(event, range)| (event.into_static(), range))
            .collect()
    }

    /// Returns a location for messages.
    fn place(&self, offset: usize) -> String {
        format!("{}:{}", self.path, self.text[..offset].matches('\n').count() + 1)
    }

    /// Returns the targets of links and images.
    fn links(&self) -> Vec<(String, String)> {
        let links = self.events().into_iter().filter_map(|(event, range)| match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                Some((dest_url.into_string(), self.place(range.start)))
            }
            _ => None,
        });
        links.collect()
    }

    /// Returns the anchors of the headings, as GitHub generates them.
    fn anchors(&self) -> BTreeSet<String> {
        let (mut anchors, mut counts, mut heading) = (BTreeSet::new(), BTreeMap::<String, usize>::new(), None);
        for (event, _) in self.events() {
            match (event, &mut heading) {
                (Event::Start(Tag::Heading { .. }), _) => heading = Some(String::new()),
                (Event::Text(text) | Event::Code(text), Some(heading)) => heading.push_str(&text),
                (Event::End(TagEnd::Heading(_)), _) => {
                    let slug = slug(&heading.take().unwrap());
                    let before = counts.entry(slug.clone()).or_default();
                    anchors.insert(if *before == 0 { slug } else { format!("{slug}-{before}") });
                    *before += 1;
                }
                _ => {}
            }
        }
        anchors
    }

    /// Returns the sentences outside headings and code blocks, with their locations.
    fn sentences(&self) -> Vec<(String, String)> {
        let (mut sentences, mut text, mut skipped, mut start) = (Vec::new(), String::new(), 0, 0);
        for (event, range) in self.events() {
            match event {
                Event::Start(Tag::Heading { .. } | Tag::CodeBlock(_)) => skipped += 1,
                Event::End(TagEnd::Heading(_) | TagEnd::CodeBlock) => skipped -= 1,
                Event::Text(part) | Event::Code(part) if skipped == 0 => {
                    if text.is_empty() {
                        start = range.start;
                    }
                    text.push_str(&part);
                }
                Event::SoftBreak | Event::HardBreak => text.push(' '),
                // Inline elements of a sentence.
                Event::Start(Tag::Emphasis | Tag::Strong | Tag::Link { .. } | Tag::Image { .. })
                | Event::End(TagEnd::Emphasis | TagEnd::Strong | TagEnd::Link | TagEnd::Image) => {}
                _ => {
                    sentences.extend(split(&text).map(|sentence| (sentence, self.place(start))));
                    text.clear();
                }
            }
        }
        sentences
    }

    /// Returns the code blocks in a language, with their locations.
    fn blocks(&self, language: &str) -> Vec<(String, String)> {
        let (mut blocks, mut block) = (Vec::new(), None);
        for (event, range) in self.events() {
            match (event, &mut block) {
                (Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(name))), _) if &*name == language => {
                    block = Some((String::new(), self.place(range.start)));
                }
                (Event::Text(text), Some((code, _))) => code.push_str(&text),
                (Event::End(TagEnd::CodeBlock), _) => blocks.extend(block.take()),
                _ => {}
            }
        }
        blocks
    }
}

/// Returns GitHub's anchor of a heading.
fn slug(heading: &str) -> String {
    let kept = heading.to_lowercase();
    let kept = kept.chars().filter(|letter| letter.is_alphanumeric() || matches!(letter, ' ' | '-' | '_'));
    kept.map(|letter| if letter == ' ' { '-' } else { letter }).collect()
}

/// Splits text into sentences, in lower case and with single spaces.
fn split(text: &str) -> impl Iterator<Item = String> {
    let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
    let sentences: Vec<String> = words
        .split_inclusive(|word| word.ends_with(['.', '!', '?']))
        .filter(|sentence| sentence.len() >= SHORTEST_SENTENCE)
        .map(|sentence| sentence.join(" ").trim_end_matches(['.', '!', '?']).to_owned())
        .collect();
    sentences.into_iter()
}

/// Resolves `..` and `.` in a path inside the repository; `None` if it leads out of it.
fn resolve(path: &Path) -> Option<PathBuf> {
    let mut resolved = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => resolved.push(name),
            Component::ParentDir if resolved.pop() => {}
            Component::CurDir => {}
            _ => return None,
        }
    }
    Some(resolved)
}

#[test]
fn links_resolve() {
    let documents = documents();
    let anchors: BTreeMap<&str, _> = documents.iter().map(|document| (&*document.path, document.anchors())).collect();
    let (mut dead, mut checked) = (String::new(), 0);
    for document in &documents {
        for (link, place) in document.links() {
            if link.starts_with("https://") {
                continue;
            }
            checked += 1;
            let (path, anchor) = link.split_once('#').map_or((&*link, None), |(path, anchor)| (path, Some(anchor)));
            let file = Path::new(&document.path);
            let target = if path.is_empty() { file.into() } else { file.parent().unwrap().join(path) };
            let target = resolve(&target).filter(|target| root().join(target).exists());
            let leads = target.is_some_and(|target| {
                anchor.is_none_or(|anchor| {
                    anchors.get(target.to_str().unwrap()).is_some_and(|anchors| anchors.contains(anchor))
                })
            });
            if !leads {
                writeln!(dead, "{place}: {link}").unwrap();
            }
        }
    }
    assert!(dead.is_empty(), "dead links:\n{dead}");
    assert!(checked > 30, "only {checked} links between documents were found");
}

/// `.ci/book` builds the book, and reads its contents from `SUMMARY.md`.
#[test]
fn each_page_of_the_book_is_once_in_its_contents() {
    let documents = documents();
    let files = documents.iter().filter_map(|file| Some((file.path.strip_prefix("docs/")?, &*file.text)));
    let (contents, pages): (Vec<_>, Vec<_>) = files.partition(|(path, _)| *path == "SUMMARY.md");
    let titled = pages.into_iter().map(|(path, text)| {
        let title = text.lines().find_map(|line| line.strip_prefix("# "));
        (path, title.unwrap())
    });
    let mut pages: Vec<_> = titled.collect();
    let entries = contents.iter().flat_map(|(_, text)| text.lines()).filter_map(|line| {
        let (title, path) = line.trim_start_matches([' ', '-', '[']).split_once("](")?;
        Some((path.trim_end_matches(')'), title))
    });
    let mut listed: Vec<_> = entries.collect();
    pages.sort_unstable();
    listed.sort_unstable();
    assert_eq!(listed, pages);
}

#[test]
fn no_sentence_is_in_two_documents() {
    let mut places = BTreeMap::<String, BTreeMap<String, String>>::new();
    for document in documents().iter().filter(|document| !document.text.starts_with(GENERATED)) {
        for (sentence, place) in document.sentences() {
            places.entry(sentence).or_default().insert(document.path.clone(), place);
        }
    }
    assert!(places.len() > 300, "only {} sentences were found", places.len());
    let mut repeated = String::new();
    for (sentence, places) in places.iter().filter(|(_, places)| places.len() > 1) {
        let places: Vec<&str> = places.values().map(String::as_str).collect();
        writeln!(repeated, "{}: {sentence}", places.join(", ")).unwrap();
    }
    assert!(repeated.is_empty(), "in more than one document:\n{repeated}");
}

#[test]
fn sentences_and_anchors_are_found() {
    let document = |text: &str| MarkdownFile { path: "a.md".to_owned(), text: text.to_owned() };
    let text = "# One `two`: Three, four\n\n# One two three four\n\n## Five-six\n\nText over\ntwo *lines* with `code` and \
                a [link](b.md). Short one. A second sentence of more than six words!\n\n```sh\nthis is code and no \
                sentence at all\n```\n\n| a cell that has just about seven words |\n|---|\n| another cell that has just \
                about seven words |\n";
    let found: Vec<_> = document(text).sentences();
    let sentence = |text: &str, line| (text.to_owned(), format!("a.md:{line}"));
    assert_eq!(
        found,
        [
            sentence("text over two lines with code and a link", 7),
            sentence("a second sentence of more than six words", 7),
            sentence("a cell that has just about seven words", 14),
            sentence("another cell that has just about seven words", 16),
        ]
    );
    let anchors: Vec<_> = document(text).anchors().into_iter().collect();
    assert_eq!(anchors, ["five-six", "one-two-three-four", "one-two-three-four-1"]);
    let broken = document("see [there][nowhere]").links();
    assert_eq!(broken, [("undefined:nowhere".to_owned(), "a.md:1".to_owned())]);
}

#[test]
fn the_readme_is_short() {
    let size = fs::metadata(root().join("README.md")).unwrap().len();
    assert!(size <= 8 * 1_024, "README.md has {size} bytes: move what is not for a newcomer to docs");
}

#[test]
fn the_policy_in_the_readme_is_an_example() {
    let documents = documents();
    let readme = documents.iter().find(|document| document.path == "README.md").unwrap();
    let [(policy, _)] = &readme.blocks("rego")[..] else { panic!("README.md shows one policy") };
    assert_eq!(*policy, fs::read_to_string(root().join("examples/policies/ownership.rego")).unwrap());
}

#[test]
fn images_and_archives_have_the_version_of_the_package() {
    for mark in ["/kaudit:", "/kaudit/v", "kaudit-"] {
        let mut found = 0;
        // This document uses another version as an example.
        for document in documents().iter().filter(|document| document.path != ".github/CONTRIBUTING.md") {
            for (offset, _) in document.text.match_indices(mark) {
                let rest = &document.text[offset + mark.len()..];
                let version = rest.split(|letter: char| !letter.is_ascii_digit() && letter != '.').next().unwrap();
                let version = version.trim_end_matches('.');
                // Others are numbers of shards, and names.
                if version.contains('.') {
                    found += 1;
                    assert_eq!(version, env!("CARGO_PKG_VERSION"), "{}", document.place(offset));
                }
            }
        }
        assert!(found > 0, "no document has {mark} with a version");
    }
}

/// A command of a `console` block with its shown output.
struct Shown {
    command: String,
    output: Vec<String>,
}

/// Splits a block at its prompts.
fn shown(block: &str) -> Vec<Shown> {
    let mut all: Vec<Shown> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), all.last_mut()) {
            (Some(command), _) => all.push(Shown { command: command.to_owned(), output: Vec::new() }),
            (None, Some(last)) => last.output.push(line.to_owned()),
            (None, None) => panic!("a console block begins with a command, not with {line}"),
        }
    }
    for one in &mut all {
        while one.output.last().is_some_and(String::is_empty) {
            one.output.pop();
        }
    }
    all
}

/// Whether lines are as shown, with [`CUT`] matching any number of them.
fn is_as_shown(shown: &[String], lines: &[&str]) -> bool {
    match shown {
        [] => lines.is_empty(),
        [cut, rest @ ..] if cut == CUT => (0..=lines.len()).any(|skipped| is_as_shown(rest, &lines[skipped..])),
        [first, rest @ ..] => {
            lines.split_first().is_some_and(|(line, below)| line == first && is_as_shown(rest, below))
        }
    }
}

#[test]
fn a_cut_matches_any_number_of_lines() {
    let shown = ["a", CUT, "d"].map(str::to_owned);
    for (lines, fits) in [
        (&["a", "b", "c", "d"][..], true),
        (&["a", "d"], true),
        (&["a", "d", "d"], true),
        (&["a", "b"], false),
        (&["b", "d"], false),
        (&["a", "d", "e"], false),
    ] {
        assert_eq!(is_as_shown(&shown, lines), fits, "{lines:?}");
    }
}

/// Copies a folder recursively.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = (entry.as_ref().unwrap().path(), to.join(entry.unwrap().file_name()));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

/// Returns a `PATH` that starts with the built `kaudit`, and with `helm` if it is installed.
fn search_path(helm: bool) -> OsString {
    let kaudit = Path::new(env!("CARGO_BIN_EXE_kaudit")).to_owned();
    let programs = [Some(kaudit), helm.then(|| tool(Tool::Helm).unwrap())];
    let own = programs.into_iter().flatten().map(|program| program.parent().unwrap().to_owned());
    let usual = env::var_os("PATH").unwrap_or_default();
    env::join_paths(own.chain(env::split_paths(&usual))).unwrap()
}

/// Each block runs in a copy of the repository, so that its commands may change files.
#[test]
fn commands_print_what_is_shown() {
    let helm = require_tool(Tool::Helm);
    let path = search_path(helm);
    let mut elsewhere: BTreeSet<&str> = COVERED_ELSEWHERE.iter().map(|(command, ..)| *command).collect();
    let mut run = 0;
    for document in &documents() {
        for (block, place) in document.blocks("console") {
            let clone = tempfile::tempdir().unwrap();
            for folder in ["charts", "examples", "policies"] {
                copy(&root().join(folder), &clone.path().join(folder));
            }
            fs::write(
                clone.path().join("lookup.rego"),
                "package lookup\n\ndeny contains \"x\" if http.send({\"method\": \"get\", \"url\": \"http://a\"}).status_code != 200\n",
            )
            .unwrap();
            let mut code = 0;
            for Shown { command, output } in shown(&block) {
                let there = COVERED_ELSEWHERE.iter().find(|(covered, ..)| *covered == command);
                if let Some((covered, file, text)) = there {
                    elsewhere.remove(covered);
                    let covering = fs::read_to_string(root().join(file)).unwrap();
                    assert!(covering.contains(text), "{place}: {file} has no {text}, which covers {command}");
                    continue;
                }
                if command.starts_with("helm ") && !helm {
                    continue;
                }
                run += 1;
                let built = command.replace("cargo run --release -- ", "kaudit ");
                // The subshell sets `$?` to the exit code of the previous command.
                let ended = Command::new("sh")
                    .args(["-c", &format!("exec 2>&1\n(exit {code})\n{built}")])
                    .env_clear()
                    .env("PATH", &path)
                    .env("HOME", clone.path())
                    .current_dir(clone.path())
                    .output()
                    .unwrap();
                code = ended.status.code().unwrap();
                let printed = String::from_utf8(ended.stdout).unwrap();
                let lines: Vec<&str> = printed.trim_end_matches('\n').lines().collect();
                assert!(is_as_shown(&output, &lines), "{place}: `{command}` does not print that, but\n{printed}");
                // Without shown output, the command must at least succeed.
                let shows_output = output.iter().any(|line| line != CUT);
                assert!(shows_output || code <= 1, "{place}: `{command}` ends with {code}\n{printed}");
            }
        }
    }
    assert!(elsewhere.is_empty(), "no document has these commands: {elsewhere:?}");
    assert!(run >= 10, "only {run} commands were run");
}

/// Documents with tables whose last column names tests: `` `file`: `function` ``, separated by semicolons.
const TABLES_OF_TESTS: [&str; 2] = [".github/SECURITY.md", "docs/how-it-works/guarantees.md"];

#[test]
fn each_promise_names_a_test_that_exists() {
    for document in TABLES_OF_TESTS {
        let text = fs::read_to_string(root().join(document)).unwrap();
        let tables: Vec<&str> = text.split(" | test |\n|---|---|\n").skip(1).collect();
        assert!(!tables.is_empty(), "{document} has no table of tests");
        for row in tables.iter().flat_map(|table| table.lines().take_while(|line| line.starts_with('|'))) {
            let tests = row.trim_end_matches([' ', '|']).rsplit_once(" | ").unwrap().1;
            for test in tests.split("; ") {
                let (file, name) = test.split_once(": ").unwrap();
                let [file, name] = [file, name].map(|text| text.trim_matches('`'));
                let source = fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
                assert!(source.contains(&format!("fn {name}(")), "{document}: {file} has no test {name}: {row}");
            }
        }
    }
}
