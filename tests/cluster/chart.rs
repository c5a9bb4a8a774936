//! The chart: its rendered objects are valid, and it grants exactly the rights that are needed.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use kaudit::rego::analysis::yaml;
use kaudit_controlplane::{AuditRecord, ControlPlane, Tool, require, require_tool, shared, tool};
use serde_json::Value;

use crate::{
    reports,
    support::{Ended, Running, denies_marked, establish_audits, policies, results_in, run, wait_for},
};

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/kaudit")
}

/// Runs helm without the user's settings.
async fn helm(arguments: &[&str]) -> Ended {
    let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
    let helm = move || {
        let home = tempfile::tempdir().unwrap();
        let mut command = Command::new(tool(Tool::Helm).unwrap());
        for variable in ["HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME"] {
            command.env(variable, home.path());
        }
        let output = command.args(arguments).output().unwrap();
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    };
    tokio::task::spawn_blocking(helm).await.unwrap()
}

/// The rendered objects of a release.
pub(crate) struct Rendered {
    pub(crate) text: String,
    objects: Vec<Value>,
}

pub(crate) async fn render(release: &str, settings: &[&str]) -> Rendered {
    render_chart(&chart(), release, settings).await
}

/// Renders a release of a chart.
pub(crate) async fn render_chart(chart: &Path, release: &str, settings: &[&str]) -> Rendered {
    let base = ["template", release, chart.to_str().unwrap(), "--namespace", release];
    let settings = settings.iter().flat_map(|setting| ["--set", setting]);
    let ended = helm(&base.into_iter().chain(settings).collect::<Vec<_>>()).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let objects: Vec<Value> = yaml::from_multiple(&ended.stdout).unwrap();
    Rendered { text: ended.stdout, objects }
}

impl Rendered {
    pub(crate) fn of_kinds(&self, kinds: &[&str]) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |object| kinds.iter().any(|kind| object["kind"] == *kind))
    }

    pub(crate) fn name(&self, kind: &str) -> &str {
        self.of_kinds(&[kind]).next().unwrap()["metadata"]["name"].as_str().unwrap()
    }

    /// Returns the arguments of the container, but with local policies and a local address.
    pub(crate) fn arguments(&self, policies: &str) -> Vec<String> {
        let workload = self.of_kinds(&["Deployment", "StatefulSet"]).next().unwrap();
        let arguments = workload["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        let mut arguments: Vec<_> = arguments.iter().map(|argument| argument.as_str().unwrap().to_owned()).collect();
        let fixed = ["check", "--listen=0.0.0.0:8080", "--listen-status=127.0.0.1:8081", "--policies=builtin"];
        assert!(fixed.iter().all(|fixed| arguments.iter().any(|argument| argument == fixed)), "{arguments:?}");
        arguments.retain(|argument| !fixed.contains(&argument.as_str()));
        for argument in arguments.iter_mut().filter(|argument| argument.starts_with("--listen-ui=")) {
            "--listen-ui=127.0.0.1:0".clone_into(argument);
        }
        arguments.push(format!("--policies={policies}"));
        arguments
    }

    /// Validates all objects with the server's schemas, and creates the RBAC objects.
    pub(crate) async fn install(&self, plane: &ControlPlane) {
        let files = tempfile::tempdir().unwrap();
        let file = files.path().join("rendered.yaml");
        std::fs::write(&file, &self.text).unwrap();
        let dry = ["apply", "--dry-run=server", "--validate=strict", "-f", file.to_str().unwrap()];
        plane.kubectl(&dry).await.unwrap();
        let kinds = ["ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        let objects: Vec<String> = self.of_kinds(&kinds).map(ToString::to_string).collect();
        plane.apply(&objects.join("\n---\n")).await.unwrap();
    }

    /// Returns the RBAC objects of kaudit itself, without the roles that are aggregated for teams.
    fn own_rights(&self) -> impl Iterator<Item = &Value> {
        let aggregated = |object: &Value| {
            let labels = object["metadata"]["labels"].as_object();
            labels.is_some_and(|labels| labels.keys().any(|key| key.contains("/aggregate-to-")))
        };
        let kinds = ["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"];
        self.objects
            .iter()
            .filter(move |object| kinds.iter().any(|kind| object["kind"] == *kind) && !aggregated(object))
    }

    /// Returns each single right of kaudit itself.
    fn grants(&self) -> Vec<Grant> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let texts = |value: &Value| value.as_array().unwrap().iter().map(text).collect::<Vec<_>>();
        let mut grants = Vec::new();
        for role in self.own_rights() {
            // A binding has no rules.
            for rule in role["rules"].as_array().into_iter().flatten() {
                for group in texts(&rule["apiGroups"]) {
                    for resource in texts(&rule["resources"]) {
                        for verb in texts(&rule["verbs"]) {
                            let (group, resource) = (group.clone(), resource.clone());
                            grants.push(Grant {
                                namespace: text(&role["metadata"]["namespace"]),
                                group,
                                resource,
                                verb,
                            });
                        }
                    }
                }
            }
        }
        grants
    }
}

/// One right in one namespace, or in the cluster if the namespace is empty.
#[derive(Debug)]
struct Grant {
    namespace: String,
    group: String,
    resource: String,
    verb: String,
}

impl Grant {
    fn is_used_by(&self, record: &AuditRecord) -> bool {
        let resource = match record.subresource.as_str() {
            "" => record.resource.clone(),
            subresource => format!("{}/{subresource}", record.resource),
        };
        // Creating an object by a patch needs both rights; the log only names the patch.
        let creates = self.verb == "create" && record.verb == "patch" && record.code == 201;
        (self.namespace.is_empty() || self.namespace == record.namespace)
            && (self.group == "*" || self.group == record.api_group)
            && (self.resource == "*" || self.resource == resource)
            && (self.verb == record.verb || creates)
            && (200..300).contains(&record.code)
    }
}

/// Asserts that no request of `user` was refused and that each right was used.
fn assert_rights_fit(requests: &[AuditRecord], user: &str, grants: &[Grant]) {
    let own: Vec<_> = requests.iter().filter(|record| record.user == user).collect();
    let refused: Vec<_> = own.iter().filter(|record| matches!(record.code, 401 | 403)).collect();
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(!grants.is_empty());
    // The shared cluster has no PolicyExceptions; `rights` tests that this right is needed.
    let usable = grants.iter().filter(|grant| grant.resource != "policyexceptions/status");
    let unused: Vec<_> = usable.filter(|grant| !own.iter().any(|record| grant.is_used_by(record))).collect();
    assert!(unused.is_empty(), "granted and never used: {unused:#?}");
}

