# METADATA
# title: Deprecated API versions
# description: |
#   Objects survive the removal of the API version that they were written with; manifests and clients that use it fail.
#   The releases are counted from the one in data.kaudit.kubernetes_version, such as "1.33", and without it from 1.36.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/using-api/deprecation-guide/
package deprecated_apis

# METADATA
# title: Removed API version
# description: The API server refuses a manifest in an API version that its release no longer serves.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/using-api/deprecation-guide/
# custom:
#   id: API-01
#   severity: high
#   frameworks: {nsa-1.2: [upgrades]}
deny_removed_version contains result if {
	[minor, replacement, source] := of_manifest
	minor <= release
	result := found(
		sprintf("Kubernetes 1.%d removed %s %s: %s", [minor, input.apiVersion, input.kind, instead(replacement)]),
		"apiVersion", input.apiVersion, [minor, replacement, source],
	)
}

# METADATA
# title: Deprecated API version
# description: This release still serves the API version; a later one does not, and refuses the manifest.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/using-api/deprecation-guide/
# custom:
#   id: API-02
#   severity: medium
#   frameworks: {nsa-1.2: [upgrades]}
warn_deprecated_version contains result if {
	[minor, replacement, source] := of_manifest
	minor > release
	result := found(
		sprintf("Kubernetes 1.%d no longer serves %s %s: %s", [minor, input.apiVersion, input.kind, instead(replacement)]),
		"apiVersion", input.apiVersion, [minor, replacement, source],
	)
}

# METADATA
# title: Written through an old API version
# description: |
#   The object is valid, but its managedFields show that a manager wrote fields of it through another API version. If the
#   manager still uses that version when the API server no longer serves it, its requests fail.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
# custom:
#   id: API-03
#   severity: medium
#   frameworks: {nsa-1.2: [upgrades]}
warn_old_writer contains result if {
	# mutants: equivalent, because other kinds have no removals: so the rule is evaluated for these kinds only.
	input.kind in data.lib.removed_apis.kinds
	some entry in input.metadata.managedFields
	entry.apiVersion != input.apiVersion
	[minor, replacement, source] := data.lib.removed_apis.removals[input.kind][entry.apiVersion]
	result := found(
		sprintf("\"%s\" wrote it through %s, which Kubernetes 1.%d no longer serves: %s", [
			manager(entry), entry.apiVersion, minor, instead(replacement),
		]),
		"metadata.managedFields", entry.apiVersion, [minor, replacement, source],
	)
}

# METADATA
# description: |
#   The removal of the object's own API version. For an object in a cluster, the server chooses the version, and it cannot
#   be changed in the object.
of_manifest := data.lib.removed_apis.removals[input.kind][input.apiVersion] if {
	# mutants: equivalent, because other kinds have no removals: so the rules are evaluated for these kinds only.
	input.kind in data.lib.removed_apis.kinds
	not input.metadata.uid
}

# METADATA
# description: The minor version of the release that is there.
release := to_number(minor) if {
	is_string(data.kaudit.kubernetes_version)

	# mutants: equivalent, because a pattern that begins with ^ matches once.
	[[_, minor]] := regex.find_all_string_submatch_n(`^v?1\.([0-9]+)`, data.kaudit.kubernetes_version, 1)
} else := data.lib.removed_apis.newest

# METADATA
# description: Who wrote; a very old client gave no name.
manager(entry) := "unknown" if {
	object.get(entry, "manager", "") == ""
} else := entry.manager if {
	is_string(entry.manager)
}

instead("") := "there is no replacement"

instead(replacement) := sprintf("use %s", [replacement]) if replacement != ""

found(msg, field, value, [minor, replacement, source]) := {
	"msg": msg,
	"details": {
		"field": field,
		"value": value,
		"removed": sprintf("1.%d", [minor]),
		"replacement": replacement,
		"source": data.lib.removed_apis.page(source),
	},
}
