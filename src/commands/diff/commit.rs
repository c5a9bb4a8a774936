//! Reads the files of a commit with the installed `git`, without touching a work tree or fetching anything.

use std::{
    fs,
    io::{self, BufRead as _, BufReader, Read as _, Write as _},
    path::{Component, Path, PathBuf},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use anyhow::{Context as _, bail};

use crate::{
    judge::{
        files::is_read,
        sources::{FileTree, TreeFile},
    },
    model::spelling::nearest,
};

/// How deep links to directories may be nested; deeper ones are a loop.
const DEEPEST: usize = 8;
/// How many entries of linked directories are read at most: a few nested links can multiply files without limit.
const LINKED: usize = 5_000;

/// The path of files in a commit.
pub(super) enum CommitPath {
    /// From the top of the repository, or with `./` from the current directory, as after a revision in git.
    Named(String),
    /// The same place in the repository as this path of the file system.
    Here(PathBuf),
}

/// Reads all files of policies below a path in a commit. Blocks.
///
/// # Errors
/// If git, the repository, the commit or the path does not exist.
pub(super) fn read(revision: &str, place: &CommitPath) -> anyhow::Result<FileTree> {
    if revision.is_empty() || revision.starts_with('-') {
        bail!("git:{revision} has no valid revision: write for example git:main or git:main:policies");
    }
    let commit = git(&["rev-parse", "--verify", "--quiet", &format!("{revision}^{{commit}}")])?;
    let Some(commit) = commit else { bail!(unknown(revision)) };
    let path = place.in_repository()?;
    let name = format!("git:{revision}:{path}");
    let mut reader = CommitReader { objects: GitCatFile::open()?, commit, files: Vec::new(), linked: 0 };
    match reader.objects.get(&format!("{}:{path}", reader.commit))? {
        GitObject::Blob(content) => reader.files.push(TreeFile { path: Vec::new(), content: Ok(content) }),
        GitObject::Tree(tree) => reader.tree(&tree, &path, &[], 0)?,
        GitObject::Else(_) => {
            bail!("{name}: no such file or directory in that commit\n  help: name it as in git:{revision}:PATH")
        }
    }
    Ok(FileTree { name: name.trim_end_matches(['/', ':']).into(), files: reader.files })
}

impl CommitPath {
    /// Returns the path from the top of the repository; empty is the top.
    fn in_repository(&self) -> anyhow::Result<String> {
        let rev_parse = |what: &str| Ok::<_, anyhow::Error>(git(&["rev-parse", what])?.unwrap_or_default());
        let path = match self {
            Self::Named(path) if !path.starts_with("./") && !path.starts_with("../") => PathBuf::from(path),
            Self::Named(path) => Path::new(&rev_parse("--show-prefix")?).join(path),
            Self::Here(path) if path.is_absolute() => {
                let (top, real) =
                    (rev_parse("--show-toplevel")?, fs::canonicalize(path).unwrap_or_else(|_| path.clone()));
                let below = real.strip_prefix(&top).map(Path::to_owned);
                below.with_context(|| format!("{} is not in the repository {top}", path.display()))?
            }
            Self::Here(path) => Path::new(&rev_parse("--show-prefix")?).join(path),
        };
        let mut parts: Vec<&str> = Vec::new();
        for part in path.components() {
            match part {
                Component::Normal(name) => parts.push(name.to_str().context("the path after git:… must be UTF-8")?),
                Component::ParentDir if parts.pop().is_none() => {
                    bail!("{} is outside of the repository", path.display())
                }
                _ => {}
            }
        }
        Ok(parts.join("/"))
    }
}

/// Returns the error for a revision that does not exist.
fn unknown(revision: &str) -> String {
    let names = git(&["for-each-ref", "--format=%(refname:short)"]).ok().flatten().unwrap_or_default();
    let ending = format!("/{revision}");
    let near = names.lines().find(|name| name.ends_with(&ending)).or_else(|| nearest(revision, names.lines()));
    let near = near.map_or(String::new(), |near| format!("; did you mean git:{near}?"));
    format!(
        "git:{revision}: no such commit{near}\n  help: in a shallow clone, fetch it first: git fetch origin {revision}"
    )
}

/// Collects files of a commit.
struct CommitReader {
    objects: GitCatFile,
    commit: String,
    files: Vec<TreeFile>,
    /// How many entries of linked directories were read.
    linked: usize,
}

impl CommitReader {
    /// Collects the files of a tree at `path` in the commit; `above` are the directories that their names begin with.
    fn tree(&mut self, tree: &str, path: &str, above: &[String], depth: usize) -> anyhow::Result<()> {
        let listed = git(&["ls-tree", "-r", "-z", "--full-tree", tree])?.unwrap_or_default();
        for entry in listed.split('\0').filter(|entry| !entry.is_empty()) {
            self.linked += usize::from(depth > 0);
            let (head, below) = entry.split_once('\t').context("unexpected output of git ls-tree")?;
            let (mode, object) =
                (head.split(' ').next().unwrap_or_default(), head.rsplit(' ').next().unwrap_or_default());
            let names: Vec<String> = above.iter().cloned().chain(below.split('/').map(str::to_owned)).collect();
            let from_the_top = if path.is_empty() { below.to_owned() } else { format!("{path}/{below}") };
            match mode {
                "120000" => self.link(&from_the_top, names, depth)?,
                "160000" if !names.iter().any(|name| name.starts_with('.')) => {
                    self.unread(names, "is a submodule, whose files are not in this repository".to_owned());
                }
                _ if is_read(&names) => match self.objects.get(object)? {
                    GitObject::Blob(content) => self.files.push(TreeFile { path: names, content: Ok(content) }),
                    GitObject::Tree(_) => {}
                    GitObject::Else(why) => self.unread(names, why),
                },
                _ => {}
            }
        }
        Ok(())
    }

    /// Follows a link, to a file or a directory of the commit.
    fn link(&mut self, path: &str, names: Vec<String>, depth: usize) -> anyhow::Result<()> {
        let hidden = names.iter().any(|name| name.starts_with('.'));
        if hidden || path.contains('\n') {
            return Ok(());
        }
        match self.objects.get(&format!("{}:{path}", self.commit))? {
            GitObject::Blob(content) if is_read(&names) => {
                self.files.push(TreeFile { path: names, content: Ok(content) });
            }
            GitObject::Tree(_) if depth >= DEEPEST => {
                self.unread(names, "links to directories are nested too deep".to_owned());
            }
            GitObject::Tree(_) if self.linked > LINKED => bail!(
                "{path}: links lead to more than {LINKED} files and directories\n  help: give the target directories of the links"
            ),
            GitObject::Tree(tree) => self.tree(&tree, path, &names, depth + 1)?,
            GitObject::Else(why) if is_read(&names) => self.unread(names, why),
            GitObject::Blob(_) | GitObject::Else(_) => {}
        }
        Ok(())
    }

    fn unread(&mut self, path: Vec<String>, why: String) {
        self.files.push(TreeFile { path, content: Err(why) });
    }
}

/// The object of a name.
enum GitObject {
    Blob(Vec<u8>),
    /// The id of a tree.
    Tree(String),
    /// Neither a file nor a directory, with the reason.
    Else(String),
}

/// A running `git cat-file`, which returns an object for each name. It ends with its input.
struct GitCatFile {
    names: ChildStdin,
    contents: BufReader<ChildStdout>,
    process: Child,
}

impl GitCatFile {
    fn open() -> anyhow::Result<Self> {
        let mut command = command(&["cat-file", "--batch", "--follow-symlinks"]);
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = command.spawn().map_err(|why| not_run(&why))?;
        let (Some(names), Some(contents)) = (process.stdin.take(), process.stdout.take()) else {
            bail!("git cat-file has no standard input or output");
        };
        Ok(Self { names, contents: BufReader::new(contents), process })
    }

    /// Reads an object by its id or as `COMMIT:PATH`; links in such a path are followed.
    fn get(&mut self, name: &str) -> anyhow::Result<GitObject> {
        self.request(name).context("reading from git cat-file")
    }

    fn request(&mut self, name: &str) -> io::Result<GitObject> {
        writeln!(self.names, "{name}")?;
        self.names.flush()?;
        let mut head = String::new();
        self.contents.read_line(&mut head)?;
        let head = head.trim_end();
        if head.ends_with(" missing") || head.ends_with(" ambiguous") {
            return Ok(GitObject::Else("is not in the commit".to_owned()));
        }
        let size = head.rsplit(' ').next().and_then(|size| size.parse::<u64>().ok());
        let size = size.ok_or_else(|| io::Error::other(format!("unexpected output {head:?}")))?;
        let mut content = Vec::new();
        // A line break follows the content.
        (&mut self.contents).take(size + 1).read_to_end(&mut content)?;
        content.pop();
        let mut words = head.split(' ');
        Ok(match (words.next().unwrap_or_default(), words.next().unwrap_or_default()) {
            (_, "blob") => GitObject::Blob(content),
            (id, "tree") => GitObject::Tree(id.to_owned()),
            ("symlink", _) => GitObject::Else(format!(
                "is a link to {}, which is not in the commit",
                String::from_utf8_lossy(&content)
            )),
            (what, _) => GitObject::Else(format!("is a dangling link ({what})")),
        })
    }
}

impl Drop for GitCatFile {
    fn drop(&mut self) {
        // The process waits for the next name, and none will come.
        let _ended = self.process.kill().and_then(|()| self.process.wait());
    }
}

/// Runs git; returns its output, or `None` if it fails without a message.
///
/// # Errors
/// With git's own message.
fn git(arguments: &[&str]) -> anyhow::Result<Option<String>> {
    let output = command(arguments).stdin(Stdio::null()).output().map_err(|why| not_run(&why))?;
    if output.status.success() {
        return Ok(Some(String::from_utf8_lossy(&output.stdout).trim_end_matches('\n').to_owned()));
    }
    let words = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if words.is_empty() { Ok(None) } else { bail!("git {}: {words}", arguments[0]) }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new("git");
    // Neither prompt nor use the network: only local objects are read.
    command.args(arguments).envs([
        ("LC_ALL", "C"),
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_NO_LAZY_FETCH", "1"),
        ("GIT_ALLOW_PROTOCOL", "none"),
    ]);
    command
}

fn not_run(why: &io::Error) -> anyhow::Error {
    match why.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!("git: sources need the git program, which is not in PATH"),
        _ => anyhow::anyhow!("running git: {why}"),
    }
}