#[tokio::test]
async fn the_chart_grants_what_kaudit_rbac_prints() {
    if !require_tool(Tool::Helm) {
        return;
    }
    for (settings, arguments) in [
        (&[][..], &[][..]),
        (&["namespaces={shop,bank}"], &["-n", "shop,bank"]),
        (&["namespaces={kaudit,shop}"], &["-n", "shop,kaudit"]),
        (&["record={events}"], &["--record=events"]),
        (&["namespaces={shop}", "events=none"], &["-n", "shop", "--events=none"]),
        (&["record={status}", "auditName=own"], &["--record=status", "--audit-name=own"]),
        (&["reports.api=openreports", "replicas=2"], &["--report-api=openreports", "--leader-elect"]),
        (&["ui.enabled=true"], &[]),
        (&["ui.enabled=true", "ui.auth=token", "namespaces={shop}"], &["--ui-auth=token", "-n", "shop"]),
        (
            &["fleet.servers={nats://n:4222}", "clusterName=a", "namespaces={shop}"],
            &["--fleet=nats://n:4222", "-n", "shop"],
        ),
        (&["policies.cluster={gatekeeper}"], &["-p", "cluster:gatekeeper"]),
        (
            &["namespaces={shop}", "policies.cluster={gatekeeper,admission-policies,kyverno,crd-rules}"],
            &[
                "-n",
                "shop",
                "-p",
                "cluster:gatekeeper",
                "-p",
                "cluster:admission-policies",
                "-p",
                "cluster:kyverno",
                "-p",
                "cluster:crd-rules",
            ],
        ),
        (
            // helm splits lists at unescaped commas.
            &["namespaces={shop}", r"policies.cluster={gatekeeper,configmaps=opa\,team=a}"],
            &["-n", "shop", "-p", "cluster:gatekeeper", "-p", "cluster:configmaps=opa,team=a"],
        ),
        (&["namespaces={shop}", "policies.cluster={configmaps}"], &["-n", "shop", "-p", "cluster:configmaps"]),
        (&["record={events,status}", "shards=3"], &["--report-api=none", "--leader-elect", "--shard=0/3"]),
    ] {
        let rendered = render("kaudit", settings).await;
        let mut rendered: Vec<Value> = rendered.own_rights().cloned().collect();
        for object in &mut rendered {
            object["metadata"].as_object_mut().unwrap().remove("labels").unwrap();
        }
        let ended = run(Path::new("none"), &[&["rbac"], arguments].concat()).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let mut printed: Vec<Value> = yaml::from_multiple(&ended.stdout).unwrap();
        // helm sorts by kind.
        for objects in [&mut rendered, &mut printed] {
            objects.sort_by_key(ToString::to_string);
        }
        assert_eq!(rendered, printed, "{settings:?}");
    }
}

async fn count_of_events(plane: &ControlPlane, namespace: &str, reason: &str) -> usize {
    let selector = format!("reason={reason}");
    let events = ["-n", namespace, "get", "events", "-o", "name", "--field-selector", &selector];
    plane.kubectl(&events).await.unwrap().lines().count()
}

/// Creates a violation in `namespace`, waits for its Event, fixes it, and waits for the second Event. A violation that
/// is resolved before its Event is written has none.
async fn violate_and_fix(plane: &ControlPlane, kaudit: &Running, namespace: &str, mark: &str) {
    plane.kubectl(&["-n", namespace, "create", "configmap", "one"]).await.unwrap();
    let steps = [(format!("{mark}=yes"), 1, "PolicyViolation"), (format!("{mark}-"), 0, "PolicyResolved")];
    for (label, violations, reason) in steps {
        plane.kubectl(&["-n", namespace, "label", "configmap", "one", &label]).await.unwrap();
        let seen = || async { (results_in(&kaudit.status(), namespace).len() == violations).then_some(()) };
        wait_for(&format!("{violations} violations in {namespace}"), seen).await;
        let recorded = || async { (count_of_events(plane, namespace, reason).await == 1).then_some(()) };
        wait_for(&format!("the Event {reason}"), recorded).await;
    }
    assert_eq!(count_of_events(plane, namespace, "PolicyViolation").await, 1);
}

async fn until_status_is_written(plane: &ControlPlane, namespace: &str, name: &str) {
    let audit = format!("audit/{name}");
    let condition = ["-n", namespace, "wait", "--for=condition=Complete", &audit, "--timeout=30s"];
    wait_for("the status", || async { plane.kubectl(&condition).await.ok() }).await;
}

#[tokio::test]
async fn the_chart_grants_exactly_the_rights_for_the_whole_cluster() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let shop = plane.temp_namespace("shop").await.unwrap();
    // Reports need a cluster with their APIs; see below.
    let rendered = render(&release, &["record={events,status}"]).await;
    rendered.install(plane).await;
    let user = plane.service_account(&release, rendered.name("ServiceAccount")).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&shop))]);
    let arguments = rendered.arguments(directory.path().to_str().unwrap());

    let position = plane.audit_position().unwrap();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let kaudit = Running::start(user.kubeconfig_path(), &arguments).await;
    kaudit.ready().await;
    violate_and_fix(plane, &kaudit, &shop, &shop).await;
    until_status_is_written(plane, &release, "kaudit").await;
    let status = kaudit.status();
    assert_eq!(status["complete"], true, "{}", status["coverage"]);
    assert_eq!(kaudit.stop().await, Some(0));
    assert_rights_fit(&plane.audit_log_since(position).unwrap(), user.name(), &rendered.grants());
}

