# METADATA
# title: References of pods
# description: |
#   The objects without which pods cannot be created or cannot start. Reported is the workload, not the pods that it creates.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/pods/
# custom: {excusable: true}
package references.pods

# METADATA
# title: Missing ServiceAccount
# description: |
#   The API server rejects pods whose ServiceAccount does not exist. The account `default` is not reported, since a controller
#   creates it in every namespace.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-service-account/
# custom:
#   id: REF-05
#   severity: high
#   lookups: complete
deny_missing_service_account contains result if {
	not data.lib.workload.is_generated
	account := data.lib.accounts.named(data.lib.workload.spec)
	account.name != "default"
	not data.lib.neighbours.is_beside("v1", "ServiceAccount", account.name)
	msg := sprintf("ServiceAccount \"%v\" does not exist: create it, or correct %s", [account.name, account.field])
	result := data.lib.workload.pod_flaw(account.field, account.name, msg)
}

# METADATA
# title: Missing ConfigMap
# description: |
#   A container does not start while a ConfigMap or one of its keys is missing that it needs. Optional references are not
#   reported, nor are ConfigMaps that controllers create in every namespace.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/configmap/#configmaps-and-pods
# custom:
#   id: REF-06
#   severity: high
#   lookups: complete
deny_missing_config_map contains result if {
	not data.lib.workload.is_generated
	some result in data.lib.results.once(array.concat(
		[absent("ConfigMap", reference) |
			some reference in config_maps
			not data.lib.neighbours.is_beside("v1", "ConfigMap", reference.name)
		],
		[keyless("ConfigMap", reference, key, place) |
			some reference in config_maps
			item := data.lib.neighbours.in_namespace("v1", "ConfigMap")[reference.name]
			some [key, place] in keys(reference.ref)
			not item.data[key]
			not item.binaryData[key]
		],
	))
}

# METADATA
# scope: document
# title: Missing Secret
# description: |
#   A container does not start while a Secret or one of its keys is missing that it needs. Optional references are not reported.
#   A missing Secret for pulling images has a low severity, since the image may be public.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/configuration/secret/#using-a-secret
# custom:
#   id: REF-16
#   severity: high
#   lookups: complete
deny_missing_secret contains result if {
	not data.lib.workload.is_generated
	some result in data.lib.results.once(array.concat(
		[absent("Secret", reference) |
			some reference in secrets
			data.lib.secrets.is_missing(reference.name)
		],
		[keyless("Secret", reference, key, place) |
			some reference in secrets
			item := data.lib.neighbours.in_namespace("v1", "Secret")[reference.name]

			# A controller adds the keys of this type.
			not item.type == "kubernetes.io/service-account-token"
			some [key, place] in keys(reference.ref)
			not item.data[key]
			not item.stringData[key]
		],
	))
}

deny_missing_secret contains object.union(result, {"severity": "low"}) if {
	not data.lib.workload.is_generated
	some i, reference in data.lib.workload.spec.imagePullSecrets
	is_name(reference.name)
	data.lib.secrets.is_missing(reference.name)
	result := data.lib.workload.pod_flaw(
		sprintf("imagePullSecrets[%d].name", [i]), reference.name,
		sprintf("image pull Secret \"%s\" does not exist: create it, or remove it from imagePullSecrets", [reference.name]),
	)
}

# METADATA
# title: Missing PersistentVolumeClaim
# description: |
#   A pod is not scheduled while its claim does not exist. Claims of generic ephemeral volumes, and those that a StatefulSet makes
#   from its templates, are not reported.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#claims-as-volumes
# custom:
#   id: REF-07
#   severity: medium
#   lookups: complete
deny_missing_claim contains result if {
	not data.lib.workload.is_generated
	some i, volume in data.lib.workload.spec.volumes
	name := volume.persistentVolumeClaim.claimName
	is_name(name)
	not data.lib.workload.name(volume) in {template.metadata.name | some template in input.spec.volumeClaimTemplates}
	not data.lib.neighbours.is_beside("v1", "PersistentVolumeClaim", name)
	result := data.lib.workload.pod_flaw(
		sprintf("volumes[%d].persistentVolumeClaim.claimName", [i]), name,
		sprintf("PersistentVolumeClaim \"%s\" does not exist: create it, or correct claimName of volume \"%v\"", [name, data.lib.workload.name(volume)]),
	)
}

# METADATA
# title: Missing class of a pod
# description: |
#   The API server rejects pods whose PriorityClass or RuntimeClass does not exist. Priority classes of Kubernetes itself are not
#   reported.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/scheduling-eviction/pod-priority-preemption/#pod-priority
# - ref: https://kubernetes.io/docs/concepts/containers/runtime-class/
# custom:
#   id: REF-17
#   severity: medium
#   lookups: complete
deny_missing_pod_class contains result if {
	not data.lib.workload.is_generated
	some class in missing_pod_classes
	result := data.lib.workload.pod_flaw(
		class.field, class.name,
		sprintf("%s \"%s\" does not exist: create it, or correct %s", [class.kind, class.name, class.field]),
	)
}

# METADATA
# title: Missing StorageClass
# description: |
#   A claim stays pending if neither its StorageClass nor a PersistentVolume of this class exists. Claims that have a volume are not
#   reported, nor are those without a class.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/storage/persistent-volumes/#class-1
# custom:
#   id: REF-18
#   severity: medium
#   lookups: complete
deny_missing_storage_class contains result if {
	some claim in claims
	name := claim.spec.storageClassName
	is_name(name)
	not is_bound(claim.spec)
	not data.lib.neighbours.is_in_cluster("storage.k8s.io/v1", "StorageClass", name)
	not has_volume(name)
	result := {
		"msg": sprintf("StorageClass \"%s\" does not exist, nor a volume of this class: create it, or correct storageClassName", [name]),
		"details": {"field": sprintf("%s.storageClassName", [claim.path]), "value": name},
	}
}

