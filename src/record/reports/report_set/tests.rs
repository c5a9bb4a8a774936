use std::collections::BTreeSet;

use jiff::Timestamp;
use kube::api::DynamicObject;
use proptest::prelude::*;

use super::*;
use crate::{
    model::{
        exception::Excuse,
        verdict::{Finding, Outcome, RuleDescriptor, RuleInfo, Severity},
    },
    record::reports::{
        format::{Instance, read},
        load::FoundReports,
    },
};

fn format(layout: Layout) -> ReportFormat {
    ReportFormat { layout, instance: Instance::new("audit", "kaudit"), dated: true }
}

fn subject(number: u8) -> ObjectRef {
    ObjectRef {
        cluster: None,
        api_version: "apps/v1".into(),
        kind: "Deployment".into(),
        namespace: Some("shop".into()),
        name: format!("web-{number}").into(),
        uid: format!("00000000-0000-0000-0000-0000000000{number:02}").into(),
    }
}

/// Results that are so large that few fill a report.
fn results(object: &ObjectRef, number: u8, size: usize) -> Vec<Violation> {
    let result = |number| {
        let info = RuleInfo {
            title: Some("Tag latest or none".into()),
            id: Some("IMG-01".into()),
            category: Some("Images".into()),
        };
        let mut finding = Finding {
            rule: Arc::new(RuleDescriptor { info: info.into(), ..RuleDescriptor::named("image", "deny") }),
            outcome: if number % 3 == 0 { Outcome::Warn } else { Outcome::Fail },
            severity: Some(Severity::High),
            message: format!("{number} {}", "x".repeat(size)).into(),
            details: None,
            excused: None,
        };
        // Its outcome without the exception is `Fail`, which is assumed when a report is read.
        if number % 12 == 1 {
            finding.excuse(&Arc::new(excuse("2027-01-01T00:00:00Z", "ticket A-1")));
        }
        let since = Timestamp::new(1_700_000_000 + i64::from(number), 123_456_789).unwrap();
        Violation::new(object, finding, since)
    };
    (0..number).map(result).collect()
}

fn excuse(end: &str, reason: &str) -> Excuse {
    Excuse { by: "shop/legacy".into(), reason: reason.into(), expires: Some(end.parse().unwrap()) }
}

/// What the API server has, by name.
#[derive(Default, Clone)]
struct Server(BTreeMap<String, Value>);

impl Server {
    /// Executes plans until the server is up to date or there were this many requests; returns how many there were.
    fn update(&mut self, set: &mut ReportSet, requests: usize) -> usize {
        let mut left = requests;
        let ReportSet { format, reports } = set;
        for (key, report) in reports {
            loop {
                report.cancel_rest();
                let plan = report.plan(key, format, Api::OpenReports, Instant::now());
                if plan.is_empty() {
                    break;
                }
                for write in plan.writes {
                    if left == 0 {
                        return requests;
                    }
                    left -= 1;
                    let stored = stored(&write);
                    report.stored.insert(write.name.clone(), stored);
                    self.0.insert(write.name, write.report);
                }
                for name in plan.deletes {
                    if left == 0 {
                        return requests;
                    }
                    left -= 1;
                    report.stored.remove(&name);
                    self.0.remove(&name);
                }
            }
        }
        requests - left
    }

    /// Reads the reports as a new process does.
    fn read(&self, layout: Layout) -> FoundReports {
        let mut found = FoundReports::new(format(layout));
        for report in self.0.values() {
            let report: DynamicObject = serde_json::from_value(report.clone()).unwrap();
            found.take(Api::OpenReports, Some(Api::OpenReports), &report);
        }
        found.split_large()
    }

    fn ids(&self) -> Vec<String> {
        let results = self.0.values().flat_map(|report| report["results"].as_array().unwrap());
        let mut ids: Vec<String> =
            results.map(|result| result["properties"]["resultID"].as_str().unwrap().to_owned()).collect();
        ids.sort();
        ids
    }
}

