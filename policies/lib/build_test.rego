# Objects for the tests of all packages.
package lib.build_test

# A container without violations.
container := {
	"name": "web",
	"image": "registry.example.com/shop/web:1.4.2@sha256:9b2c5a1f0d3e4b6a7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80910213243",
	"ports": [{"containerPort": 8080}],
	"env": [{"name": "LOG_LEVEL", "value": "info"}],
	"resources": {"requests": {"cpu": "50m", "memory": "64Mi"}, "limits": {"memory": "64Mi"}},
	"readinessProbe": {"httpGet": {"path": "/ready", "port": 8080}},
	"livenessProbe": {"httpGet": {"path": "/live", "port": 8080}},
	"securityContext": {
		"allowPrivilegeEscalation": false,
		"capabilities": {"drop": ["ALL"]},
		"readOnlyRootFilesystem": true,
	},
}

# Its pod.
spec := {
	"serviceAccountName": "web",
	"securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
	"volumes": [{"name": "tmp", "emptyDir": {}}],
	"containers": [container],
}

pod(content) := {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": content}

deployment(content) := templated("apps/v1", "Deployment", content)

templated(version, kind, content) := {
	"apiVersion": version,
	"kind": kind,
	"metadata": {"name": "web"},
	"spec": {"template": {"metadata": {"labels": {"app": "web"}}, "spec": content}},
}

cron_job(content) := {
	"apiVersion": "batch/v1",
	"kind": "CronJob",
	"metadata": {"name": "web"},
	"spec": {"jobTemplate": {"spec": {"template": {"spec": content}}}},
}

pod_template(content) := {
	"apiVersion": "v1",
	"kind": "PodTemplate",
	"metadata": {"name": "web"},
	"template": {"spec": content},
}

# One workload of every kind.
workloads(content) := [
	pod(content),
	deployment(content),
	templated("apps/v1", "ReplicaSet", content),
	templated("apps/v1", "StatefulSet", content),
	templated("apps/v1", "DaemonSet", content),
	templated("v1", "ReplicationController", content),
	templated("batch/v1", "Job", content),
	cron_job(content),
	pod_template(content),
]

# One workload of every kind with a pod template, in a namespace.
workloads_in(namespace, content) := [object.union(workload, {"metadata": {"namespace": namespace}}) |
	some workload in workloads(content)
	workload.kind != "Pod"
]

# Workloads of every kind with a setting of the pod changed.
with_pod(patch) := workloads(object.union(spec, patch))

# Workloads of every kind, each with a container of every list changed in turn.
with_container(patch) := [workload |
	some list in ["initContainers", "containers", "ephemeralContainers"]
	some workload in workloads(object.union(spec, {list: [object.union(container, patch)]}))
]

# Pods with a setting of the main container changed.
pod_with_container(patch) := pod(object.union(spec, {"containers": [object.union(container, patch)]}))

context(settings) := {"securityContext": settings}

messages(results) := {result.msg | some result in results}

fields(results) := {result.details.field | some result in results}

# A Pod with one container, as the examples on the pages of rules have it.
small(settings, container_settings) := pod(object.union(
	{"containers": [object.union({"name": "web", "image": "registry.example.com/web:1.4.2"}, container_settings)]},
	settings,
))

# The inventory of these objects.
inventory(objects) := {
	"cluster": by_kind([item | some item in objects; not item.metadata.namespace]),
	"namespace": {namespace: own |
		some namespace in {item.metadata.namespace | some item in objects}
		own := by_kind([item | some item in objects; item.metadata.namespace == namespace])
	},
}

by_kind(objects) := {version: kinds |
	some version in {item.apiVersion | some item in objects}
	kinds := {kind: named |
		some kind in {item.kind | some item in objects; item.apiVersion == version}
		named := {item.metadata.name: item | some item in objects; [item.apiVersion, item.kind] == [version, kind]}
	}
}
