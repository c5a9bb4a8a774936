# METADATA
# title: "Practices: images"
# description: Digests of images, and the registries that they come from. Off by default, because teams differ in both.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/containers/images/#image-names
package practices.images

# METADATA
# title: No digest
# description: A tag can be moved to another image; a digest can't. Off by default, since most images have only a tag.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/containers/images/#image-pull-policy
# custom:
#   id: IMG-02
#   severity: low
#   frameworks: {nsa-1.2: [images]}
warn_missing_digest contains result if {
	some container in data.lib.workload.containers
	image := container.spec.image
	is_tagged(image)
	result := data.lib.workload.flaw(
		container, "image", image,
		sprintf("runs the image \"%s\" without a digest: add @sha256:…", [data.lib.images.shown(container, image, 69)]),
	)
}

is_tagged(image) if {
	is_string(image)
	not contains(image, "@")
	data.lib.images.tag(image) != "latest"
}

# METADATA
# title: Registry that is not allowed
# description: |
#   An image of an unknown registry may contain anything. The parameter lists registries, or paths in them such as
#   `registry.example.com/shop`; without it, nothing is reported. An image without a registry is one of `docker.io`.
# custom:
#   id: IMG-03
#   severity: medium
#   frameworks: {cis-1.12: ["5.5.1"], nsa-1.2: [images]}
#   parameters:
#     registries:
#       type: array
#       items: {type: string}
#       default: []
#       description: Registries that images may come from, or paths in them.
deny_other_registry contains result if {
	some container in data.lib.workload.containers
	count(registries) > 0
	image := container.spec.image
	name := repository(image)
	not is_allowed(name)
	result := data.lib.workload.flaw(
		container, "image", image,
		sprintf("runs %s, which is in no allowed registry: use an image from an allowed one", [name]),
	)
}

registries := data.parameters["IMG-03"].registries

is_allowed(name) if {
	some registry in registries

	# The name is the registry or path itself, or continues after a slash.
	regex.match(`^(/|$)`, trim_prefix(name, trim_suffix(registry, "/")))
}

# The name of an image with its registry, and without tag and digest, as container runtimes complete it.
repository(image) := qualified(regex.replace(image, `(:[^:/@]*)?(@.*)?$`, "")) if {
	image != ""
}

qualified(name) := name if {
	has_registry(name)
} else := sprintf("docker.io/%s", [name]) if {
	contains(name, "/")
} else := sprintf("docker.io/library/%s", [name])

has_registry(name) if regex.match(`^([^/]*[.:][^/]*|localhost)/`, name)

# METADATA
# title: Registry that is no longer updated
# description: |
#   `k8s.gcr.io` and `gcr.io/google_containers` receive no new images and may be switched off. All their images are in
#   `registry.k8s.io`.
# related_resources:
# - ref: https://kubernetes.io/blog/2023/02/06/k8s-gcr-io-freeze-announcement/
# custom:
#   id: IMG-04
#   severity: medium
deny_frozen_registry contains result if {
	some container in data.lib.workload.containers
	image := container.spec.image
	some registry in ["k8s.gcr.io/", "gcr.io/google_containers/", "gcr.io/google-containers/"]
	startswith(image, registry)
	flaw := data.lib.workload.flaw(
		container, "image", image,
		sprintf("runs an image of %s, which is no longer updated: use registry.k8s.io", [trim_suffix(registry, "/")]),
	)
	result := data.lib.workload.fixed(flaw, sprintf("registry.k8s.io/%s", [trim_prefix(image, registry)]))
}