#[tokio::test]
async fn the_chart_grants_exactly_the_rights_for_shards() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let shop = plane.temp_namespace("shop").await.unwrap();
    // Reports are tested separately, with their API.
    let rendered = render(&release, &["shards=2", "record={events,status}"]).await;
    rendered.install(plane).await;
    let user = plane.service_account(&release, rendered.name("ServiceAccount")).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&shop))]);
    let arguments = rendered.arguments(directory.path().to_str().unwrap());

    let position = plane.audit_position().unwrap();
    let mut shards = Vec::new();
    for pod in 0..2 {
        // As derived from the pod's name.
        let shard = |argument: &String| argument.replace("=auto/", &format!("={pod}/"));
        let own: Vec<_> = arguments.iter().map(shard).collect();
        assert_ne!(own, arguments);
        let own: Vec<_> = own.iter().map(String::as_str).collect();
        shards.push(Running::start(user.kubeconfig_path(), &own).await);
    }
    for shard in &shards {
        shard.ready().await;
        wait_for("the shard to record", || async { (shard.metric("kaudit_leader") == Some(1)).then_some(()) }).await;
    }
    plane.kubectl(&["-n", &shop, "create", "configmap", "one"]).await.unwrap();
    plane.kubectl(&["-n", &shop, "label", "configmap", "one", &format!("{shop}=yes")]).await.unwrap();
    let recorded = || async { (count_of_events(plane, &shop, "PolicyViolation").await == 1).then_some(()) };
    wait_for("the Event", recorded).await;
    for (number, shard) in shards.into_iter().enumerate() {
        until_status_is_written(plane, &release, &format!("kaudit-{number}")).await;
        assert_eq!(shard.stop().await, Some(0));
    }
    assert_eq!(count_of_events(plane, &shop, "PolicyViolation").await, 1);
    assert_rights_fit(&plane.audit_log_since(position).unwrap(), user.name(), &rendered.grants());
}

/// Returns a policy with more violations of one object than may have Events.
fn flood(mark: &str) -> String {
    format!(
        r#"
package flood
deny contains sprintf("number %v", [number]) if {{
    input.metadata.labels["{mark}"] == "flood"
    some number in numbers.range(1, 60)
}}
"#
    )
}

#[tokio::test]
async fn with_namespaces_the_chart_grants_exactly_the_rights_without_cluster_roles() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let (shop, bank) = (plane.temp_namespace("shop").await.unwrap(), plane.temp_namespace("bank").await.unwrap());
    let namespaces = format!("namespaces={{{shop},{bank}}}");
    // Slow enough that Events have to wait.
    let rendered =
        render(&release, &[&namespaces, "record={events,status}", "extraArgs={--events-per-second=5}"]).await;
    assert_eq!(rendered.of_kinds(&["ClusterRole", "ClusterRoleBinding"]).count(), 0);
    rendered.install(plane).await;
    let user = plane.service_account(&release, rendered.name("ServiceAccount")).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&shop)), ("flood.rego", &flood(&release))]);
    let arguments = rendered.arguments(directory.path().to_str().unwrap());

    let position = plane.audit_position().unwrap();
    let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
    let kaudit = Running::start(user.kubeconfig_path(), &arguments).await;
    kaudit.ready().await;
    for namespace in [&shop, &bank] {
        violate_and_fix(plane, &kaudit, namespace, &shop).await;
    }
    until_status_is_written(plane, &release, "kaudit").await;
    let status = kaudit.status();
    assert_eq!(status["complete"], true, "{}", status["coverage"]);
    // Violations without Events are summed up in one Event.
    plane.kubectl(&["-n", &shop, "label", "configmap", "one", &format!("{release}=flood")]).await.unwrap();
    let pending = || async { kaudit.metric("kaudit_events_pending").filter(|pending| *pending > 20) };
    wait_for("Events that wait", pending).await;
    // Events about kaudit itself are in its own namespace.
    std::fs::write(directory.path().join("broken.rego"), "package broken\ndeny contains").unwrap();
    let refused = || async { (count_of_events(plane, &release, "PolicyRefused").await == 1).then_some(()) };
    wait_for("the Event of the broken policy", refused).await;
    assert_eq!(kaudit.stop().await, Some(0));
    assert_eq!(count_of_events(plane, &shop, "EventsDropped").await, 1);
    // The earlier one, and as many as one object may have.
    let recorded = count_of_events(plane, &shop, "PolicyViolation").await;
    assert!((24..30).contains(&recorded), "{recorded}");
    assert_rights_fit(&plane.audit_log_since(position).unwrap(), user.name(), &rendered.grants());
}

#[tokio::test]
async fn the_chart_grants_exactly_the_rights_for_reports() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let plane = reports::plane().await;
    let (first, second) =
        (plane.temp_namespace("kaudit").await.unwrap(), plane.temp_namespace("kaudit").await.unwrap());
    plane.kubectl(&["-n", &first, "create", "configmap", "one"]).await.unwrap();
    let directory = policies(&[("marked.rego", &denies_marked(&first))]);
    for (release, api, scope) in [(&first, "openreports", ""), (&second, "wgpolicy", &first)] {
        let (api, namespaces) = (format!("reports.api={api}"), format!("namespaces={{{scope}}}"));
        let settings =
            [["record={reports}", &api].as_slice(), &[&*namespaces][usize::from(scope.is_empty())..]].concat();
        let rendered = render(release, &settings).await;
        rendered.install(&plane).await;
        let user = plane.service_account(release, rendered.name("ServiceAccount")).await.unwrap();
        let arguments = rendered.arguments(directory.path().to_str().unwrap());
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let position = plane.audit_position().unwrap();
        let kinds = if scope.is_empty() { ["configmap", "clusterrole"].as_slice() } else { &["configmap"] };
        // Reports on a namespaced and on a cluster-scoped object are created and deleted.
        for label in [format!("{first}=yes"), format!("{first}-")] {
            for kind in kinds {
                let name = if *kind == "configmap" { "one" } else { "view" };
                plane.kubectl(&["-n", &first, "label", kind, name, &label]).await.unwrap();
            }
            let kaudit = Running::start(user.kubeconfig_path(), &arguments).await;
            kaudit.ready().await;
            let wanted = if label.ends_with('-') { 0 } else { kinds.len() };
            let all_open = || async { (kaudit.status()["results"].as_array()?.len() == wanted).then_some(()) };
            wait_for(&format!("{wanted} violations"), all_open).await;
            let resources = if scope.is_empty() { "reports,clusterreports" } else { "policyreports" };
            let list = ["-n", &first, "get", resources, "-o", "name"];
            let reports = async || plane.kubectl(&list).await.unwrap().lines().count();
            wait_for(&format!("{wanted} reports"), || async { (reports().await == wanted).then_some(()) }).await;
            assert_eq!(kaudit.stop().await, Some(0));
        }
        let grants: Vec<Grant> = rendered.grants().into_iter().filter(|grant| grant.group.contains('.')).collect();
        assert_eq!(grants.len(), kinds.len() * 4, "{grants:#?}");
        assert_rights_fit(&plane.audit_log_since(position).unwrap(), user.name(), &grants);
    }
}

