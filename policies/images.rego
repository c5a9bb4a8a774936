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
		sprintf("runs the image \"%s\", which can change: name a version or a digest", [data.lib.images.shown(container, image, 55)]),
	)
}

is_latest(image) if {
	is_string(image)
	image != ""

	# Tools replace such references, as in ko://example.com/web, when they build the image.
	not contains(image, "://")
	data.lib.images.tag(image) == "latest"
}
