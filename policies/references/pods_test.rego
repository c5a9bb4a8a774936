package references.pods_test

import data.lib.build_test as build

# For the pages of the rules. Both manifests are checked beside these objects.
examples := {
	"deny_missing_service_account": {
		"beside": [named("v1", "ServiceAccount", "web")],
		"violating": build.small({"serviceAccountName": "wbe"}, {}),
		"correct": build.small({"serviceAccountName": "web"}, {}),
	},
	"deny_missing_config_map": {
		"beside": [config],
		"violating": build.small({}, {"envFrom": [{"configMapRef": {"name": "wbe"}}]}),
		"correct": build.small({}, {"envFrom": [{"configMapRef": {"name": "web"}}]}),
	},
	"deny_missing_secret": {
		"beside": [secret],
		"violating": build.small({}, {"env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "web", "key": "pasword"}}}]}),
		"correct": build.small({}, {"env": [{"name": "PASSWORD", "valueFrom": {"secretKeyRef": {"name": "web", "key": "password"}}}]}),
	},
	"deny_missing_claim": {
		"beside": [named("v1", "PersistentVolumeClaim", "data")],
		"violating": build.small({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "web"}}]}, {}),
		"correct": build.small({"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}, {}),
	},
	"deny_missing_pod_class": {
		"beside": [named("scheduling.k8s.io/v1", "PriorityClass", "business")],
		"violating": build.small({"priorityClassName": "important"}, {}),
		"correct": build.small({"priorityClassName": "business"}, {}),
	},
	"deny_missing_storage_class": {
		"beside": [named("storage.k8s.io/v1", "StorageClass", "fast")],
		"violating": claim({"storageClassName": "ssd"}),
		"correct": claim({"storageClassName": "fast"}),
	},
	"deny_missing_probe_port": {
		"beside": [],
		"violating": build.small({}, {"ports": [{"containerPort": 8080}], "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}}}),
		"correct": build.small({}, {
			"ports": [{"name": "http", "containerPort": 8080}],
			"readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}},
		}),
	},
}

test_examples if {
	every rule, example in examples {
		store := build.inventory(example.beside)
		count(by_name[rule]) == 1 with input as example.violating with data.inventory as store
		count(by_name[rule]) == 0 with input as example.correct with data.inventory as store
	}
}

named(version, kind, name) := {"apiVersion": version, "kind": kind, "metadata": {"name": name}}

config := object.union(named("v1", "ConfigMap", "web"), {"data": {"LEVEL": "info"}, "binaryData": {"logo": ""}})

secret := object.union(named("v1", "Secret", "web"), {"data": {"password": ""}, "stringData": {"token": ""}})

claim(spec) := object.union(named("v1", "PersistentVolumeClaim", "data"), {"spec": spec})

in_namespace(namespace, item) := object.union(item, {"metadata": {"namespace": namespace}})

# Whether each kind of workload with this pod has as many results of a rule, beside these objects.
each_has(rule, spec, objects, want) if {
	store := build.inventory(objects)
	every workload in build.workloads(spec) {
		count(by_name[rule]) == want with input as workload with data.inventory as store
	}
}

by_name := {
	"deny_missing_claim": data.references.pods.deny_missing_claim,
	"deny_missing_config_map": data.references.pods.deny_missing_config_map,
	"deny_missing_pod_class": data.references.pods.deny_missing_pod_class,
	"deny_missing_probe_port": data.references.pods.deny_missing_probe_port,
	"deny_missing_secret": data.references.pods.deny_missing_secret,
	"deny_missing_service_account": data.references.pods.deny_missing_service_account,
	"deny_missing_storage_class": data.references.pods.deny_missing_storage_class,
}

# The results for a Deployment with this pod.
results(rule, spec, objects) := found if {
	store := build.inventory(objects)
	found := by_name[rule] with input as build.deployment(spec) with data.inventory as store
}

messages(rule, spec, objects) := build.messages(results(rule, spec, objects))

fields(rule, spec, objects) := {trim_prefix(field, "spec.template.spec.") | some field in build.fields(results(rule, spec, objects))}

values(rule, spec, objects) := {result.details.value | some result in results(rule, spec, objects)}

web_account := named("v1", "ServiceAccount", "web")

test_missing_account if {
	each_has("deny_missing_service_account", {"serviceAccountName": "web"}, [], 1)
	each_has("deny_missing_service_account", {"serviceAccount": "web"}, [], 1)
	each_has("deny_missing_service_account", {"serviceAccountName": "api"}, [web_account], 1)
	each_has("deny_missing_service_account", {"serviceAccountName": "web"}, [in_namespace("shop", web_account)], 1)
	each_has("deny_missing_service_account", {"serviceAccountName": "web", "serviceAccount": "web"}, [web_account], 0)
	results("deny_missing_service_account", {"serviceAccount": "web"}, []) == {{
		"msg": "ServiceAccount \"web\" does not exist: create it, or correct serviceAccount",
		"details": {"field": "spec.template.spec.serviceAccount", "value": "web"},
	}}
}

test_default_account if {
	each_has("deny_missing_service_account", {}, [], 0)
	each_has("deny_missing_service_account", {"serviceAccountName": null}, [], 0)
	each_has("deny_missing_service_account", {"serviceAccountName": "default", "serviceAccount": "default"}, [], 0)
}

test_account_of_another_namespace if {
	workload := in_namespace("shop", build.deployment({"serviceAccountName": "web"}))
	every place, want in {"shop": 0, "bank": 1} {
		store := build.inventory([in_namespace(place, web_account)])
		count(data.references.pods.deny_missing_service_account) == want with input as workload with data.inventory as store
	}
}

# Pods that refer to a ConfigMap, or a Secret, in each way.
referring(reference) := [
	{"containers": [{"name": "a", "env": [{"name": "A"}, {"name": "B", "valueFrom": {"configMapKeyRef": reference}}]}]},
	{"initContainers": [{"name": "a", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]}]},
	{"ephemeralContainers": [{"name": "a", "env": [{"name": "A", "valueFrom": {"configMapKeyRef": reference}}]}]},
	{"volumes": [{"name": "a"}, {"name": "b", "configMap": with_item(reference)}]},
	{"volumes": [{"name": "b", "projected": {"sources": [{"downwardAPI": {}}, {"configMap": with_item(reference)}]}}]},
]

with_item(reference) := object.union(object.remove(reference, ["key"]), {"items": [{"key": reference.key, "path": "a"}]})

referring_to_secret(reference) := [
	{"containers": [{"name": "a", "env": [{"name": "A"}, {"name": "B", "valueFrom": {"secretKeyRef": reference}}]}]},
	{"initContainers": [{"name": "a", "env": [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]}]},
	{"volumes": [{"name": "a"}, {"name": "b", "secret": object.union(object.remove(with_item(reference), ["name"]), {"secretName": reference.name})}]},
	{"volumes": [{"name": "b", "projected": {"sources": [{"secret": with_item(reference)}]}}]},
]

from_env(source) := {"containers": [{"name": "a", "envFrom": [{"prefix": "A"}, source]}]}

test_missing_config_map if {
	every spec in referring({"name": "api", "key": "LEVEL"}) {
		each_has("deny_missing_config_map", spec, [config], 1)
		messages("deny_missing_config_map", spec, [config]) == {"ConfigMap \"api\" does not exist: create it, correct the name, or set optional: true"}
	}
	each_has("deny_missing_config_map", from_env({"configMapRef": {"name": "api"}}), [config], 1)
	each_has("deny_missing_config_map", from_env({"configMapRef": {"name": "web"}}), [in_namespace("bank", config)], 1)
}

test_config_map_without_the_key if {
	every spec in referring({"name": "web", "key": "LEVLE"}) {
		each_has("deny_missing_config_map", spec, [config], 1)
		messages("deny_missing_config_map", spec, [config]) == {"ConfigMap \"web\" has no key \"LEVLE\": add it, correct the key, or set optional: true"}
	}
}

test_config_map_with_the_key if {
	every key in ["LEVEL", "logo"] {
		every spec in referring({"name": "web", "key": key}) {
			each_has("deny_missing_config_map", spec, [config], 0)
		}
	}
	each_has("deny_missing_config_map", from_env({"configMapRef": {"name": "web"}}), [config], 0)
	each_has("deny_missing_config_map", {"volumes": [{"name": "a", "configMap": {"name": "web", "items": null}}]}, [config], 0)
}

test_optional_config_map if {
	every reference in [{"name": "api", "key": "LEVEL"}, {"name": "web", "key": "OTHER"}] {
		every spec in referring(object.union(reference, {"optional": true})) {
			each_has("deny_missing_config_map", spec, [config], 0)
		}
		every spec in referring(object.union(reference, {"optional": false})) {
			each_has("deny_missing_config_map", spec, [config], 1)
		}
	}
	each_has("deny_missing_config_map", from_env({"configMapRef": {"name": "api", "optional": true}}), [], 0)
	each_has("deny_missing_config_map", from_env({"configMapRef": {"name": "api", "optional": null}}), [], 1)
}

test_config_maps_of_controllers if {
	every name in ["istio-ca-root-cert", "kube-root-ca.crt", "openshift-service-ca.crt"] {
		every spec in referring({"name": name, "key": "ca.crt"}) {
			each_has("deny_missing_config_map", spec, [], 0)
		}
	}
}

test_incomplete_references if {
	every reference in [{"name": null, "key": "a"}, {"name": "", "key": "a"}] {
		every spec in array.concat(referring(reference), referring_to_secret(reference)) {
			each_has("deny_missing_config_map", spec, [], 0)
			each_has("deny_missing_secret", spec, [], 0)
		}
	}
	each_has("deny_missing_config_map", {"volumes": null, "containers": [{"env": null, "envFrom": null}, null]}, [], 0)
	each_has("deny_missing_config_map", {"volumes": [{"configMap": null}], "containers": [{"env": [{"valueFrom": null}]}]}, [], 0)
}

test_config_map_is_reported_once if {
	spec := {
		"containers": [{"name": "a", "envFrom": [{"configMapRef": {"name": "api"}}]}],
		"volumes": [{"name": "a", "configMap": {"name": "api"}}],
	}
	fields("deny_missing_config_map", spec, []) == {"containers[0].envFrom[0].configMapRef.name"}
	values("deny_missing_config_map", spec, []) == {"api"}
	keys := [{"key": "A", "path": "a"}, {"key": "A", "path": "b"}]
	fields("deny_missing_config_map", {"volumes": [{"name": "a", "configMap": {"name": "web", "items": keys}}]}, [config]) == {"volumes[0].configMap.items[0].key"}
	values("deny_missing_config_map", {"volumes": [{"name": "a", "configMap": {"name": "web", "items": keys}}]}, [config]) == {"A"}
}

test_fields_of_references if {
	want := [
		"containers[0].env[1].valueFrom.configMapKeyRef",
		"initContainers[0].env[0].valueFrom.configMapKeyRef",
		"ephemeralContainers[0].env[0].valueFrom.configMapKeyRef",
		"volumes[1].configMap",
		"volumes[0].projected.sources[1].configMap",
	]
	absent := referring({"name": "api", "key": "a"})
	every i, field in want {
		fields("deny_missing_config_map", absent[i], []) == {sprintf("%s.name", [field])}
	}
	keyless := referring({"name": "web", "key": "a"})
	every i, field in want {
		some key in ["key", "items[0].key"]
		fields("deny_missing_config_map", keyless[i], [config]) == {sprintf("%s.%s", [field, key])}
	}
	volume := {"volumes": [{"name": "a", "secret": {"secretName": "api"}}]}
	fields("deny_missing_secret", volume, []) == {"volumes[0].secret.secretName"}
}

test_missing_secret if {
	every spec in referring_to_secret({"name": "api", "key": "password"}) {
		each_has("deny_missing_secret", spec, [secret], 1)
		messages("deny_missing_secret", spec, [secret]) == {"Secret \"api\" does not exist: create it, correct the name, or set optional: true"}
	}
	each_has("deny_missing_secret", from_env({"secretRef": {"name": "api"}}), [secret], 1)
	each_has("deny_missing_secret", from_env({"secretRef": {"name": "web"}}), [in_namespace("bank", secret)], 1)
}

test_secret_without_the_key if {
	every spec in referring_to_secret({"name": "web", "key": "pasword"}) {
		each_has("deny_missing_secret", spec, [secret], 1)
		messages("deny_missing_secret", spec, [secret]) == {"Secret \"web\" has no key \"pasword\": add it, correct the key, or set optional: true"}
	}
}

# Values are removed from Secrets, keys are not.
test_secret_with_the_key if {
	every key in ["password", "token"] {
		every spec in referring_to_secret({"name": "web", "key": key}) {
			each_has("deny_missing_secret", spec, [secret], 0)
		}
	}
	each_has("deny_missing_secret", from_env({"secretRef": {"name": "web"}}), [secret], 0)
}

test_optional_secret if {
	every spec in referring_to_secret({"name": "api", "key": "password", "optional": true}) {
		each_has("deny_missing_secret", spec, [], 0)
	}
}

test_keys_that_a_controller_adds if {
	token := object.union(named("v1", "Secret", "web"), {"type": "kubernetes.io/service-account-token"})
	every spec in referring_to_secret({"name": "web", "key": "token"}) {
		each_has("deny_missing_secret", spec, [token], 0)
		each_has("deny_missing_secret", spec, [object.union(token, {"type": "Opaque"})], 1)
	}
}

test_secrets_for_images if {
	spec := {"imagePullSecrets": [{"name": null}, {"name": ""}, {"name": "web"}, {"name": "registry"}]}
	each_has("deny_missing_secret", spec, [secret], 1)
	results("deny_missing_secret", spec, [secret]) == {{
		"msg": "image pull Secret \"registry\" does not exist: create it, or remove it from imagePullSecrets",
		"severity": "low",
		"details": {"field": "spec.template.spec.imagePullSecrets[3].name", "value": "registry"},
	}}
	each_has("deny_missing_secret", spec, [secret, named("v1", "Secret", "registry")], 0)
}

# Controllers create Secrets from these objects. In a cluster, the Secret itself has to exist.
test_secrets_that_controllers_create if {
	external := named("external-secrets.io/v1", "ExternalSecret", "web")
	older := named("external-secrets.io/v1beta1", "ExternalSecret", "web")
	every item in [
		named("bitnami.com/v1alpha1", "SealedSecret", "web"),
		external,
		object.union(named("external-secrets.io/v1", "ExternalSecret", "other"), {"spec": {"target": {"name": "web"}}}),
		older,
		object.union(named("external-secrets.io/v1beta1", "ExternalSecret", "other"), {"spec": {"target": {"name": "web"}}}),
		object.union(named("cert-manager.io/v1", "Certificate", "other"), {"spec": {"secretName": "web"}}),
	] {
		each_has("deny_missing_secret", from_env({"secretRef": {"name": "web"}}), [item], 0)
		created := object.union(build.deployment(from_env({"secretRef": {"name": "web"}})), {"metadata": {"uid": "a1b2"}})
		store := build.inventory([item])
		count(data.references.pods.deny_missing_secret) == 1 with input as created with data.inventory as store
	}
	certificates := [object.union(named("cert-manager.io/v1", "Certificate", name), {"spec": {"secretName": name}}) | some name in ["api", "web"]]
	each_has("deny_missing_secret", from_env({"secretRef": {"name": "web"}}), certificates, 0)
	every version in ["v1", "v1beta1"] {
		externals := [named(sprintf("external-secrets.io/%s", [version]), "ExternalSecret", name) | some name in ["api", "web"]]
		each_has("deny_missing_secret", from_env({"secretRef": {"name": "web"}}), externals, 0)
	}
	every item in [
		named("bitnami.com/v1alpha1", "SealedSecret", "api"),
		named("external-secrets.io/v1", "ExternalSecret", "api"),
		named("external-secrets.io/v1beta1", "ExternalSecret", "api"),
		object.union(external, {"spec": {"target": {"name": "api"}}}),
		object.union(older, {"spec": {"target": {"name": "api"}}}),
		object.union(named("cert-manager.io/v1", "Certificate", "web"), {"spec": {"secretName": "api"}}),
	] {
		each_has("deny_missing_secret", from_env({"secretRef": {"name": "web"}}), [item], 1)
	}
}

mounting(name) := {"volumes": [{"name": "tmp", "emptyDir": {}}, {"name": "data", "persistentVolumeClaim": {"claimName": name}}]}

test_missing_claim if {
	each_has("deny_missing_claim", mounting("data"), [], 1)
	each_has("deny_missing_claim", mounting("data"), [in_namespace("bank", claim({}))], 1)
	each_has("deny_missing_claim", mounting("data"), [claim({})], 0)
	results("deny_missing_claim", mounting("data"), []) == {{
		"msg": "PersistentVolumeClaim \"data\" does not exist: create it, or correct claimName of volume \"data\"",
		"details": {"field": "spec.template.spec.volumes[1].persistentVolumeClaim.claimName", "value": "data"},
	}}
	unnamed := {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}]}
	each_has("deny_missing_claim", unnamed, [], 1)
}

