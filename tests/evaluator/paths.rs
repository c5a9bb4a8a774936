//! Policy paths: directories, single files, links, and change detection.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use kaudit::judge::{files::fingerprint, load_options::LoadOptions, set::PolicySet};
use kaudit_test_support::files::folder;

const DENY: &str = "package main\n\ndeny contains \"x\"\n";

fn rules(paths: &[&Path]) -> Result<usize, String> {
    let paths: Vec<PathBuf> = paths.iter().map(|path| path.to_path_buf()).collect();
    PolicySet::load(&paths).map(|set| set.rules()).map_err(|why| why.to_string())
}

#[test]
fn a_path_may_be_a_file_and_given_twice() {
    let root = folder(&[("a.rego", DENY), ("sub/b.rego", "package b\n\nwarn contains \"x\"\n")]);
    assert_eq!(rules(&[&root.path().join("a.rego")]), Ok(1));
    assert_eq!(rules(&[root.path(), &root.path().join("sub"), &root.path().join("a.rego")]), Ok(2));
}

#[test]
fn missing_paths_and_unknown_files_are_errors() {
    let root = folder(&[("a.rego", DENY), ("a.txt", "x")]);
    let why = rules(&[root.path(), &root.path().join("nope")]).unwrap_err();
    assert!(why.contains("nope: no such file or directory") && why.contains("help: use a directory"), "{why}");
    let why = rules(&[&root.path().join("a.txt")]).unwrap_err();
    assert!(why.contains("the file name has no extension of a policy or data file"), "{why}");
    assert_eq!(rules(&[root.path()]), Ok(1), "other files in a directory are ignored");
}

#[test]
fn too_large_and_binary_files_are_errors() {
    let root = folder(&[("a.rego", DENY), ("large.json", &" ".repeat(2 << 20))]);
    fs::write(root.path().join("b.rego"), b"package b\n# \xff\xfe").unwrap();
    let why = rules(&[root.path()]).unwrap_err();
    assert!(why.contains("large.json: has 2097152 bytes; the limit for a policy or data file is 1048576"), "{why}");
    assert!(why.contains("b.rego: is not UTF-8 text (byte 12)"), "{why}");
}

#[test]
fn hidden_files_are_skipped_and_the_digest_covers_names_and_contents() {
    let digest = |files: &[(&str, &str)]| {
        let root = folder(files);
        PolicySet::load(&[root.path().to_owned()]).unwrap().digest
    };
    let one = digest(&[("a.rego", DENY)]);
    assert_eq!(one, digest(&[("a.rego", DENY), (".hidden.rego", "nonsense"), (".git/b.rego", "nonsense")]));
    assert_eq!(one, digest(&[("a.rego", DENY), ("a_test.rego", "nonsense")]));
    assert_ne!(one, digest(&[("b.rego", DENY)]));
    assert_ne!(one, digest(&[("a.rego", &format!("{DENY}# more"))]));
    assert_ne!(one, digest(&[("a.rego", DENY), ("data.yaml", "a: 1")]));
}

/// Creates a directory like a mounted `ConfigMap`: `a.rego → ..data/a.rego`, `..data → ..2024_…`.
#[cfg(unix)]
fn config_map(root: &Path, version: &str, text: &str) {
    use std::os::unix::fs::symlink;
    fs::create_dir(root.join(version)).unwrap();
    fs::write(root.join(version).join("a.rego"), text).unwrap();
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    fs::File::open(root.join(version).join("a.rego")).unwrap().set_modified(time).unwrap();
    symlink(version, root.join("..new")).unwrap();
    fs::rename(root.join("..new"), root.join("..data")).unwrap();
    if !root.join("a.rego").exists() {
        symlink("..data/a.rego", root.join("a.rego")).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn a_mounted_config_map_is_a_directory_and_its_swap_is_a_change() {
    let root = tempfile::tempdir().unwrap();
    let paths = [root.path().to_owned()];
    config_map(root.path(), "..2024_01_01", DENY);
    let (before, first) = (fingerprint(&paths), PolicySet::load(&paths).unwrap());
    assert_eq!(first.rules(), 1);
    assert_eq!(before, fingerprint(&paths));
    // Equal size and time; only the link differs.
    config_map(root.path(), "..2024_01_02", &DENY.replace('x', "y"));
    assert_ne!(before, fingerprint(&paths));
    assert_ne!(first.digest, PolicySet::load(&paths).unwrap().digest);
}

#[cfg(unix)]
#[test]
fn circular_links_terminate() {
    let root = folder(&[("sub/a.rego", DENY)]);
    std::os::unix::fs::symlink(root.path(), root.path().join("sub/back")).unwrap();
    let why = rules(&[root.path()]).unwrap_err();
    assert!(why.contains("sub/back: cannot be read: the link leads back to a directory above it"), "{why}");
    fingerprint(&[root.path().to_owned()]);
}

#[test]
fn edits_additions_and_deletions_change_the_fingerprint() {
    let root = folder(&[("a.rego", DENY), ("sub/data.yaml", "a: 1")]);
    let paths = [root.path().to_owned()];
    let mut seen = vec![fingerprint(&paths)];
    let mut changed = |subject: &str| {
        let now = fingerprint(&paths);
        assert!(!seen.contains(&now), "{subject}");
        assert_eq!(now, fingerprint(&paths), "{subject}: the same again");
        seen.push(now);
    };
    fs::write(root.path().join("a.rego"), format!("{DENY}# longer")).unwrap();
    changed("an edit");
    let time = SystemTime::now() + Duration::from_secs(5);
    fs::File::options().write(true).open(root.path().join("a.rego")).unwrap().set_modified(time).unwrap();
    changed("another time");
    fs::write(root.path().join("sub/b.rego"), "").unwrap();
    changed("an addition");
    fs::rename(root.path().join("sub/b.rego"), root.path().join("sub/c.rego")).unwrap();
    changed("another name");
    fs::remove_file(root.path().join("sub/c.rego")).unwrap();
    fs::remove_file(root.path().join("sub/data.yaml")).unwrap();
    changed("a deletion");
    fs::remove_dir_all(root.path()).unwrap();
    changed("no directory at all");
}

#[test]
fn a_set_replaces_another_unless_a_valid_file_becomes_invalid() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(root.path().join(name), text).unwrap();
    let load = || PolicySet::load_with(&[root.path().to_owned()], &LoadOptions::allowing_refused()).unwrap();
    write("a.rego", "package a\n\ndeny contains 1\n");
    write("b.rego", "package b\n\ndeny contains\n");
    let first = load();
    assert!(first.is_partial() && first.refused_files().len() == 1);
    // A file that was already refused may stay refused.
    write("a.rego", "package a\n\ndeny contains 2\n");
    assert!(load().after(&first).is_ok());
    write("c.rego", "package c\n\ndeny contains 3\n");
    write("a.rego", "package a\n\ndeny contains\n");
    let why = load().after(&first).unwrap_err().to_string();
    assert!(why.contains("a.rego:4:1: "), "{why}");
    write("a.rego", "package a\n\ndeny contains 1\n");
    write("b.rego", "package b\n\ndeny contains 1\n");
    let whole = load().after(&first).unwrap();
    assert!(!whole.is_partial());
    // A new refused file does not prevent others from being added.
    write("d.rego", "package d\n\ndeny contains\n");
    write("e.rego", "package e\n\ndeny contains 5\n");
    let joined = load().after(&whole).unwrap();
    assert_eq!((joined.policies.len(), joined.refused_files().len()), (whole.policies.len() + 1, 1));
}