#[tokio::test]
async fn ports_are_reachable_as_configured() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let settings = ["networkPolicy.from[0].namespaceSelector.matchLabels.team=watchers", "listen.address=[::]"];
    for (settings, loopback) in [(&[][..], "127.0.0.1"), (&settings, "[::1]")] {
        assert!(!render("kaudit", settings).await.text.contains("--listen-ui"));
        let rendered = render("kaudit", &[settings, &["ui.enabled=true"]].concat()).await;
        let one = |kind: &'static str| rendered.of_kinds(&[kind]).next().unwrap();
        let container = &one("Deployment")["spec"]["template"]["spec"]["containers"][0];
        // No Service or other pod can reach the port of the status.
        for argument in [format!("--listen-status={loopback}:8081"), format!("--listen-ui={loopback}:8082")] {
            assert!(container["args"].as_array().unwrap().contains(&argument.into()), "{container}");
        }
        assert_eq!(container["ports"], serde_json::json!([{"name": "http", "containerPort": 8080, "protocol": "TCP"}]));
        assert_eq!(one("Service")["spec"]["ports"][0]["targetPort"], "http");
        let policy = &one("NetworkPolicy")["spec"];
        assert_eq!(policy["podSelector"]["matchLabels"], one("Deployment")["spec"]["selector"]["matchLabels"]);
        assert_eq!(policy["ingress"][0]["ports"], serde_json::json!([{"port": "http", "protocol": "TCP"}]));
        let from = if settings.is_empty() { Value::Null } else { "watchers".into() };
        assert_eq!(policy["ingress"][0]["from"][0]["namespaceSelector"]["matchLabels"]["team"], from);
        let pod = &one("Deployment")["spec"]["template"]["spec"]["securityContext"];
        let own = &container["securityContext"];
        assert_eq!((&pod["runAsNonRoot"], &pod["seccompProfile"]["type"]), (&true.into(), &"RuntimeDefault".into()));
        assert_eq!(
            (&own["allowPrivilegeEscalation"], &own["readOnlyRootFilesystem"], &own["privileged"]),
            (&false.into(), &true.into(), &false.into())
        );
        assert_eq!(own["capabilities"], serde_json::json!({"drop": ["ALL"]}));
    }
}

#[tokio::test]
async fn parts_of_the_library_can_be_combined_with_other_policies() {
    if !require_tool(Tool::Helm) {
        return;
    }
    for (settings, want) in [
        (&[][..], &["builtin"][..]),
        (&["policies.parts={pod_security.baseline,rbac}"], &["builtin:pod_security.baseline", "builtin:rbac"]),
        (&["policies.paths={/own}"], &["builtin", "/own"]),
        (&["policies.bundled=false", "policies.paths={/own}"], &["/own"]),
        (&["policies.bundled=false", "policies.cluster={gatekeeper}"], &["cluster:gatekeeper"]),
        (&["policies.bundled=false", "policies.bundles={oci://r.example.com/p:1}"], &["oci://r.example.com/p:1"]),
        (&["policies.bundled=false", "policies.configMaps={team}"], &["/policies.d/team"]),
    ] {
        let rendered = render("kaudit", settings).await;
        let workload = rendered.of_kinds(&["Deployment"]).next().unwrap();
        let arguments = workload["spec"]["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
        let named = arguments.iter().filter_map(|argument| argument.as_str()?.strip_prefix("--policies="));
        assert_eq!(named.collect::<Vec<_>>(), want, "{settings:?}");
    }
    let chart = chart();
    let chart = chart.to_str().unwrap();
    for (settings, why) in [
        (&["policies.bundled=false"][..], "there are no policies"),
        (&["policies.bundled=false", "policies.paths={/own}", "policies.parts={rbac}"], "policies.parts"),
    ] {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let refused = helm(&[&["template", "kaudit", chart][..], &settings].concat()).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(why), "{refused:?}");
    }
}

#[tokio::test]
async fn values_of_the_fleet_become_options_and_files() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let servers = "fleet.servers={tls://a:4222,tls://b:4222}";
    let rendered = render("kaudit", &[servers, "clusterName=prod", "fleet.labels.env=prod"]).await;
    let options = |rendered: &Rendered| -> Vec<String> {
        let all = rendered.arguments("builtin").into_iter();
        all.filter(|option| ["--fleet", "--nats", "--cluster-"].iter().any(|own| option.starts_with(own))).collect()
    };
    let wanted = ["--cluster-name=prod", "--fleet=tls://a:4222", "--fleet=tls://b:4222", "--cluster-label=env=prod"];
    assert_eq!(options(&rendered), wanted);
    let login = ["fleet.login=credentials", "fleet.secret=nats", "fleet.ca=true", "fleet.clientCertificate=true"];
    let rendered = render("kaudit", &[&[servers, "clusterName=prod"][..], &login].concat()).await;
    let files: Vec<String> = options(&rendered).into_iter().filter(|option| option.contains("/fleet.d/")).collect();
    let wanted =
        ["credentials=/fleet.d/nats.creds", "ca=/fleet.d/ca.crt", "cert=/fleet.d/tls.crt", "key=/fleet.d/tls.key"];
    assert_eq!(files, wanted.map(|file| format!("--nats-{file}")));
    let pod = &first(&rendered, "Deployment")["spec"]["template"]["spec"];
    let volume = serde_json::json!({"name": "fleet", "secret": {"secretName": "nats"}});
    assert!(pod["volumes"].as_array().unwrap().contains(&volume), "{pod}");
    assert!(refused(&[servers]).await.contains("needs clusterName"));
    assert!(refused(&[servers, "clusterName=a", "fleet.ca=true"]).await.contains("need fleet.secret"));
    assert!(refused(&["fleet.servers={http://a}"]).await.contains("fleet/servers"));
}

