use super::super::PolicySet;

/// Loads one module of a package `p`.
fn load(module: &str) -> PolicySet {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("p.rego"), format!("package p\n\n{module}")).unwrap();
    PolicySet::load(&[root.path().to_owned()]).unwrap_or_else(|why| panic!("{why}\n{module}"))
}

#[test]
fn shipped() {
    let root = std::path::PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("policies");
    let set = PolicySet::load(&[root]).unwrap();
    for policy in &set.policies {
        println!(
            "{} [{}] {:?}\n    {}",
            policy.name,
            policy.matches,
            policy.depends,
            policy.reads.paths().join("\n    ")
        );
    }
    for group in set.units.iter().flat_map(|unit| &unit.groups) {
        for kind in group.scopes.kinds() {
            println!("{kind}: {}", group.scopes.of(kind).unwrap().asked.len());
        }
        println!("{} {:?}", group.scopes.questions.len(), group.scopes.of("").unwrap().asked);
    }
    for kind in ["Pod", "Deployment", "Service", "ConfigMap"] {
        println!("{kind}: {}", set.reads.of(kind).projection);
    }
    let _ = load("deny if input.x");
}