test_claims_that_controllers_create if {
	ephemeral := {"volumes": [{"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": {"storageClassName": "fast"}}}}]}
	each_has("deny_missing_claim", ephemeral, [], 0)
	templates := {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}}]}}
	database := object.union(build.templated("apps/v1", "StatefulSet", mounting("data")), templates)
	count(data.references.pods.deny_missing_claim) == 0 with input as database
	other := object.union(database, {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "logs"}}]}})
	count(data.references.pods.deny_missing_claim) == 1 with input as other
}

test_incomplete_claims if {
	each_has("deny_missing_claim", mounting(null), [], 0)
	each_has("deny_missing_claim", mounting(""), [], 0)
	each_has("deny_missing_claim", {"volumes": [{"name": "data", "persistentVolumeClaim": null}, null]}, [], 0)
}

test_missing_class_of_a_pod if {
	priority := named("scheduling.k8s.io/v1", "PriorityClass", "business")
	runtime := named("node.k8s.io/v1", "RuntimeClass", "gvisor")
	both := {"priorityClassName": "business", "runtimeClassName": "gvisor"}
	each_has("deny_missing_pod_class", both, [], 2)
	each_has("deny_missing_pod_class", both, [priority], 1)
	each_has("deny_missing_pod_class", both, [runtime], 1)
	each_has("deny_missing_pod_class", both, [priority, runtime], 0)
	messages("deny_missing_pod_class", both, []) == {
		"PriorityClass \"business\" does not exist: create it, or correct priorityClassName",
		"RuntimeClass \"gvisor\" does not exist: create it, or correct runtimeClassName",
	}
	fields("deny_missing_pod_class", both, []) == {"priorityClassName", "runtimeClassName"}
}