/// Returns the first object of a kind.
fn first<'r>(rendered: &'r Rendered, kind: &str) -> &'r Value {
    rendered.objects.iter().find(|object| object["kind"] == kind).unwrap_or_else(|| panic!("no {kind}"))
}

/// Returns helm's error for invalid settings.
async fn refused(settings: &[&str]) -> String {
    let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
    let ended = helm(&[&["template", "kaudit", chart().to_str().unwrap()][..], &settings].concat()).await;
    assert_eq!(ended.code, Some(1), "{settings:?}");
    ended.stderr
}

#[tokio::test]
async fn values_configure_rules_and_namespaces() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let settings = [
        "excludeNamespaces={kube-system,kube-*}",
        "skipRules={POD-02,probes/*}",
        "minSeverity=medium",
        "rules.IMG-01=off",
        "rules.RES-01.severity=low",
        "rules.RES-01.namespaces={shop-*}",
    ];
    let rendered = render("kaudit", &settings).await;
    let container = &first(&rendered, "Deployment")["spec"]["template"]["spec"]["containers"][0];
    let arguments = rendered.arguments("builtin");
    let wanted = [
        "--exclude-namespace=kube-system",
        "--exclude-namespace=kube-*",
        "--skip-rule=POD-02",
        "--skip-rule=probes/*",
        "--min-severity=medium",
    ];
    assert!(wanted.iter().all(|wanted| arguments.iter().any(|argument| argument == wanted)), "{arguments:?}");
    assert_eq!(container["env"][0]["name"], "KAUDIT_RULES", "{container}");
    let rules = container["env"][0]["value"].as_str().unwrap();
    let skip = ["--skip-rule=POD-02", "--skip-rule=probes/*", "--min-severity=medium", "--rules", rules];
    let listed = run(Path::new("none"), &[&["policies", "builtin", "-o", "json"][..], &skip].concat()).await;
    assert_eq!(listed.code, Some(0), "{listed:?}");
    let default = render("kaudit", &[]).await.text;
    let none = ["--exclude-namespace", "--skip-rule", "--min-severity", "KAUDIT_RULES"];
    assert!(!none.iter().any(|option| default.contains(option)), "{default}");
    for (setting, named) in [
        ("excludeNamespaces={Kube}", "excludeNamespaces"),
        ("skipRules[0]=a b", "skipRules"),
        ("minSeverity=urgent", "minSeverity"),
        ("rules.IMG-01.severity=urgent", "rules"),
        ("policies.parts={nope}", "parts"),
    ] {
        let why = refused(&[setting]).await;
        assert!(why.contains("schema") && why.contains(named), "{why}");
    }
}

#[tokio::test]
async fn pods_have_extra_volumes_and_are_spread() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let settings = [
        "extraVolumes[0].name=ca",
        "extraVolumes[0].configMap.name=own-ca",
        "extraVolumeMounts[0].name=ca",
        "extraVolumeMounts[0].mountPath=/ca",
        "replicas=2",
        "podDisruptionBudget.enabled=true",
        "topologySpreadConstraints[0].maxSkew=1",
        "topologySpreadConstraints[0].topologyKey=kubernetes.io/hostname",
        "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
        "topologySpreadConstraints[1].maxSkew=1",
        "topologySpreadConstraints[1].topologyKey=zone",
        "topologySpreadConstraints[1].whenUnsatisfiable=DoNotSchedule",
        "topologySpreadConstraints[1].labelSelector.matchLabels.own=yes",
    ];
    let rendered = render("kaudit", &settings).await;
    let workload = &first(&rendered, "Deployment")["spec"];
    let pod = &workload["template"]["spec"];
    assert_eq!(pod["volumes"], serde_json::json!([{"name": "ca", "configMap": {"name": "own-ca"}}]));
    assert_eq!(pod["containers"][0]["volumeMounts"], serde_json::json!([{"name": "ca", "mountPath": "/ca"}]));
    let spread = &pod["topologySpreadConstraints"];
    assert_eq!(spread[0]["labelSelector"], workload["selector"]);
    assert_eq!(spread[1]["labelSelector"], serde_json::json!({"matchLabels": {"own": "yes"}}));
    let budget = &first(&rendered, "PodDisruptionBudget")["spec"];
    assert_eq!((&budget["maxUnavailable"], &budget["selector"]), (&1.into(), &workload["selector"]));
    assert_eq!(render("kaudit", &[]).await.of_kinds(&["PodDisruptionBudget"]).count(), 0);
}

#[tokio::test]
async fn the_page_has_routes_only_with_tokens() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let token = ["ui.enabled=true", "ui.auth=token"];
    let ingress = ["ui.ingress.enabled=true", "ui.ingress.host=kaudit.example.com"];
    let route = [
        "ui.httpRoute.enabled=true",
        "ui.httpRoute.hostnames={kaudit.example.com}",
        "ui.httpRoute.parentRefs[0].name=public",
    ];
    let receiver = ["notify.receivers[0].name=a"];
    let file = |rendered: &Rendered| first(rendered, "ConfigMap")["data"]["notify.yaml"].as_str().unwrap().to_owned();

    let rendered = render("kaudit", &[&token[..], &ingress, &receiver].concat()).await;
    let (service, found) = (first(&rendered, "Service"), &first(&rendered, "Ingress")["spec"]);
    let backend = &found["rules"][0]["http"]["paths"][0]["backend"]["service"];
    assert_eq!((&backend["name"], &backend["port"]["name"]), (&service["metadata"]["name"], &"ui".into()));
    assert_eq!(found["tls"], serde_json::json!([{"hosts": ["kaudit.example.com"]}]));
    assert!(file(&rendered).contains("externalURL: \"https://kaudit.example.com\""), "{}", file(&rendered));

    let rendered = render("kaudit", &[&token[..], &route, &receiver, &["clusterName=prod"]].concat()).await;
    let backend = &first(&rendered, "HTTPRoute")["spec"]["rules"][0]["backendRefs"][0];
    assert_eq!((&backend["name"], &backend["port"]), (&service["metadata"]["name"], &8082.into()));
    assert!(file(&rendered).contains("externalURL: \"https://kaudit.example.com\""), "{}", file(&rendered));
    assert!(file(&rendered).contains("cluster: \"prod\""), "{}", file(&rendered));

    // Access to the page does not grant access to the metrics, and vice versa.
    let from = ["networkPolicy.from[0].podSelector.matchLabels.app=prometheus"];
    let ui_from = ["networkPolicy.uiFrom[0].podSelector.matchLabels.app=ingress"];
    for (settings, page) in [([&from[..], &ui_from].concat(), "ingress"), (from.to_vec(), "prometheus")] {
        let rendered = render("kaudit", &[&token[..], &settings].concat()).await;
        let rules = first(&rendered, "NetworkPolicy")["spec"]["ingress"].as_array().unwrap();
        let who = |port: &str| {
            let rule = rules.iter().find(|rule| rule["ports"][0]["port"] == port).unwrap();
            rule["from"][0]["podSelector"]["matchLabels"]["app"].clone()
        };
        assert_eq!((who("http"), who("ui")), ("prometheus".into(), page.into()));
    }

    for (settings, why) in [
        (ingress.to_vec(), "ui.auth: token"),
        ([&["ui.enabled=true"][..], &route].concat(), "ui.auth: token"),
        ([&token[..], &ingress[..1]].concat(), "ui.ingress.host"),
        ([&token[..], &route[..1]].concat(), "parentRefs"),
        ([&token[..], &ingress, &["shards=2"]].concat(), "exclude shards"),
    ] {
        let recorded = refused(&settings).await;
        assert!(recorded.contains(why), "{recorded}");
    }
}

