package images_test

import data.lib.build_test as build

digest := "sha256:9b2c5a1f0d3e4b6a7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80910213243"

# For the pages of the rules.
examples := {"deny_latest_tag": {
	"violating": build.small({}, {"image": "registry.example.com/web:latest"}),
	"correct": build.small({}, {"image": "registry.example.com/web:1.4.2"}),
}}

results_of(image) := count(results) if {
	results := data.images.deny_latest_tag with input as build.pod_with_container({"image": image})
}

test_latest_or_no_tag if {
	every image in ["web", "shop/web", "registry.example.com/web", "registry.example.com:5000/web", "web:latest", "registry.example.com:5000/shop/web:latest"] {
		every workload in build.with_container({"image": image}) {
			count(data.images.deny_latest_tag) == 1 with input as workload
		}
	}
}

test_version_tag if {
	every image in ["web:1.4", "registry.example.com:5000/shop/web:1.4.2", "web:latest-arm64"] {
		results_of(image) == 0
	}
}

test_digest if {
	every name in ["web", "web:latest", "registry.example.com:5000/shop/web:1.4.2"] {
		results_of(sprintf("%s@%s", [name, digest])) == 0
	}
}

# A template may leave the image out, or name what to build.
test_no_image if {
	every image in ["", null, 1, "ko://example.com/web"] {
		results_of(image) == 0
	}
}

test_messages if {
	latest := data.images.deny_latest_tag with input as build.pod_with_container({"image": "web"})
	build.messages(latest) == {"container \"web\" runs the image \"web\", which can change: name a version or a digest"}
	build.fields(latest) == {"spec.containers[0].image"}
}

# Together with the container's name the image leaves a message below 120 characters.
test_messages_shorten_long_images if {
	every image, want in {
		"registry.example.com/a/team/of/the/shop/web": "container \"web\" runs the image \"…/web\", which can change: name a version or a digest",
		"registry.example.com/a/team/of/a/shop/web": "container \"web\" runs the image \"…/web\", which can change: name a version or a digest",
		"registry.example.com/a/team/of/shop/cart": "container \"web\" runs the image \"registry.example.com/a/team/of/shop/cart\", which can change: name a version or a digest",
	} {
		results := data.images.deny_latest_tag with input as build.pod_with_container({"image": image})
		build.messages(results) == {want}
	}
}
