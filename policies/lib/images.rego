# METADATA
# title: Image references
# description: Reads tags of images, and shortens images in messages.
package lib.images

# METADATA
# description: |
#   The tag, followed by the digest if there is one; `latest` if there is none. The colon of a registry's port is before the last
#   slash.
tag(image) := found if {
	found := split(last_segment(image), ":")[1]
} else := "latest"

# METADATA
# description: |
#   The image in a message: without its registry and path if it and the label of the container are longer than `limit` together.
shown(container, image, limit) := image if length(container, image) <= limit

shown(container, image, limit) := sprintf("…/%s", [last_segment(image)]) if length(container, image) > limit

length(container, image) := count(data.lib.workload.label(container)) + count(image)

last_segment(image) := segments[count(segments) - 1] if segments := split(image, "/")