fn ids<'a>(results: impl IntoIterator<Item = &'a Vec<Violation>>) -> BTreeSet<String> {
    results.into_iter().flatten().map(|violation| violation.id.to_string()).collect()
}

fn in_set(set: &ReportSet) -> Vec<Violation> {
    let partitions = set.reports.values().flat_map(|report| report.partitions.iter());
    partitions
        .flat_map(|(_, partition)| partition.results().map(|(_, violation)| violation.clone()).collect::<Vec<_>>())
        .collect()
}

/// Returns the state of a report object after it was written.
fn stored(write: &Write) -> Stored {
    Stored { content: Some(content_digest(&write.report)), resource_version: String::new() }
}

#[test]
fn written_results_are_read_back_unchanged() {
    for layout in [Layout::Namespace, Layout::Resource] {
        let (mut set, mut server) = (ReportSet::new(format(layout)), Server::default());
        let wanted = results(&subject(1), 40, 3_000);
        set.set(subject(1), &wanted);
        set.set(subject(2), &results(&subject(2), 3, 10));
        assert!(server.update(&mut set, usize::MAX) > 2);
        for report in server.0.values() {
            assert!(report.to_string().len() <= 64 * 1024);
        }
        let mut found = server.read(layout);
        assert!(found.obsolete.is_empty());
        let mut read = in_set(&found.reports);
        read.retain(|violation| wanted.iter().any(|wanted| wanted.id == violation.id));
        read.sort_by_key(|violation| violation.since);
        assert_eq!(read, wanted);
        assert_eq!(server.update(&mut found.reports, usize::MAX), 0, "nothing is to be written");
    }
}

#[test]
fn another_layout_keeps_the_results_and_replaces_the_reports() {
    let (mut set, mut server) = (ReportSet::new(format(Layout::Namespace)), Server::default());
    let wanted = [results(&subject(1), 3, 10), results(&subject(2), 3, 10)];
    set.set(subject(1), &wanted[0]);
    set.set(subject(2), &wanted[1]);
    server.update(&mut set, usize::MAX);
    let mut found = server.read(Layout::Resource);
    let former = (Api::OpenReports, "kaudit.audit".to_owned());
    assert_eq!(found.obsolete, [(Some("shop".into()), [former].into())].into());
    assert_eq!(ids([&in_set(&found.reports)]), ids(&wanted));
    let mut other = Server::default();
    other.update(&mut found.reports, usize::MAX);
    let owner = &other.0[&format!("{}.kaudit.audit", subject(1).uid)]["metadata"]["ownerReferences"][0];
    assert_eq!((other.0.len(), &owner["name"]), (2, &Value::from("web-1")));
}

#[test]
fn uids_that_are_not_valid_names_are_hashed() {
    let odd = ObjectRef { uid: "Not/A Name".into(), ..subject(1) };
    let name = report_name(&odd);
    assert!(name.starts_with("kaudit-") && name.len() == 39, "{name}");
    assert_eq!(report_name(&subject(1)), &*subject(1).uid);
    assert_eq!(ObjectRef { uid: "".into(), ..subject(1) }.identity(), "apps/Deployment/shop/web-1");
}

#[test]
fn no_two_kaudits_share_a_name_or_a_label() {
    let instance = |namespace: &str, name: &str| Instance::new(namespace, name);
    assert_eq!(instance("audit", "kaudit").name(), "kaudit.audit");
    let long = "x".repeat(63);
    let all = [
        ("audit", "kaudit"),
        ("audit-1", "kaudit"),
        ("kaudit", "audit"),
        ("a", "b.c"),
        ("c", "b.a"),
        (&*long, "kaudit"),
        ("audit", &*long),
        (&*long, &*long),
    ];
    let of = |part: fn(&Instance) -> String| -> BTreeSet<String> {
        all.iter().map(|(namespace, name)| part(&instance(namespace, name))).collect()
    };
    assert_eq!((of(|one| one.name().to_owned()).len(), of(Instance::selector).len()), (all.len(), all.len()));
    assert!(of(|one| one.name().to_owned()).iter().all(|name| name.len() <= 63));
    // Partitions of one kaudit are not taken for those of another.
    let key = |instance: Instance| {
        ReportKey::of(&ReportFormat { layout: Layout::Namespace, instance, dated: true }, &subject(1))
    };
    let name = key(instance("audit", "kaudit")).name(Prefix::parse("1").unwrap());
    assert!(key(instance("audit-1", "kaudit")).prefix(&name).is_none() && name == "kaudit.audit.1", "{name}");
}

