//! `kaudit policies`: lists the loaded policies and their problems.

use std::io::{self, Write as _};

use crate::{
    cli::policies::{ListFormat, PoliciesArgs},
    judge::load_options::LoadOptions,
    output::{ERROR_CODE, PolicyList, RenderOptions, policy_table, print, shown_lines},
    run::{policies, sources::PolicySources},
};

/// Runs `kaudit policies`: the list goes to standard output, problems to standard error. Returns the exit code.
///
/// # Errors
/// When a source outside of the file system cannot be read, or standard output cannot be written to.
pub async fn run(options: &PoliciesArgs) -> anyhow::Result<u8> {
    let PoliciesArgs { sources, reading, cluster, .. } = options;
    let sources = PolicySources::chosen(sources, reading, cluster, None, crate::output::note).await?.now();
    let load_options = LoadOptions { allow_refused: true, ..reading.load_options() };
    let list = match policies::load(&sources, &load_options).await? {
        Ok(policies) => PolicyList::new(&policies),
        Err(why) => PolicyList::failed(&why),
    };
    for problem in &list.problems {
        // If standard error is closed, the problem cannot be reported anywhere.
        let _closed = writeln!(io::stderr(), "{}", shown_lines(&problem.to_string()));
    }
    print(|out| match options.output {
        ListFormat::Text => policy_table::render(&list, &RenderOptions::for_stdout(options.color), out),
        ListFormat::Json => list.write_json(out),
    })?;
    Ok(if list.summary.refused > 0 { ERROR_CODE } else { 0 })
}
