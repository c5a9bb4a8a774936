//! The input files of kaudit: policies, and exceptions of the operators.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::PathBuf,
};

use crate::{
    excuses::{EXCEPTION_FILES, Excuse},
    policies::Policy,
};

/// The directory of policies, in the working directory of kaudit.
pub const POLICIES: &str = "policies";

/// The files in a working directory.
#[derive(Debug)]
pub struct PolicyFiles {
    folder: PathBuf,
    /// All policies, by number.
    pub policies: BTreeMap<u8, Policy>,
    /// The numbers of currently invalid policies.
    broken: BTreeSet<u8>,
    /// The current exceptions.
    pub excused: BTreeSet<Excuse>,
}

impl PolicyFiles {
    /// Creates the directories, without policies or exceptions.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn new(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir(folder.join(POLICIES))?;
        fs::create_dir(folder.join(EXCEPTION_FILES))?;
        // A directory without any file would be a mistake.
        fs::write(folder.join(EXCEPTION_FILES).join("none.yaml"), "# none")?;
        Ok(Self { folder, policies: BTreeMap::new(), broken: BTreeSet::new(), excused: BTreeSet::new() })
    }

    /// Writes a policy; returns the policy with another name that it replaces.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn set(&mut self, policy: &Policy) -> io::Result<Option<Policy>> {
        let is_other = self.policies.get(&policy.number).is_some_and(|old| old.name() != policy.name());
        let old = if is_other { self.remove(policy.number)? } else { None };
        self.policies.insert(policy.number, *policy);
        self.broken.remove(&policy.number);
        self.write_policy(policy)?;
        Ok(old)
    }

    /// Makes the policy with this number invalid, if it exists; returns it.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn break_policy(&mut self, number: u8) -> io::Result<Option<Policy>> {
        let Some(policy) = self.policies.get(&number) else { return Ok(None) };
        let broken = Policy { is_broken: true, ..*policy };
        self.broken.insert(number);
        self.write_policy(&broken)?;
        Ok(Some(broken))
    }

    /// Restores the invalid policies; returns them.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn repair(&mut self) -> io::Result<Vec<Policy>> {
        let broken = std::mem::take(&mut self.broken);
        let repaired: Vec<Policy> = broken.iter().filter_map(|number| self.policies.get(number)).copied().collect();
        repaired.iter().try_for_each(|policy| self.write_policy(policy))?;
        Ok(repaired)
    }

    fn write_policy(&self, policy: &Policy) -> io::Result<()> {
        for (name, text) in policy.files() {
            self.write(&format!("{POLICIES}/{name}"), &text)?;
        }
        Ok(())
    }

    /// Removes a policy and its exceptions, if it exists; returns it.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn remove(&mut self, number: u8) -> io::Result<Option<Policy>> {
        let Some(policy) = self.policies.remove(&number) else { return Ok(None) };
        let excused: Vec<Excuse> = self.excused.iter().filter(|one| one.policy == policy.name()).cloned().collect();
        for excuse in excused {
            self.end_excuse(&excuse)?;
        }
        for (name, _) in policy.files() {
            fs::remove_file(self.folder.join(POLICIES).join(name))?;
        }
        Ok(Some(policy))
    }

    /// Writes an exception, if its policy exists: an exception for an unknown policy would be invalid.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn excuse(&mut self, excuse: &Excuse) -> io::Result<()> {
        if self.policies.values().any(|policy| policy.name() == excuse.policy) {
            self.excused.retain(|known| known.file() != excuse.file());
            self.excused.insert(excuse.clone());
            self.write(&excuse.file(), &excuse.exception().to_string())?;
        }
        Ok(())
    }

    /// Removes an exception, if it exists.
    ///
    /// # Errors
    ///
    /// If writing fails.
    pub fn end_excuse(&mut self, excuse: &Excuse) -> io::Result<()> {
        let before = self.excused.len();
        self.excused.retain(|known| known.file() != excuse.file());
        if self.excused.len() < before { fs::remove_file(self.folder.join(excuse.file())) } else { Ok(()) }
    }

    /// Writes a file atomically.
    fn write(&self, path: &str, text: &str) -> io::Result<()> {
        let (new, path) = (self.folder.join("new"), self.folder.join(path));
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        fs::write(&new, text)?;
        fs::rename(new, path)
    }
}
