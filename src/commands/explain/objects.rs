//! The objects that an explanation needs: all manifests, one object of a cluster and the objects that policies look up,
//! or, to find a result by its id, all objects of a cluster.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use anyhow::Context as _;
use http::StatusCode;
use kube::Client;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::{
    sync::mpsc::{self, Receiver},
    task::JoinSet,
};

use crate::{
    cli::{
        explain::ExplainArgs,
        scope::{PartArgs, ScopeArgs},
    },
    cluster::{client::Clients, error::describe},
    judge::{
        depth,
        evaluate::{Job, with_inventory},
        inventory::Inventory,
        policy::Policy,
        reads::lookups::{KindLookup, LookupState, ReadState},
        set::PolicySet,
    },
    model::{
        object::{Kind, Object, ObjectKey},
        spelling::nearest,
    },
    rego::value,
    run::connect::connect,
    source::{
        change::Change,
        discovery::Served,
        informer::{Informer, ReadOptions},
        manifest,
        received::{Received, Secrets},
        selection::{KindPattern, Selection},
    },
};

/// How many changes are queued between a source and the list of objects.
const CHANGES: usize = 1_024;
/// How many names are listed to find the nearest one.
const NAMES: usize = 500;
/// The characters that are escaped in a segment of a path (RFC 3986, section 3.3), as far as names contain them.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// Objects, and the policies that can look them up.
pub(super) struct LoadedObjects {
    pub(super) all: Vec<Object>,
    /// What could not be read, with the reason.
    pub(super) unread: Vec<String>,
    /// The client of the cluster that they are from.
    pub(super) client: Option<Client>,
    policies: Arc<PolicySet>,
}

/// What a source read.
#[derive(Default)]
struct SourceContents {
    all: Vec<Object>,
    /// What could not be read, with the reason.
    unread: Vec<String>,
    /// The kinds whose objects could not be read, with the reason.
    unread_kinds: BTreeMap<Arc<Kind>, Arc<str>>,
}

/// One object by its name.
pub(super) struct Wanted<'a> {
    pub(super) kind: &'a KindPattern,
    pub(super) namespace: Option<&'a str>,
    pub(super) name: &'a str,
}

impl LoadedObjects {
    /// Returns the objects by uid.
    pub(super) fn by_uid(&self) -> HashMap<&str, &Object> {
        self.all.iter().map(|object| (&*object.uid, object)).collect()
    }

    /// Reads all manifests, or all objects of the cluster.
    ///
    /// # Errors
    /// When nothing can be read.
    pub(super) async fn all(options: &ExplainArgs, policies: &Arc<PolicySet>) -> anyhow::Result<Self> {
        let (changes, received) = mpsc::channel(CHANGES);
        let (selection, secrets) = (Selection::default(), options.manifests.secrets);
        let (mut helpers, mut client, mut kinds) = (JoinSet::new(), None, None);
        if options.manifests.filename.is_empty() {
            let (clients, served) = connect(&options.cluster, &everything()).await?;
            client = Some(clients.plain.clone());
            kinds = Some(served.kinds.iter().cloned().collect());
            helpers.spawn(Informer::new(clients, selection, ReadOptions::once(secrets), changes).run(served));
        } else {
            let mut files = manifest::files(&options.manifests.filename)?;
            manifest::download(&mut files).await?;
            helpers.spawn_blocking(move || drop(manifest::read(&files, &selection, secrets, false, &changes)));
        }
        let contents = SourceContents::collect(received).await;
        let is_of_files = kinds.is_none();
        let of_files = || contents.all.iter().map(|object| Arc::clone(&object.key.kind)).collect();
        let kinds: BTreeSet<Arc<Kind>> = kinds.unwrap_or_else(of_files);
        let lookups = LookupState { lacks_namespaces: is_of_files, ..contents.lookup_state(kinds) };
        Ok(Self::new(contents, lookups, client, policies))
    }

