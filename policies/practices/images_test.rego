package practices.images_test

import data.lib.build_test as build

import data.practices.images

digest := "sha256:9b2c5a1f0d3e4b6a7c8d9e0f1a2b3c4d5e6f708192a3b4c5d6e7f80910213243"

# For the pages of the rules. `parameters` are those of the rule.
examples := {
	"warn_missing_digest": {
		"violating": build.small({}, {"image": "registry.example.com/web:1.4.2"}),
		"correct": build.small({}, {"image": sprintf("registry.example.com/web:1.4.2@%s", [digest])}),
	},
	"deny_other_registry": {
		"violating": build.small({}, {"image": "docker.io/shop/web:1.4.2"}),
		"correct": build.small({}, {"image": "registry.example.com/shop/web:1.4.2"}),
		"parameters": {"registries": ["registry.example.com"]},
	},
	"deny_frozen_registry": {
		"violating": build.small({}, {"image": "k8s.gcr.io/pause:3.6"}),
		"correct": build.small({}, {"image": "registry.k8s.io/pause:3.6"}),
	},
}

allowed(registries) := {"IMG-03": {"registries": registries}}

count_of(image, registries) := count(results) if {
	results := images.deny_other_registry with input as build.pod_with_container({"image": image})
		with data.parameters as allowed(registries)
}

test_allowed_registries if {
	every image in [
		"registry.example.com/web:1",
		"registry.example.com/shop/web",
		"registry.example.com/shop/web@sha256:1",
		"registry.example.com:5000/web",
		"docker.io/shop/web:1",
		"shop/web",
		"localhost/web",
	] {
		count_of(image, ["registry.example.com", "registry.example.com:5000/", "docker.io/shop", "localhost"]) == 0
	}
	every registries in [["docker.io"], ["docker.io/library"], ["docker.io/library/web"]] {
		count_of("web:1", registries) == 0
	}
}

test_other_registries if {
	every image, name in {
		"web": "docker.io/library/web",
		"web:1@sha256:1": "docker.io/library/web",
		"shop/web:1": "docker.io/shop/web",
		"registry.example.com.evil.example/web": "registry.example.com.evil.example/web",
		"registry.example.com:5000/web:1": "registry.example.com:5000/web",
		"registry.example.org/registry.example.com/web": "registry.example.org/registry.example.com/web",
		"localhost/web": "localhost/web",
	} {
		results := images.deny_other_registry with input as build.pod_with_container({"image": image})
			with data.parameters as allowed(["registry.example.com"])
		results == {{
			"msg": sprintf("container \"web\" runs %s, which is in no allowed registry: use an image from an allowed one", [name]),
			"details": {"container": "web", "field": "spec.containers[0].image", "value": image},
		}}
	}
	count_of("docker.io/shopping/web", ["docker.io/shop"]) == 1
}

test_containers_of_every_list if {
	every workload in build.with_container({"image": "web"}) {
		results := images.deny_other_registry with input as workload with data.parameters as allowed(["registry.example.com"])
		count(results) == 1
	}
}

test_without_registries if {
	pod := build.pod_with_container({"image": "web"})
	count(images.deny_other_registry) == 0 with input as pod
	every parameters in [{}, {"IMG-03": {}}, {"IMG-04": {"registries": ["a"]}}, allowed([]), allowed(null)] {
		count(images.deny_other_registry) == 0 with input as pod with data.parameters as parameters
	}
	every image in [null, "", 1] {
		count_of(image, ["registry.example.com"]) == 0
	}
}

test_frozen_registries if {
	every image, fix in {
		"k8s.gcr.io/pause:3.6": "registry.k8s.io/pause:3.6",
		"k8s.gcr.io/ingress-nginx/controller:v1@sha256:1": "registry.k8s.io/ingress-nginx/controller:v1@sha256:1",
		"gcr.io/google_containers/pause": "registry.k8s.io/pause",
		"gcr.io/google-containers/pause": "registry.k8s.io/pause",
	} {
		every workload in build.with_container({"image": image}) {
			results := images.deny_frozen_registry with input as workload
			{result.details.fix | some result in results} == {fix}
		}
	}
	results := images.deny_frozen_registry with input as build.pod_with_container({"image": "k8s.gcr.io/pause"})
	build.messages(results) == {"container \"web\" runs an image of k8s.gcr.io, which is no longer updated: use registry.k8s.io"}
	build.fields(results) == {"spec.containers[0].image"}
}

test_registries_that_are_updated if {
	every image in ["registry.k8s.io/pause", "gcr.io/distroless/static", "gcr.io/google_containers2/pause", "example.com/k8s.gcr.io/pause", "k8s.gcr.io", "", null] {
		count(images.deny_frozen_registry) == 0 with input as build.pod_with_container({"image": image})
	}
	other := object.union(build.pod_with_container({"image": "k8s.gcr.io/pause"}), {"apiVersion": "example.com/v1"})
	count(images.deny_frozen_registry) == 0 with input as other
}

results_of_tag(image) := count(results) if {
	results := images.warn_missing_digest with input as build.pod_with_container({"image": image})
}

test_version_tag if {
	every image in ["web:1.4", "registry.example.com:5000/shop/web:1.4.2", "web:latest-arm64"] {
		every workload in build.with_container({"image": image}) {
			count(images.warn_missing_digest) == 1 with input as workload
		}
	}
}

test_digest if {
	every name in ["web", "web:1.4.2", "web:latest", "registry.example.com:5000/shop/web:1.4.2"] {
		results_of_tag(sprintf("%s@%s", [name, digest])) == 0
	}
}

# IMG-01 reports these, and a template may leave the image out.
test_no_version if {
	every image in ["web", "shop/web", "registry.example.com:5000/web", "web:latest", "", null, 1] {
		results_of_tag(image) == 0
	}
}

test_digest_messages if {
	tagged := images.warn_missing_digest with input as build.pod_with_container({"image": "web:1"})
	build.messages(tagged) == {"container \"web\" runs the image \"web:1\" without a digest: add @sha256:…"}
	build.fields(tagged) == {"spec.containers[0].image"}
}

test_digest_messages_shorten_long_images if {
	every image, want in {
		"registry.example.com/platform/team/of/the/shop/web:1.10": "container \"web\" runs the image \"…/web:1.10\" without a digest: add @sha256:…",
		"registry.example.com/platform/team/of/the/shop/web:1.1": "container \"web\" runs the image \"registry.example.com/platform/team/of/the/shop/web:1.1\" without a digest: add @sha256:…",
	} {
		results := images.warn_missing_digest with input as build.pod_with_container({"image": image})
		build.messages(results) == {want}
		[image] == [result.details.value | some result in results]
	}
}