test_classes_of_the_pod_that_need_not_exist if {
	each_has("deny_missing_pod_class", {}, [], 0)
	each_has("deny_missing_pod_class", {"priorityClassName": null, "runtimeClassName": null}, [], 0)
	each_has("deny_missing_pod_class", {"priorityClassName": "", "runtimeClassName": ""}, [], 0)
	each_has("deny_missing_pod_class", {"priorityClassName": "system-node-critical"}, [], 0)
	each_has("deny_missing_pod_class", {"priorityClassName": "system-cluster-critical"}, [], 0)
}

storage(item, objects) := found if {
	found := data.references.pods.deny_missing_storage_class with input as item with data.inventory as build.inventory(objects)
}

test_missing_storage_class if {
	fast := claim({"storageClassName": "fast"})
	storage(fast, [named("storage.k8s.io/v1", "StorageClass", "slow")]) == {{
		"msg": "StorageClass \"fast\" does not exist, nor a volume of this class: create it, or correct storageClassName",
		"details": {"field": "spec.storageClassName", "value": "fast"},
	}}
	storage(fast, [named("storage.k8s.io/v1", "StorageClass", "fast")]) == set()
	templates := {"spec": {"volumeClaimTemplates": [{"spec": {}}, {"spec": {"storageClassName": "fast"}}]}}
	database := object.union(build.templated("apps/v1", "StatefulSet", {}), templates)
	build.fields(storage(database, [])) == {"spec.volumeClaimTemplates[1].spec.storageClassName"}
	storage(database, [named("storage.k8s.io/v1", "StorageClass", "fast")]) == set()
}

