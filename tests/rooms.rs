//! The directions of imports: `src/lib.rs` lists the rooms from the ground up, and each may use only those above it in
//! that list. Within a crate no two files may need each other.

#![expect(clippy::unwrap_used, reason = "a test says what failed")]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

/// The sources of kaudit.
const KAUDIT: &str = "src";
/// The sources of the evaluator, a separate crate that is a room of kaudit.
const REGO: &str = "src/rego/src";

/// One source file of a crate, without its tests.
struct File {
    path: String,
    /// Its module: `["audit", "pipeline"]` for `src/audit/pipeline.rs`.
    module: Vec<String>,
    text: String,
}

/// A path that a file names, resolved from the root of the crate.
struct Import {
    line: usize,
    path: Vec<String>,
}

/// Returns the files of the crate with its sources in `sources`.
fn files(sources: &str) -> Vec<File> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut open = vec![root.join(sources)];
    let mut files = Vec::new();
    while let Some(folder) = open.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.extend((!path.join("Cargo.toml").exists()).then_some(path));
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.extend(file(sources, path.strip_prefix(root).unwrap()));
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    files
}

/// Reads a file; `None` for test files, and for the binary and the crate root, which may use everything.
fn file(sources: &str, path: &Path) -> Option<File> {
    let below = path.strip_prefix(sources).unwrap().with_extension("");
    let module: Vec<String> = below.iter().map(|part| part.to_str().unwrap().into()).collect();
    let name = module.last()?;
    if module.len() == 1 && (name == "main" || name == "lib") || is_test(path) {
        return None;
    }
    assert_ne!(name, "mod", "{}: a module's file stands beside its folder: {}.rs", path.display(), module.join("/"));
    let text = without_comments(&fs::read_to_string(path).unwrap());
    Some(File { path: format!("{sources}/{}.rs", module.join("/")), module, text: without_tests(&text) })
}

/// Whether a file is the module of a `#[cfg(test)] mod …;`, or below one.
fn is_test(path: &Path) -> bool {
    path.ancestors().take_while(|above| above.file_name().is_some_and(|name| name != "src")).any(|above| {
        let (name, parent) = (above.file_stem().unwrap().to_str().unwrap(), above.parent().unwrap());
        let declared = fs::read_to_string(parent.with_extension("rs")).unwrap_or_default();
        declared.contains(&format!("#[cfg(test)]\nmod {name};"))
    })
}

/// Blanks comments, and keeps every line where it is.
fn without_comments(text: &str) -> String {
    let code = |line: &str| {
        let trimmed = line.trim_start();
        if trimmed.starts_with("//") { String::new() } else { line.split(" // ").next().unwrap_or_default().to_owned() }
    };
    text.lines().map(code).collect::<Vec<_>>().join("\n")
}

/// Blanks everything from `#[cfg(test)]` to the end of the following item.
fn without_tests(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut index = 0;
    while index < lines.len() {
        if lines[index].trim() == "#[cfg(test)]" {
            let indent = lines[index].len() - lines[index].trim_start().len();
            let closes =
                |line: &str| line.len() - line.trim_start().len() == indent && (line.trim_end().ends_with([';', '}']));
            loop {
                let line = std::mem::take(&mut lines[index]);
                if closes(line) && line.trim() != "#[cfg(test)]" {
                    break;
                }
                index += 1;
            }
        }
        index += 1;
    }
    lines.join("\n")
}

/// Returns every path that begins with `crate`, `self` or `super`, in `use` and elsewhere.
fn imports(file: &File) -> Vec<Import> {
    let mut found = Vec::new();
    let mut rest = 0;
    while let Some(at) = next_path(&file.text, rest) {
        let before = &file.text[..at];
        let line = before.matches('\n').count() + 1;
        let is_use = before.trim_end().ends_with("use");
        let text = &file.text[at..];
        let end = if is_use {
            text.find(';').unwrap_or(text.len())
        } else {
            text.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':').unwrap_or(text.len())
        };
        for path in expand(&text[..end]) {
            found.extend(resolve(&file.module, &path).map(|path| Import { line, path }));
        }
        rest = at + end;
    }
    found
}

/// Finds the start of the next path of this crate.
fn next_path(text: &str, from: usize) -> Option<usize> {
    let begins = ["crate::", "super::", "self::"].into_iter().filter_map(|word| {
        text[from..]
            .match_indices(word)
            .map(|(index, _)| from + index)
            .find(|index| !text[..*index].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '"'))
    });
    begins.min()
}

/// Expands `a::{b, c::{self, d}}` to `a::b`, `a::c` and `a::c::d`.
fn expand(tree: &str) -> Vec<Vec<String>> {
    let Some((prefix, inner)) = tree.split_once('{') else {
        let path = tree.split(" as ").next().unwrap_or_default();
        return vec![path.split("::").map(|part| part.trim().to_owned()).filter(|part| !part.is_empty()).collect()];
    };
    let inner = inner.trim_end().strip_suffix('}').unwrap_or(inner);
    let mut depth = 0;
    let parts = inner.split(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        c == ',' && depth == 0
    });
    let prefix = expand(prefix).remove(0);
    let parts = parts.filter(|part| !part.trim().is_empty()).flat_map(expand);
    parts.map(|part| prefix.iter().chain(part.iter().filter(|part| *part != "self")).cloned().collect()).collect()
}

