# METADATA
# title: Images
# description: An image reference should always mean the same image.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/containers/images/#image-names
package images

# METADATA
# title: Tag latest or none
# description: The tag latest, which is also the default, means another image after the next push.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/containers/images/#image-names
# custom:
#   id: IMG-01
#   severity: medium
#   frameworks: {nsa-1.2: [images]}
deny_latest_tag contains result if {
	some container in data.lib.workload.containers
	image := container.spec.image
	is_latest(image)
	result := data.lib.workload.flaw(
		container, "image", image,
		sprintf("runs the image \"%s\", which can change: name a version or a digest", [shown(container, image, 55)]),
	)
}

# METADATA
# title: No digest
# description: A tag can be moved to another image; a digest can't.
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
		sprintf("runs the image \"%s\" without a digest: add @sha256:…", [shown(container, image, 69)]),
	)
}

# The image in a message: without its registry and path if it and the label of the container are longer than `limit` together.
shown(container, image, limit) := image if count(data.lib.workload.label(container)) + count(image) <= limit

shown(container, image, limit) := sprintf("…/%s", [last_segment(image)]) if count(data.lib.workload.label(container)) + count(image) > limit

is_latest(image) if {
	is_string(image)
	image != ""
	tag(image) == "latest"
}

is_tagged(image) if {
	is_string(image)
	not contains(image, "@")
	tag(image) != "latest"
}

# METADATA
# description: The tag, followed by the digest if there is one. The colon of a registry's port is before the last slash.
tag(image) := found if {
	found := split(last_segment(image), ":")[1]
} else := "latest"

last_segment(image) := segments[count(segments) - 1] if segments := split(image, "/")