# METADATA
# title: Probe of a missing port
# description: |
#   A probe finds a port by its name in its own container. Without one, a readiness probe never succeeds and a liveness probe never
#   runs.
# related_resources:
# - ref: https://kubernetes.io/docs/tasks/configure-pod-container/configure-liveness-readiness-startup-probes/#use-a-named-port
# custom:
#   id: REF-19
#   severity: medium
deny_missing_probe_port contains result if {
	not data.lib.workload.is_generated
	some container in data.lib.workload.containers
	some check in ["livenessProbe", "readinessProbe", "startupProbe"]
	some action in ["httpGet", "tcpSocket"]
	port := container.spec[check][action].port
	is_string(port)

	# A number may be quoted.
	not regex.match(`^[0-9]+$`, port)
	not port in {each.name | some each in container.spec.ports}
	result := data.lib.workload.flaw(
		container, sprintf("%s.%s.port", [check, action]), port,
		sprintf("has no port named \"%s\" for its %s: add the name to ports, or use a number", [port, check]),
	)
}

is_name(name) if {
	is_string(name)
	name != ""
}

config_maps := [reference |
	some reference in references("configMapKeyRef", "configMapRef", "configMap", "name")

	# Controllers create these in every namespace.
	not reference.name in {"istio-ca-root-cert", "kube-root-ca.crt", "openshift-service-ca.crt"}
]

secrets := references("secretKeyRef", "secretRef", "secret", "secretName")

# The references of containers and volumes that are not optional. `place` is the path below the owner, made into text for a result
# only, since most references are right.
references(variable, source, volume, name) := [reference |
	some reference in array.concat(
		array.concat(variables(variable), sources(source)),
		array.concat(volumes(volume, name), projections(volume)),
	)
	is_name(reference.name)
	not reference.ref.optional == true
]

variables(kind) := [{"owner": container, "place": ["env", i, "valueFrom", kind], "ref": ref, "field": "name", "name": ref.name} |
	some container in data.lib.workload.containers
	some i, variable in container.spec.env
	ref := variable.valueFrom[kind]
]

sources(kind) := [{"owner": container, "place": ["envFrom", i, kind], "ref": ref, "field": "name", "name": ref.name} |
	some container in data.lib.workload.containers
	some i, source in container.spec.envFrom
	ref := source[kind]
]

volumes(kind, field) := [{"owner": pod, "place": ["volumes", i, kind], "ref": ref, "field": field, "name": ref[field]} |
	some i, volume in pod.spec.volumes
	ref := volume[kind]
]

projections(kind) := [{"owner": pod, "place": ["volumes", i, "projected", "sources", j, kind], "ref": ref, "field": "name", "name": ref.name} |
	some i, volume in pod.spec.volumes
	some j, source in volume.projected.sources
	ref := source[kind]
]

pod := data.lib.workload.owners[0]

# The keys that a reference needs, each with its path below the reference. A variable needs one, a volume has a list.
keys(ref) := array.concat(
	[[key, ["key"]] | key := ref.key],
	[[item.key, ["items", i, "key"]] | some i, item in ref.items],
)

absent(kind, reference) := {
	"msg": sprintf("%s \"%s\" does not exist: create it, correct the name, or set optional: true", [kind, reference.name]),
	"details": {"field": path(reference, [reference.field]), "value": reference.name},
}

keyless(kind, reference, key, place) := {
	"msg": sprintf("%s \"%s\" has no key \"%v\": add it, correct the key, or set optional: true", [kind, reference.name, key]),
	"details": {"field": path(reference, place), "value": key},
}

path(reference, place) := concat("", [data.lib.workload.path(reference.owner), steps(reference.place), steps(place)])

steps(place) := concat("", [step(part) | some part in place])

step(part) := sprintf(".%s", [part]) if is_string(part)

step(part) := sprintf("[%d]", [part]) if is_number(part)

missing_pod_classes contains {"kind": "PriorityClass", "name": name, "field": "priorityClassName"} if {
	name := data.lib.workload.spec.priorityClassName
	is_name(name)
	not startswith(name, "system-")
	not data.lib.neighbours.is_in_cluster("scheduling.k8s.io/v1", "PriorityClass", name)
}

missing_pod_classes contains {"kind": "RuntimeClass", "name": name, "field": "runtimeClassName"} if {
	name := data.lib.workload.spec.runtimeClassName
	is_name(name)
	not data.lib.neighbours.is_in_cluster("node.k8s.io/v1", "RuntimeClass", name)
}

claims contains {"spec": input.spec, "path": "spec"} if {
	input.kind == "PersistentVolumeClaim"
	input.apiVersion == "v1"
}

claims contains {"spec": template.spec, "path": sprintf("spec.volumeClaimTemplates[%d].spec", [i])} if {
	input.kind == "StatefulSet"
	input.apiVersion == "apps/v1"
	some i, template in input.spec.volumeClaimTemplates
}

is_bound(spec) if is_name(spec.volumeName)

has_volume(class) if {
	some volume in data.lib.neighbours.everywhere("v1", "PersistentVolume")
	volume.spec.storageClassName == class
}