    /// Reads one object of a cluster and those that a policy looks up; of manifests, all objects.
    ///
    /// # Errors
    /// When nothing can be read, or there is no such object.
    pub(super) async fn of_one(
        options: &ExplainArgs,
        policies: &Arc<PolicySet>,
        policy: &Policy,
        wanted: &Wanted<'_>,
    ) -> anyhow::Result<Self> {
        if !options.manifests.filename.is_empty() {
            return Self::all(options, policies).await;
        }
        let scope = ScopeArgs { include: vec![wanted.kind.clone()], ..everything() };
        let (clients, served) = connect(&options.cluster, &scope).await?;
        let kind = served.kinds.iter().find(|kind| wanted.kind.matches(kind)).context("the kind is not served")?;
        let secrets = options.manifests.secrets;
        let namespace = kind.namespaced.then(|| wanted.namespace.unwrap_or_else(|| clients.namespace()).to_owned());
        let collection = ResourceCollection { clients: &clients, kind, namespace: namespace.as_deref() };
        let all = vec![collection.get(wanted.name, secrets).await?];
        let mut contents = SourceContents { all, ..SourceContents::default() };
        let mut lookups = LookupState::default();
        if let (true, Some(name)) = (policy.depends.namespace, &namespace)
            && let Some(kind) = served.kinds.iter().find(|kind| kind.is("", "Namespace"))
        {
            let namespaces = ResourceCollection { clients: &clients, kind, namespace: None };
            contents.all.push(namespaces.get(name, secrets).await?);
        }
        if policy.depends.inventory {
            let looked_up = served.kinds.iter().filter(|kind| policies.inventory_reads().touches(kind)).cloned();
            let kinds: Vec<Arc<Kind>> = looked_up.collect();
            let served = Served { kinds: kinds.clone(), ..Served::default() };
            let (changes, received) = mpsc::channel(CHANGES);
            let mut helpers = JoinSet::new();
            helpers.spawn(
                Informer::new(clients.clone(), Selection::default(), ReadOptions::once(secrets), changes).run(served),
            );
            let mut others = SourceContents::collect(received).await;
            lookups = others.lookup_state(kinds);
            others.all.retain(|other| contents.all.iter().all(|object| object.key != other.key));
            contents.all.append(&mut others.all);
            contents.unread = others.unread;
        }
        Ok(Self::new(contents, lookups, Some(clients.plain), policies))
    }

    fn new(contents: SourceContents, lookups: LookupState, client: Option<Client>, policies: &Arc<PolicySet>) -> Self {
        let SourceContents { all, unread, .. } = contents;
        let mut inventory = Inventory::default();
        inventory.set_lookups(Arc::new(lookups));
        for object in all.iter().filter(|object| policies.inventory_reads().touches(&object.key.as_placed())) {
            let value = object.body.json().ok().and_then(|json| depth::shallow(&json, value::from_json).ok());
            inventory.put(&object.key, value.map(|(value, _)| value).as_ref());
        }
        let policies = with_inventory(policies, &inventory);
        Self { all, unread, client, policies: Arc::new(policies) }
    }

    /// Finds an object; without a namespace, its name must be unique. Returns all copies, since manifests may define it
    /// several times.
    ///
    /// # Errors
    /// Names the nearest object if there is none, or all candidates if there are several.
    pub(super) fn find(&self, wanted: &Wanted<'_>) -> anyhow::Result<Vec<&Object>> {
        let Wanted { kind, namespace, name } = *wanted;
        let of_kind = || self.all.iter().filter(|object| kind.matches(&object.key.kind));
        let placed = |object: &&Object| namespace.is_none() || object.key.namespace.as_deref() == namespace;
        let found: Vec<&Object> = of_kind().filter(|object| *object.key.name == *name).filter(placed).collect();
        if found.is_empty() {
            return Err(self.not_found(wanted));
        }
        let kinds: BTreeSet<String> = found.iter().map(|object| full_kind(&object.key.kind)).collect();
        let names: BTreeSet<String> = found.iter().map(|object| object.key.path()).collect();
        if let Some(several) = [kinds, names].into_iter().find(|all| all.len() > 1) {
            anyhow::bail!("there are several: name one of {}", several.into_iter().collect::<Vec<_>>().join(", "));
        }
        Ok(found)
    }

    /// Returns all objects of the kind, namespace and name of this one, itself included.
    pub(super) fn copies(&self, object: &Object) -> Vec<&Object> {
        let name = |key: &ObjectKey| ObjectKey { copy: 0, ..key.clone() };
        self.all.iter().filter(|other| name(&other.key) == name(&object.key)).collect()
    }

    fn not_found(&self, wanted: &Wanted<'_>) -> anyhow::Error {
        let Wanted { kind, namespace, name } = *wanted;
        let wanted = namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
        let of_kind = self.all.iter().filter(|object| kind.matches(&object.key.kind));
        let names: Vec<String> = of_kind.map(|object| object.key.path()).collect();
        let last = names.iter().find(|known| known.rsplit('/').next() == Some(name)).map(String::as_str);
        let near = last.or_else(|| nearest(&wanted, names.iter().map(String::as_str)));
        let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        if names.is_empty() {
            let kinds = self.all.iter().map(|object| object.key.kind.kind.as_str());
            let near = nearest(&kind.to_string(), kinds);
            let near = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
            return anyhow::anyhow!("there is no object of the kind {kind}{near}");
        }
        anyhow::anyhow!("there is no {kind} {wanted}{near}")
    }