#[tokio::test]
async fn optional_objects_match_the_server_schemas() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let plane = reports::plane().await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let settings = [
        "ui.enabled=true",
        "ui.auth=token",
        "ui.ingress.enabled=true",
        "ui.ingress.host=kaudit.example.com",
        "ui.ingress.className=public",
        "ui.ingress.tlsSecret=tls",
        "networkPolicy.uiFrom[0].podSelector.matchLabels.app=ingress",
        "podDisruptionBudget.enabled=true",
        "podDisruptionBudget.maxUnavailable=50%",
        "topologySpreadConstraints[0].maxSkew=1",
        "topologySpreadConstraints[0].topologyKey=kubernetes.io/hostname",
        "topologySpreadConstraints[0].whenUnsatisfiable=ScheduleAnyway",
        "extraVolumes[0].name=ca",
        "extraVolumes[0].configMap.name=own-ca",
        "extraVolumeMounts[0].name=ca",
        "extraVolumeMounts[0].mountPath=/ca",
        "rules.IMG-01=off",
        "reports.installCRDs=true",
    ];
    render(&release, &settings).await.install(&plane).await;
}

#[tokio::test]
async fn report_crds_are_installed_on_request_and_kept() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let rendered = render("kaudit", &["reports.installCRDs=true"]).await;
    let published: Vec<Value> = yaml::from_multiple(reports::OPENREPORTS).unwrap();
    let found: Vec<_> = rendered.of_kinds(&["CustomResourceDefinition"]).collect();
    assert_eq!(found.len(), 2);
    for kind in &published {
        let same = found.iter().find(|other| other["metadata"]["name"] == kind["metadata"]["name"]).unwrap();
        assert_eq!(same["spec"], kind["spec"]);
        assert_eq!(same["metadata"]["annotations"]["helm.sh/resource-policy"], "keep", "{}", same["metadata"]);
        assert_eq!(same["metadata"]["labels"]["app.kubernetes.io/instance"], "kaudit");
    }
    assert_eq!(render("kaudit", &[]).await.of_kinds(&["CustomResourceDefinition"]).count(), 0);
    let why = refused(&["reports.installCRDs=true", "reports.api=wgpolicy"]).await;
    assert!(why.contains("reports.installCRDs"), "{why}");
}