# A volume that was created by hand needs no object for its class.
test_class_of_a_volume if {
	volume := object.union(named("v1", "PersistentVolume", "disk"), {"spec": {"storageClassName": "manual"}})
	storage(claim({"storageClassName": "manual"}), [volume]) == set()
	storage(claim({"storageClassName": "manual"}), [in_namespace("shop", volume)]) == set()
	count(storage(claim({"storageClassName": "other"}), [volume])) == 1
	count(storage(claim({"storageClassName": "other"}), [in_namespace("shop", volume)])) == 1
}

test_no_storage_class_is_needed if {
	every spec in [
		{},
		{"storageClassName": null},
		{"storageClassName": ""},
		{"storageClassName": "fast", "volumeName": "disk"},
	] {
		storage(claim(spec), []) == set()
	}
	count(storage(claim({"storageClassName": "fast", "volumeName": ""}), [])) == 1
	fast := claim({"storageClassName": "fast"})
	storage(object.union(fast, {"apiVersion": "example.com/v1"}), []) == set()
	storage(object.union(fast, {"kind": "VolumeClaim"}), []) == set()
	templates := {"spec": {"volumeClaimTemplates": [{"spec": {"storageClassName": "fast"}}]}}
	storage(object.union(build.templated("apps.kruise.io/v1beta1", "StatefulSet", {}), templates), []) == set()
	storage(object.union(build.templated("apps/v1", "DaemonSet", {}), templates), []) == set()
}