    /// Returns the evaluation job of an object.
    pub(super) fn job(&self, object: &Object) -> Job {
        let name = object.key.namespace.as_ref();
        let is_it = |other: &&Object| other.key.kind.is("", "Namespace") && Some(&other.key.name) == name;
        let namespace = self.all.iter().find(is_it).cloned();
        Job { object: object.clone(), previous: None, deleted: false, namespace, policies: Arc::clone(&self.policies) }
    }
}

/// Returns a kind with its group, as the command line takes it.
fn full_kind(kind: &Kind) -> String {
    format!("{}.{}", kind.kind, if kind.group.is_empty() { "core" } else { &kind.group })
}

/// Returns the scope of all objects.
fn everything() -> ScopeArgs {
    ScopeArgs {
        namespace: Vec::new(),
        all_namespaces: false,
        exclude_namespace: Vec::new(),
        selector: None,
        include: Vec::new(),
        exclude: Vec::new(),
        allow_missing: Vec::new(),
        part: PartArgs::WHOLE,
    }
}

impl SourceContents {
    /// Collects what a source reads, until it ends.
    async fn collect(mut received: Receiver<Change>) -> Self {
        let mut contents = Self::default();
        while let Some(change) = received.recv().await {
            match change {
                Change::Seen(_, object) => contents.all.push(object),
                Change::Skipped(_, name, why) => contents.unread.push(format!("{name}: {why}")),
                Change::Unreadable(scope, why) if !why.message.is_empty() => {
                    contents.unread.push(format!("{scope}: {}", why.message));
                    contents.unread_kinds.insert(scope.kind, format!("cannot be read: {}", why.message).into());
                }
                _ => {}
            }
        }
        contents
    }

    /// Returns the state of the objects of some kinds for lookups.
    fn lookup_state(&self, kinds: impl IntoIterator<Item = Arc<Kind>>) -> LookupState {
        let lookup = |kind: Arc<Kind>| {
            let unread = self.unread_kinds.get(&kind).map(|why| ReadState::Unread(Arc::clone(why)));
            let elsewhere = unread.unwrap_or(ReadState::Read);
            Arc::new(KindLookup { kind, namespaces: BTreeMap::new(), elsewhere, ranged: true })
        };
        LookupState { kinds: kinds.into_iter().map(lookup).collect(), ..LookupState::default() }
    }
}

/// The objects of one kind, in a namespace or the whole cluster.
struct ResourceCollection<'a> {
    clients: &'a Clients,
    kind: &'a Arc<Kind>,
    namespace: Option<&'a str>,
}

impl ResourceCollection<'_> {
    /// Reads one object.
    async fn get(&self, name: &str, secrets: Secrets) -> anyhow::Result<Object> {
        let path = format!("{}/{}", self.path(), utf8_percent_encode(name, ESCAPED));
        let text = match self.text(&path).await {
            Ok(text) => text,
            Err(kube::Error::Api(status)) if status.code == StatusCode::NOT_FOUND.as_u16() => {
                anyhow::bail!(self.missing(name).await)
            }
            Err(error) => anyhow::bail!("reading {} {}: {}", self.kind.kind, self.named(name), describe(&error)),
        };
        let object = Received::read(&text).into_object(self.kind, secrets, 0);
        object.map_err(|why| anyhow::anyhow!("{} {} cannot be read: {why}", self.kind.kind, self.named(name)))
    }

    /// Returns the error for an object that does not exist, with the nearest name.
    async fn missing(&self, name: &str) -> String {
        let listed = self.text(&format!("{}?limit={NAMES}", self.path())).await.unwrap_or_default();
        let listed: serde_json::Value = serde_json::from_str(&listed).unwrap_or_default();
        let names =
            listed["items"].as_array().into_iter().flatten().filter_map(|item| item["metadata"]["name"].as_str());
        let near = nearest(name, names).map_or(String::new(), |near| format!("; did you mean {}?", self.named(near)));
        format!("there is no {} {}{near}", self.kind.kind, self.named(name))
    }

    fn named(&self, name: &str) -> String {
        self.namespace.map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"))
    }

    fn path(&self) -> String {
        let Kind { group, version, plural, .. } = &**self.kind;
        let api = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let namespace = self
            .namespace
            .map_or(String::new(), |namespace| format!("/namespaces/{}", utf8_percent_encode(namespace, ESCAPED)));
        format!("{api}{namespace}/{plural}")
    }

    async fn text(&self, path: &str) -> kube::Result<String> {
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError)?;
        self.clients.plain.request_text(request).await
    }
}