#[test]
fn reports_of_an_earlier_version_are_taken_over_and_those_of_others_are_not() {
    let instance = Instance::new("audit", "kaudit");
    let label = |namespace: Option<&str>| -> BTreeMap<String, String> {
        namespace.map(|namespace| ("kaudit.dev/audit-namespace".to_owned(), namespace.to_owned())).into_iter().collect()
    };
    let owns = |namespace| instance.owns(Some(&label(namespace)));
    assert!(owns(None) && instance.owns(None) && owns(Some("audit")) && !owns(Some("other")));
    for (layout, former) in [(Layout::Namespace, "kaudit"), (Layout::Resource, &*subject(1).uid)] {
        let wanted = results(&subject(1), 3, 10);
        let listed = wanted.iter().map(|violation| (subject(1), violation)).collect::<Vec<_>>();
        let listed = listed.iter().map(|(object, violation)| (object, *violation));
        let report = format(layout).report(Api::OpenReports, former, listed);
        let found = Server([(former.to_owned(), report)].into()).read(layout);
        assert_eq!(found.obsolete, [(Some("shop".into()), [(Api::OpenReports, former.to_owned())].into())].into());
        assert_eq!(ids([&in_set(&found.reports)]), ids([&wanted]));
    }
}

#[test]
fn long_messages_are_cut_and_keep_their_id() {
    let mut long = results(&subject(1), 1, 9_000);
    long[0].finding.message = "ä".repeat(9_000).into();
    let report = format(Layout::Namespace).report(Api::WgPolicy, "kaudit", [(&subject(1), &long[0])].into_iter());
    let message = report["results"][0]["message"].as_str().unwrap();
    assert!(message.len() < 4_200 && message.ends_with("ä…"));
    let read = read(&report);
    assert_eq!((read[0].1.id, read[0].1.since), (long[0].id, long[0].since));
}

/// What happens to the objects of a namespace: how many results one has now, how large, and after how many requests
/// kaudit is killed.
fn changes() -> impl Strategy<Value = Vec<(u8, u8, u16, usize)>> {
    prop::collection::vec((0u8..8, 0u8..20, 1_000u16..4_000, 0usize..12), 1..8)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn whenever_kaudit_is_killed_no_result_is_lost_or_stays_twice(changes in changes()) {
        let (mut set, mut server) = (ReportSet::new(format(Layout::Namespace)), Server::default());
        let mut truth: BTreeMap<u8, Vec<Violation>> = BTreeMap::new();
        for (object, number, size, requests) in changes {
            let before = truth.clone();
            truth.insert(object, results(&subject(object), number, size.into()));
            set.set(subject(object), &truth[&object]);
            server.update(&mut set, requests);
            // Killed: the next process finds every result that was open before and still is, each once.
            let found = server.read(Layout::Namespace);
            let read: Vec<String> = in_set(&found.reports).iter().map(|violation| violation.id.to_string()).collect();
            let (old, new) = (ids(before.values()), ids(truth.values()));
            let read_once: BTreeSet<String> = read.iter().cloned().collect();
            prop_assert_eq!(read.len(), read_once.len());
            prop_assert!(old.intersection(&new).all(|id| read_once.contains(id)), "a result was lost");
            prop_assert!(read_once.iter().all(|id| old.contains(id) || new.contains(id)), "one came back");
            // It evaluates all objects, and writes all their results.
            set = found.reports;
            for (object, results) in &truth {
                set.set(subject(*object), results);
            }
            server.update(&mut set, usize::MAX);
            prop_assert_eq!(server.ids(), new.into_iter().collect::<Vec<_>>());
            let mut again = server.read(Layout::Namespace).reports;
            prop_assert_eq!(server.update(&mut again, usize::MAX), 0);
        }
    }
}

