# METADATA
# title: Secrets
# description: Whether a Secret that is referred to exists.
package lib.secrets

# METADATA
# description: |
#   Whether the Secret is missing beside the input. Manifests often have an object from which a controller creates the Secret; in
#   a cluster, the Secret itself has to exist.
is_missing(name) if {
	not data.lib.neighbours.is_beside("v1", "Secret", name)
	not is_generated(name)
}

is_generated(name) if {
	is_manifest
	data.lib.neighbours.is_beside("bitnami.com/v1alpha1", "SealedSecret", name)
}

is_generated(name) if {
	is_manifest
	some item in data.lib.neighbours.in_namespace("cert-manager.io/v1", "Certificate")
	item.spec.secretName == name
}

is_generated(name) if {
	is_manifest
	some item in data.lib.neighbours.in_namespace("external-secrets.io/v1", "ExternalSecret")
	target(item) == name
}

is_generated(name) if {
	is_manifest
	some item in data.lib.neighbours.in_namespace("external-secrets.io/v1beta1", "ExternalSecret")
	target(item) == name
}

# Only the API server gives an object a UID.
is_manifest if not input.metadata.uid

target(item) := item.spec.target.name

target(item) := item.metadata.name if not item.spec.target.name