#[tokio::test]
async fn bundles_have_credentials_and_keys() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let settings = [
        "policies.bundles={oci://r.example.com/p:1}",
        "policies.poll=2m",
        "policies.bundleCredentials=login",
        "policies.bundleKey=signer",
    ];
    let rendered = render("kaudit", &settings).await;
    let pod = &rendered.of_kinds(&["Deployment"]).next().unwrap()["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let wanted = ["--poll=2m", "--bundle-cache=/bundles.d/cache", "--verification-key=/bundles.d/key/verification.key"];
    assert!(wanted.iter().all(|argument| arguments.contains(argument)), "{arguments:?}");
    assert_eq!(container["env"], serde_json::json!([{"name": "DOCKER_CONFIG", "value": "/bundles.d/credentials"}]));
    let secrets: Vec<&str> = pod["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|volume| volume["secret"]["secretName"].as_str())
        .collect();
    assert_eq!(secrets, ["login", "signer"]);
    assert_eq!(pod["volumes"].as_array().unwrap().len(), container["volumeMounts"].as_array().unwrap().len());
    let without = render("kaudit", &[]).await;
    assert!(!without.text.contains("bundle") && !without.text.contains("--poll"), "{}", without.text);
}

#[tokio::test]
async fn bundles_are_verified_by_a_complete_identity() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let bundles = "policies.bundles={oci://r.example.com/p:1}";
    let (identity, issuer) =
        ("policies.bundleIdentity.identity=dev@example.com", "policies.bundleIdentity.issuer=https://i.example.com");
    let pattern = r"policies.bundleIdentity.identityRegexp=^https://ci\\.example\\.com/";
    let issuers = "policies.bundleIdentity.issuerRegexp=example.com$";
    let root = "policies.bundleIdentity.trustedRoot=sigstore";
    for (settings, wanted) in [
        (
            [bundles, identity, issuer, root],
            ["--certificate-identity=dev@example.com", "--certificate-oidc-issuer=https://i.example.com"],
        ),
        (
            [bundles, pattern, issuers, root],
            [
                r"--certificate-identity-regexp=^https://ci\.example\.com/",
                "--certificate-oidc-issuer-regexp=example.com$",
            ],
        ),
    ] {
        let rendered = render("kaudit", &settings).await;
        let pod = &rendered.of_kinds(&["Deployment"]).next().unwrap()["spec"]["template"]["spec"];
        let container = &pod["containers"][0];
        let arguments: Vec<&str> = container["args"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
        let mut identities = arguments.iter().filter(|argument| argument.starts_with("--certificate-"));
        assert_eq!([identities.next(), identities.next()], [Some(&wanted[0]), Some(&wanted[1])]);
        assert!(identities.next().is_none() && arguments.contains(&"--trusted-root=/bundles.d/root/trusted_root.json"));
        let named =
            |list: &str| pod[list].as_array().unwrap().iter().any(|volume| volume["configMap"]["name"] == "sigstore");
        assert!(named("volumes"), "{pod}");
        assert_eq!(pod["volumes"].as_array().unwrap().len(), container["volumeMounts"].as_array().unwrap().len());
    }
    let chart = chart();
    let chart = chart.to_str().unwrap();
    for (settings, why) in [
        (&[bundles, identity, root][..], "have to be given together"),
        (&[bundles, identity, issuer], "have to be given together"),
        (&[bundles, root], "have to be given together"),
        (&[bundles, identity, pattern, issuer, root], "exclude each other"),
        (&[bundles, identity, issuer, root, "policies.bundleKey=signer"], "exclude each other"),
        (&["policies.bundleIdentity.other=x"], "bundleIdentity"),
    ] {
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let refused = helm(&[&["template", "kaudit", chart][..], &settings].concat()).await;
        assert!(refused.code == Some(1) && refused.stderr.contains(why), "{refused:?}");
    }
}

#[tokio::test]
async fn exceptions_in_the_values_are_loaded() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let settings = [
        "exceptions[0].name=legacy",
        "exceptions[0].namespace=shop",
        "exceptions[0].spec.policies[0].name=resources",
        "exceptions[0].spec.reason=replaced: soon",
        "exceptions[0].spec.expiresAt=2999-01-31",
        "exceptions[1].name=other",
        "exceptions[1].spec.policies[0].name=images",
        "exceptions[1].spec.match.names[0]=legacy-*",
        "exceptions[1].spec.reason=r",
        "exceptions[1].spec.expiresAt=2999-01-31",
    ];
    let rendered = render("kaudit", &settings).await;
    let workload = &rendered.of_kinds(&["Deployment"]).next().unwrap()["spec"]["template"]["spec"];
    let (container, volume) = (&workload["containers"][0], &workload["volumes"][0]);
    let arguments = container["args"].as_array().unwrap();
    let path = arguments.iter().find_map(|argument| argument.as_str()?.strip_prefix("--exceptions=")).unwrap();
    let mount = &container["volumeMounts"][0];
    assert_eq!((&mount["name"], &volume["configMap"]["name"]), (&volume["name"], &rendered.name("ConfigMap").into()));
    let key = path.strip_prefix(mount["mountPath"].as_str().unwrap()).unwrap().trim_start_matches('/');
    let data = &rendered.of_kinds(&["ConfigMap"]).next().unwrap()["data"][key];
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), data.as_str().unwrap()).unwrap();
    let manifests = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: legacy-1, namespace: shop}\n\
               spec: {containers: [{name: a, image: \"a:latest\"}]}\n";
    std::fs::write(manifests.path(), pod).unwrap();
    let (file, manifests) = (file.path().to_str().unwrap(), manifests.path().to_str().unwrap());
    let check = [
        "check",
        "-f",
        manifests,
        "-p",
        "builtin:resources",
        "-p",
        "builtin:images",
        "-o",
        "json",
        "--exceptions",
        file,
    ];
    let checked = run(Path::new("/nowhere"), &check).await;
    assert_eq!(checked.code, Some(0), "{checked:?}");
    let (found, mut skipped) = (checked.json(), Vec::new());
    for entry in found["results"].as_array().unwrap() {
        assert_eq!(entry["result"], "skip");
        skipped.push(entry["excuse"]["by"].as_str().unwrap());
    }
    assert!(skipped.contains(&"shop/legacy") && skipped.contains(&"other"), "{skipped:?}");
}

#[tokio::test]
async fn the_chart_is_clean_and_refuses_unknown_values() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let chart = chart();
    let chart = chart.to_str().unwrap();
    let linted = helm(&["lint", "--strict", chart]).await;
    assert_eq!(linted.code, Some(0), "{linted:?}");
    assert!(!linted.stdout.contains("[INFO]"), "{linted:?}");
    let both = helm(&["template", "kaudit", chart, "--set", "replicas=2", "--set", "shards=2"]).await;
    assert!(both.code == Some(1) && both.stderr.contains("replicas and shards"), "{both:?}");
    for (setting, named) in [
        ("imagee.tag=1", "imagee"),
        ("record={nothing}", "record"),
        ("listen.port=80", "port"),
        ("replicas=0", "replicas"),
        ("shards=0", "shards"),
        ("policies.parts={Pod}", "parts"),
        ("policies.paths={relative}", "paths"),
        ("notify.receivers[0].name=Team", "receivers"),
        ("notify.secret=s", "secret"),
        ("metrics.namespaces=-1", "namespaces"),
    ] {
        let refused = helm(&["template", "kaudit", chart, "--set", setting]).await;
        assert_eq!((refused.code, refused.stdout.as_str()), (Some(1), ""), "{refused:?}");
        assert!(refused.stderr.contains("schema") && refused.stderr.contains(named), "{refused:?}");
    }
}

#[tokio::test]
async fn metrics_have_namespaces_only_if_access_is_limited_or_requested() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let from = "networkPolicy.from[0].podSelector.matchLabels.app=prometheus";
    let env = ["extraEnv[0].name=KAUDIT_METRICS_NAMESPACES", "extraEnv[0].value=six"];
    for (settings, want) in [
        (&[][..], Some("--metrics-namespaces=0")),
        (&[from], None),
        (&[from, "networkPolicy.enabled=false"], Some("--metrics-namespaces=0")),
        (&["metrics.namespaces=7"], Some("--metrics-namespaces=7")),
        (&[from, "metrics.namespaces=0"], Some("--metrics-namespaces=0")),
        (&["extraArgs={--metrics-namespaces=5}", "metrics.namespaces=7"], Some("--metrics-namespaces=5")),
        (&env, None),
    ] {
        let arguments = render("kaudit", settings).await.arguments("policies");
        let given: Vec<&str> =
            arguments.iter().map(String::as_str).filter(|one| one.starts_with("--metrics-namespaces")).collect();
        assert_eq!(given, Vec::from_iter(want), "{settings:?}");
    }
}