/// Returns the absolute path in the crate; `None` for methods of `Self` and similar paths.
fn resolve(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let (first, rest) = path.split_first()?;
    if first == "crate" {
        return Some(rest.to_vec());
    }
    let above = path.iter().take_while(|part| *part == "super").count();
    let own = module.get(..module.len().checked_sub(above)?)?;
    Some(own.iter().chain(&path[above.max(1)..]).cloned().collect())
}

/// Returns the file that a path refers to.
fn target<'f>(modules: &BTreeMap<&[String], &'f File>, path: &[String]) -> Option<&'f File> {
    (1..=path.len()).rev().find_map(|length| modules.get(&path[..length]).copied())
}

/// Returns the rooms in the order of `lib.rs`: its modules, and the crates that it re-exports as modules.
fn rooms() -> Vec<String> {
    let lib = fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs")).unwrap();
    let name = |line: &str| {
        let module =
            line.strip_prefix("pub mod ").or_else(|| Some(line.strip_prefix("pub use ")?.split_once(" as ")?.1));
        Some(module?.strip_suffix(';')?.to_owned())
    };
    lib.lines().filter_map(name).collect()
}

#[test]
fn rooms_use_only_earlier_rooms() {
    let rooms = rooms();
    let floor = |room: &String| rooms.iter().position(|known| known == room);
    let mut wrong = Vec::new();
    for file in files(KAUDIT) {
        let own = floor(&file.module[0]).unwrap_or_else(|| panic!("{} is of no room that lib.rs lists", file.path));
        for Import { line, path } in imports(&file) {
            if let Some(other) = path.first().and_then(floor)
                && other > own
            {
                wrong.push(format!("{}:{line}: {} may not use {}", file.path, file.module[0], path.join("::")));
            }
        }
    }
    assert!(wrong.is_empty(), "imports upwards (the order is that of src/lib.rs):\n{}", wrong.join("\n"));
}

/// The dependencies, each with an import that causes it.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the dependencies between files.
fn uses_of_files(files: &[File]) -> Uses {
    uses(files, |file, other| Some([file, other].map(|file| file.path.clone())))
}

/// Returns the dependencies between sibling folders and files, at every level.
fn uses_of_folders(files: &[File]) -> Uses {
    uses(files, |file, other| {
        let same = file.module.iter().zip(&other.module).take_while(|(own, other)| own == other).count();
        let beside = |file: &File| Some(file.module.get(..=same)?.join("/"));
        Some([beside(file)?, beside(other)?])
    })
}

fn uses(files: &[File], names: impl Fn(&File, &File) -> Option<[String; 2]>) -> Uses {
    let modules: BTreeMap<&[String], &File> = files.iter().map(|file| (file.module.as_slice(), file)).collect();
    let mut uses = Uses::new();
    for file in files {
        for Import { line, path } in imports(file) {
            let Some(other) = target(&modules, &path).filter(|other| other.path != file.path) else { continue };
            if let Some([own, other]) = names(file, other) {
                let shown = format!("  {}:{line} uses {}", file.path, path.join("::"));
                uses.entry(own).or_default().entry(other).or_insert(shown);
            }
        }
    }
    uses
}

#[test]
fn files_and_folders_have_no_circular_dependencies() {
    for files in [KAUDIT, REGO].map(files) {
        assert_no_circles(&uses_of_files(&files));
        assert_no_circles(&uses_of_folders(&files));
    }
}

fn assert_no_circles(uses: &Uses) {
    let mut circles: BTreeMap<BTreeSet<&str>, Vec<&str>> = BTreeMap::new();
    for (one, others) in uses {
        for (other, shown) in others.iter().filter(|(other, _)| reached(uses, other).contains(&**one)) {
            let circle = reached(uses, one).into_iter().filter(|member| reached(uses, member).contains(&**other));
            circles.entry(circle.collect()).or_default().push(shown);
        }
    }
    let shown: Vec<String> = circles.values().map(|arrows| arrows.join("\n")).collect();
    assert!(shown.is_empty(), "these need each other:\n{}", shown.join("\n\n"));
}

/// Returns the direct and indirect dependencies of a file or folder.
fn reached<'f>(uses: &'f Uses, from: &str) -> BTreeSet<&'f str> {
    let mut open = vec![from];
    let mut reached = BTreeSet::new();
    while let Some(from) = open.pop() {
        for other in uses.get(from).into_iter().flat_map(BTreeMap::keys) {
            if reached.insert(&**other) {
                open.push(other);
            }
        }
    }
    reached
}
