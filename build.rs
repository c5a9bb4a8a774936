//! Lists the files of the policy library, so that adding one needs no other change.
//!
//! In: `policies/`, without tests, README and hidden files. Out: `library.rs`, an array of `BuiltinFile`s sorted by path, which
//! `src/judge/builtin.rs` includes.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs,
    path::{Path, PathBuf},
};

fn main() -> Result<(), Box<dyn Error>> {
    let root = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("policies");
    // Cargo compares the times of all files and folders below.
    println!("cargo:rerun-if-changed=policies");
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=KAUDIT_DOCUMENTATION");
    let mut paths = Vec::new();
    find(&root, "", &mut paths)?;
    paths.sort();
    let mut list = format!("static FILES: [BuiltinFile; {}] = [\n", paths.len());
    for path in paths {
        let text = format!("include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), {:?}))", format!("/policies/{path}"));
        writeln!(list, "    BuiltinFile {{ path: {path:?}, text: {text} }},")?;
    }
    list.push_str("];\n");
    fs::write(Path::new(&env::var("OUT_DIR")?).join("library.rs"), list)?;
    Ok(())
}

/// Adds the files below a folder, by path relative to the library, with `/` on every system.
fn find(folder: &Path, prefix: &str, paths: &mut Vec<String>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().into_string().map_err(|name| format!("{} is not UTF-8", name.display()))?;
        let path = format!("{prefix}{name}");
        if entry.file_type()?.is_dir() {
            find(&entry.path(), &format!("{path}/"), paths)?;
        } else if !name.starts_with('.') && name != "README.md" && !name.ends_with("_test.rego") {
            paths.push(path);
        }
    }
    Ok(())
}