probed(list, fields) := {list: [object.union({"name": "web", "ports": [{"name": "http", "containerPort": 8080}]}, fields)]}

test_probe_of_a_missing_port if {
	every list in ["initContainers", "containers"] {
		every check in ["livenessProbe", "readinessProbe", "startupProbe"] {
			every action in ["httpGet", "tcpSocket"] {
				each_has("deny_missing_probe_port", probed(list, {check: {action: {"port": "admin"}}}), [], 1)
				each_has("deny_missing_probe_port", probed(list, {"ports": null, check: {action: {"port": "http"}}}), [], 1)
				each_has("deny_missing_probe_port", probed(list, {check: {action: {"port": "http"}}}), [], 0)
			}
		}
	}
	spec := probed("containers", {"livenessProbe": {"httpGet": {"port": "admin"}}})
	results("deny_missing_probe_port", spec, []) == {{
		"msg": "container \"web\" has no port named \"admin\" for its livenessProbe: add the name to ports, or use a number",
		"details": {"container": "web", "field": "spec.template.spec.containers[0].livenessProbe.httpGet.port", "value": "admin"},
	}}
}

test_port_of_another_container if {
	spec := {"containers": [
		{"name": "web", "readinessProbe": {"tcpSocket": {"port": "http"}}},
		{"name": "proxy", "ports": [{"name": "http", "containerPort": 80}]},
	]}
	each_has("deny_missing_probe_port", spec, [], 1)
}