#[test]
fn a_report_is_written_at_once_and_then_rests_while_others_do_not() {
    let mut set = ReportSet::new(format(Layout::Namespace));
    for number in 0..40 {
        set.set(subject(number), &results(&subject(number), 2, 2_000));
    }
    let start = Instant::now();
    let plan = |set: &mut ReportSet, now: Instant| {
        let ReportSet { format, reports } = set;
        let (key, report) = reports.iter_mut().next().unwrap();
        let plan = report.plan(key, format, Api::OpenReports, now);
        for write in &plan.writes {
            report.stored.insert(write.name.clone(), stored(write));
        }
        (plan.writes.len(), report.due(now))
    };
    let (written, due) = plan(&mut set, start);
    assert!(written > 2 && plan(&mut set, start).0 == 0, "{written}");
    assert_eq!(due, start);
    // One partition changes, and then another: each waits for its own rest only.
    let (first, later) = (start + EVERY, start + EVERY / 2);
    set.set(subject(1), &results(&subject(1), 1, 2_000));
    assert_eq!(plan(&mut set, later), (0, first));
    assert_eq!(plan(&mut set, first).0, 1);
    let second = first + EVERY / 2;
    set.set(subject(1), &results(&subject(1), 2, 2_000));
    set.set(subject(2), &results(&subject(2), 1, 2_000));
    let (written, due) = plan(&mut set, second);
    assert_eq!((written, due), (1, first + EVERY), "the one that has rested, and then the other");
    assert_eq!(plan(&mut set, first + EVERY).0, 1);
    // A partition that could not be written does not rest.
    let report = set.reports.values_mut().next().unwrap();
    let prefix = report.partitions.iter().next().map(|(prefix, _)| prefix).unwrap();
    report.failed(prefix);
    assert_eq!((report.is_dirty(), report.due(second)), (true, second));
}

#[test]
fn one_result_of_thousands_is_left() {
    let (mut set, mut server) = (ReportSet::new(format(Layout::Namespace)), Server::default());
    let all = |number: u8| if number == 0 { 200 } else { 10 };
    for number in 0..90 {
        set.set(subject(number), &results(&subject(number), all(number), 200));
    }
    server.update(&mut set, usize::MAX);
    assert_eq!(server.ids().len(), 200 + 89 * 10);
    let mut set = server.read(Layout::Namespace).reports;
    let last = results(&subject(7), 1, 5);
    for number in 0..90 {
        set.set(subject(number), if number == 7 { &last } else { &[] });
    }
    server.update(&mut set, usize::MAX);
    assert_eq!(server.ids(), [last[0].id.to_string()]);
    assert_eq!(server.0.keys().collect::<Vec<_>>(), ["kaudit.audit"]);
}

#[test]
fn a_new_end_or_reason_of_an_exception_is_written() {
    let mut set = ReportSet::new(format(Layout::Namespace));
    let excused = |end: &str, reason: &str| {
        let mut all = results(&subject(1), 1, 10);
        all[0].finding.excuse(&Arc::new(excuse(end, reason)));
        all
    };
    let mut set = |all: Vec<Violation>| set.set(subject(1), &all).is_some();
    assert!(set(excused("2027-01-01T00:00:00Z", "ticket A-1")));
    assert!(!set(excused("2027-01-01T00:00:00Z", "ticket A-1")));
    assert!(set(excused("2028-01-01T00:00:00Z", "ticket A-1")), "as long as before");
    assert!(set(excused("2028-01-01T00:00:00Z", "ticket B-2")));
}