#[tokio::test]
async fn rendered_objects_pass_the_builtin_policies() {
    if !require_tool(Tool::Helm) {
        return;
    }
    let all = ["serviceMonitor.enabled=true", "networkPolicy.enabled=true"];
    let notify = ["notify.receivers[0].name=a", "notify.secrets={b}"];
    let routes = [
        "ui.enabled=true",
        "ui.auth=token",
        "ui.ingress.enabled=true",
        "ui.ingress.host=kaudit.example.com",
        "ui.ingress.tlsSecret=kaudit-tls",
        "podDisruptionBudget.enabled=true",
        "reports.installCRDs=true",
    ];
    for settings in [&[][..], &["namespaces={shop,bank}"], &all, &["replicas=2"], &["shards=3"], &notify, &routes] {
        let rendered = render("kaudit", settings).await;
        let files = tempfile::tempdir().unwrap();
        let file = files.path().join("rendered.yaml");
        std::fs::write(&file, &rendered.text).unwrap();
        // kaudit reads what it audits, Secrets without their values.
        let arguments = ["check", "-o", "json", "-p", "policies", "--skip-rule", "SA-02", "-f", file.to_str().unwrap()];
        let ended = run(Path::new("none"), &arguments).await;
        assert_eq!(ended.code, Some(0), "{settings:?}: {:#} {}", ended.json()["results"], ended.stderr);
        assert!(ended.json()["summary"]["pass"].as_u64().unwrap() > 20, "{}", ended.stdout);
    }
}

#[tokio::test]
async fn teams_may_read_records_about_their_objects() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let plane = reports::plane().await;
    establish_audits(&plane).await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let rendered = render(&release, &["rbac.aggregateToEdit=true"]).await;
    rendered.install(&plane).await;
    // The test control plane has no controller that aggregates roles, so users are bound to the parts.
    for (role, aggregate) in [("view", "view"), ("edit", "edit")] {
        let name = format!("{}-{role}", rendered.name("ServiceAccount"));
        let mut roles = rendered.of_kinds(&["ClusterRole"]);
        let found = roles.find(|object| object["metadata"]["name"] == name.as_str()).unwrap();
        let label = format!("rbac.authorization.k8s.io/aggregate-to-{aggregate}");
        assert_eq!(found["metadata"]["labels"][&label], "true", "{found:#}");
        plane.kubectl(&["-n", &release, "create", "serviceaccount", role]).await.unwrap();
        let (role_of, account) = (format!("--clusterrole={name}"), format!("--serviceaccount={release}:{role}"));
        plane.kubectl(&["-n", &release, "create", "rolebinding", role, &role_of, &account]).await.unwrap();
    }
    for (role, verb, resource, expected) in [
        ("view", "list", "policyexceptions.kaudit.dev", "yes"),
        ("view", "get", "audits.kaudit.dev", "yes"),
        ("view", "list", "reports.openreports.io", "yes"),
        ("view", "list", "policyreports.wgpolicyk8s.io", "yes"),
        ("view", "delete", "reports.openreports.io", "no"),
        ("view", "create", "policyexceptions.kaudit.dev", "no"),
        ("view", "delete", "audits.kaudit.dev", "no"),
        ("edit", "create", "policyexceptions.kaudit.dev", "yes"),
        ("edit", "delete", "policyexceptions.kaudit.dev", "yes"),
        ("edit", "patch", "audits.kaudit.dev", "no"),
    ] {
        let user = format!("--as=system:serviceaccount:{release}:{role}");
        // kubectl fails if the answer is no.
        let answer = plane.kubectl(&["-n", &release, "auth", "can-i", verb, resource, &user]).await;
        assert_eq!(answer.is_ok(), expected == "yes", "{role} {verb} {resource}: {answer:?}");
    }
    let default = render("kaudit", &[]).await;
    let mut names: Vec<_> =
        default.of_kinds(&["ClusterRole"]).filter_map(|role| role["metadata"]["name"].as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["kaudit", "kaudit-view"], "who may excuse is decided by the platform team");
}

#[tokio::test]
async fn commands_in_the_notes_are_valid() {
    if !require() || !require_tool(Tool::Helm) {
        return;
    }
    let plane = shared().await;
    establish_audits(plane).await;
    let release = plane.temp_namespace("kaudit").await.unwrap();
    let namespaces = format!("namespaces={{{release}}}");
    for settings in [
        &[][..],
        &[namespaces.as_str()],
        &["reports.api=wgpolicy"],
        &["replicas=2"],
        &["shards=2"],
        &["reports.api=openreports"],
        &["reports.installCRDs=true"],
        &["ui.enabled=true"],
        &["ui.enabled=true", "ui.auth=token", "ui.ingress.enabled=true", "ui.ingress.host=kaudit.example.com"],
        &["record={status}"],
        &["record={events}"],
        &["events=none"],
    ] {
        let chart = chart();
        let base = ["install", "kaudit", chart.to_str().unwrap(), "--dry-run=client", "--namespace", &release];
        let settings: Vec<&str> = settings.iter().flat_map(|setting| ["--set", setting]).collect();
        let ended = helm(&[&base[..], &settings].concat()).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        let notes = ended.stdout.split_once("NOTES:").expect("a release has notes").1;
        let commands: Vec<&str> = notes.lines().filter_map(|line| line.strip_prefix("  kubectl ")).collect();
        assert!(commands.len() > 2, "{notes}");
        let has_page = settings.contains(&"ui.enabled=true");
        assert_eq!(notes.contains("Open the page at "), has_page, "{notes}");
        assert_eq!(notes.contains(":8082"), has_page, "{notes}");
        for command in commands {
            // Split like a shell: the only quotes are those around a path.
            let quoted = command.split('\'').enumerate();
            let words =
                quoted.flat_map(|(index, part)| if index % 2 == 0 { part.split(' ').collect() } else { vec![part] });
            let words = words.filter(|word| !word.is_empty()).fold(Vec::<String>::new(), |mut words, word| {
                match words.last_mut().filter(|last| last.ends_with("jsonpath=")) {
                    Some(last) => last.push_str(word),
                    None => words.push(word.to_owned()),
                }
                words
            });
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            // A resource that is not installed is not found; any other error is a wrong command.
            if let Err(error) = plane.kubectl(&words).await {
                let text = format!("{error:#}");
                let is_absent = text.contains("NotFound") || text.contains("doesn't have a resource type");
                assert!(is_absent, "{command}\n{text}");
            }
        }
    }
}