test_probes_that_need_no_name if {
	every probe in [null, {}, {"httpGet": null}, {"httpGet": {"port": 8080}}, {"tcpSocket": {"port": "8080"}}, {"httpGet": {"port": null}}, {"exec": {"command": ["true"]}}] {
		each_has("deny_missing_probe_port", {"containers": [{"name": "web", "readinessProbe": probe}]}, [], 0)
	}

	# Fields that are similar to those of the rule.
	every container in [{"readinessProbe": {"grpc": {"port": "admin"}}}, {"otherProbe": {"httpGet": {"port": "admin"}}}] {
		each_has("deny_missing_probe_port", {"containers": [container]}, [], 0)
	}
}

test_generated_pods_are_left_to_their_owner if {
	broken := {
		"serviceAccountName": "web",
		"priorityClassName": "web",
		"imagePullSecrets": [{"name": "web"}],
		"volumes": [{"name": "claim", "persistentVolumeClaim": {"claimName": "web"}}],
		"containers": [{
			"name": "web",
			"envFrom": [{"configMapRef": {"name": "web"}}, {"secretRef": {"name": "web"}}],
			"readinessProbe": {"httpGet": {"port": "web"}},
		}],
	}
	owner := {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true}
	pod := build.pod(broken)
	generated := object.union(pod, {"metadata": {"ownerReferences": [owner]}})
	every name in ["service_account", "config_map", "secret", "claim", "pod_class", "probe_port"] {
		rule := sprintf("deny_missing_%s", [name])
		count(data.references.pods[rule]) > 0 with input as pod
		count(data.references.pods[rule]) == 0 with input as generated
	}
}