#[test]
fn an_object_that_is_served_as_two_kinds_has_the_results_of_both() {
    let of_kind = |api_version: &str, kind: &str| {
        let object = ObjectRef { api_version: api_version.into(), kind: kind.into(), ..subject(1) };
        (object.clone(), results(&object, 2, 10))
    };
    let both = [of_kind("v1", "Event"), of_kind("events.k8s.io/v1", "Event")];
    for layout in [Layout::Namespace, Layout::Resource] {
        let (mut set, mut server) = (ReportSet::new(format(layout)), Server::default());
        for (object, all) in &both {
            set.set(object.clone(), all);
        }
        server.update(&mut set, 99);
        let all: BTreeSet<String> = server.ids().into_iter().collect();
        assert_eq!(all, ids(both.iter().map(|(_, all)| all)));
        // Each keeps its own, also after a restart.
        let mut loaded = server.read(layout).reports;
        let objects: BTreeSet<String> = loaded
            .reports
            .values()
            .flat_map(|report| report.partitions.iter())
            .flat_map(|(_, partition)| partition.results().map(|(object, _)| object.identity()).collect::<Vec<_>>())
            .collect();
        assert_eq!(objects, both.iter().map(|(object, _)| object.identity()).collect());
        loaded.set(both[0].0.clone(), &[]);
        assert_eq!(in_set(&loaded).len(), 2);
    }
}

#[test]
fn a_refused_result_is_left_out_until_it_changes() {
    for number in [1, 3] {
        let (mut set, mut server) = (ReportSet::new(format(Layout::Namespace)), Server::default());
        let all = results(&subject(1), number, 10);
        set.set(subject(1), &all);
        server.update(&mut set, 99);
        let report = set.reports.values_mut().next().unwrap();
        report.leave_out(Prefix::default(), &[all[0].id]);
        assert_eq!(report.left_out(), 1);
        report.failed(Prefix::default());
        server.update(&mut set, 99);
        assert_eq!(server.ids().len(), usize::from(number) - 1);
        // The same results again change nothing, and other results do not bring it back.
        assert!(set.set(subject(1), &all).is_none());
        set.set(subject(2), &results(&subject(2), 1, 10));
        server.update(&mut set, 99);
        assert_eq!(server.ids().len(), usize::from(number));
        let mut changed = all.clone();
        changed[0].finding.severity = None;
        assert!(set.set(subject(1), &changed).is_some());
        server.update(&mut set, 99);
        assert_eq!(server.ids().len(), usize::from(number) + 1);
    }
}

#[test]
fn a_report_has_a_bounded_number_of_objects_and_what_has_no_room_is_written_when_it_gets_some() {
    const RESULTS: u8 = 8;
    let (mut set, mut server) = (ReportSet::new(format(Layout::Namespace)), Server::default());
    let each = |number: usize| ObjectRef { uid: format!("{number:036}").into(), ..subject(1) };
    let all: Vec<ObjectRef> = (0..MOST_WRITTEN * 3 / 2).map(each).collect();
    // Two objects have more results than one report object holds.
    for object in &all {
        set.set(object.clone(), &results(object, RESULTS, 4_000));
    }
    server.update(&mut set, 99_999);
    let report = |set: &ReportSet| set.reports.values().next().map(|report| (report.without_room(), report.is_dirty()));
    let (without_room, is_dirty) = report(&set).unwrap();
    assert!(!is_dirty && without_room > 0, "{without_room}");
    assert!(server.0.len() <= MOST_WRITTEN, "{}", server.0.len());
    assert_eq!(server.ids().len() + without_room, all.len() * usize::from(RESULTS));
    // A third of the objects is deleted.
    for object in &all[..MOST_WRITTEN / 2 + 100] {
        set.set(object.clone(), &[]);
    }
    server.update(&mut set, 99_999);
    assert_eq!(report(&set), Some((0, false)));
    assert_eq!(server.ids().len(), (MOST_WRITTEN - 100) * usize::from(RESULTS));
}
