package references.services_test

import data.lib.build_test as build

# For the pages of the rules. Both manifests are checked beside these objects.
examples := {
	"deny_missing_pods": {
		"beside": [pod({"app": "web"}, [])],
		"violating": service({"selector": {"app": "wbe"}}),
		"correct": service({"selector": {"app": "web"}}),
	},
	"deny_missing_port": {
		"beside": [pod({"app": "web"}, [{"name": "http", "containerPort": 8080}])],
		"violating": service({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "htpp"}]}),
		"correct": service({"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}),
	},
}

test_examples if {
	every rule, example in examples {
		store := build.inventory(example.beside)
		count(data.references.services[rule]) == 1 with input as example.violating with data.inventory as store
		count(data.references.services[rule]) == 0 with input as example.correct with data.inventory as store
	}
}

service(spec) := {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}

pod(labels, ports) := object.union(
	build.small({}, {"ports": ports}),
	{"metadata": {"name": labels.app, "labels": labels}},
)

in_namespace(namespace, item) := object.union(item, {"metadata": {"namespace": namespace}})

without_pods(item, objects) if {
	count(data.references.services.deny_missing_pods) == 1 with input as item with data.inventory as build.inventory(objects)
}

passes(item, objects) if {
	count(data.references.services.deny_missing_pods) == 0 with input as item with data.inventory as build.inventory(objects)
}

web := service({"selector": {"app": "web"}})

test_no_pods if {
	without_pods(web, [])
	without_pods(web, [build.pod({})])
	without_pods(web, [pod({"app": "api"}, [])])
	without_pods(service({"type": "LoadBalancer", "selector": {"app": "web"}}), [])
	without_pods(service({"type": null, "clusterIP": "None", "selector": {"app": "web"}}), [])
}

test_pods_or_workloads if {
	passes(web, [pod({"app": "web"}, [])])
	every version_kind in [
		["apps/v1", "DaemonSet"], ["apps/v1", "Deployment"], ["apps/v1", "ReplicaSet"], ["apps/v1", "StatefulSet"],
		["v1", "ReplicationController"], ["batch/v1", "Job"], ["argoproj.io/v1alpha1", "Rollout"],
	] {
		passes(web, [build.templated(version_kind[0], version_kind[1], {})])
	}
	passes(web, [object.union(build.deployment({}), {"spec": {"replicas": 0}})])
}

test_pods_of_another_namespace if {
	without_pods(in_namespace("shop", web), [in_namespace("bank", build.deployment({}))])
	passes(in_namespace("shop", web), [in_namespace("shop", build.deployment({}))])
}

test_label_that_a_leader_gets if {
	leader := service({"selector": {"app": "web", "role": "leader"}})
	passes(leader, [build.deployment({})])
	passes(leader, [pod({"app": "web", "role": "leader"}, [])])
	without_pods(leader, [pod({"app": "web"}, [])])
}

test_services_without_pods_of_their_own if {
	every spec in [
		{},
		{"selector": null},
		{"selector": {}},
		{"selector": "app"},
		{"type": "ExternalName", "externalName": "db.example.com", "selector": {"app": "web"}},
	] {
		passes(service(spec), [])
	}
	passes({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}}, [])
	passes(object.union(web, {"apiVersion": "serving.knative.dev/v1"}), [])
	passes(object.union(web, {"kind": "ReplicationController"}), [])
}

test_services_of_several_clusters if {
	every name in ["io.cilium/global-service", "service.cilium.io/global"] {
		passes(object.union(web, {"metadata": {"annotations": {name: "true"}}}), [])
		without_pods(object.union(web, {"metadata": {"annotations": {name: "false"}}}), [])
	}
	without_pods(object.union(web, {"metadata": {"annotations": {"example.com/global": "true"}}}), [])
}

test_message_of_missing_pods if {
	results := data.references.services.deny_missing_pods with input as service({"selector": {"tier": "front", "app": "web"}})
	results == {{
		"msg": "selector app=web,tier=front selects no pod: correct it, or remove the Service",
		"details": {"field": "spec.selector", "value": {"app": "web", "tier": "front"}},
	}}
}

ports(list) := service({"selector": {"app": "web"}, "ports": list})

without_port(item, objects) := build.fields(results) if {
	results := data.references.services.deny_missing_port with input as item with data.inventory as build.inventory(objects)
}

http := [{"name": "http", "containerPort": 8080}]

test_port_that_no_pod_has if {
	named := ports([{"port": 443, "targetPort": 8443}, {"port": 80, "targetPort": "http"}])
	every list in [[], null, [{"containerPort": 8080}], [{"name": "https", "containerPort": 8080}], [{"name": "http", "protocol": "UDP"}]] {
		without_port(named, [pod({"app": "web"}, list)]) == {"spec.ports[1].targetPort"}
	}
	udp := ports([{"port": 53, "protocol": "UDP", "targetPort": "http"}])
	without_port(udp, [pod({"app": "web"}, http)]) == {"spec.ports[0].targetPort"}
	without_port(named, [pod({"app": "web"}, []), pod({"app": "api"}, http)]) == {"spec.ports[1].targetPort"}
	without_port(named, [build.deployment({})]) == {"spec.ports[1].targetPort"}
}

test_port_of_a_container if {
	named := ports([{"port": 80, "targetPort": "http"}])
	without_port(named, [pod({"app": "web"}, http)]) == set()
	without_port(named, [pod({"app": "web"}, [{"name": "http", "protocol": "TCP"}])]) == set()
	without_port(named, [pod({"app": "web"}, [{"name": "http", "protocol": null}])]) == set()
	without_port(named, [build.deployment({"containers": [{"name": "a"}, {"name": "b", "ports": http}]})]) == set()
	explicit := ports([{"port": 53, "protocol": "UDP", "targetPort": "dns"}])
	without_port(explicit, [pod({"app": "web"}, [{"name": "dns", "protocol": "UDP"}])]) == set()
}

# The pods of a new version may be the only ones that have the port.
test_port_of_one_of_the_pods if {
	every objects in [
		[build.deployment({}), pod({"app": "web"}, http)],
		[object.union(pod({"app": "web"}, []), {"metadata": {"name": "old"}}), pod({"app": "web"}, http)],
	] {
		without_port(ports([{"port": 80, "targetPort": "http"}]), objects) == set()
	}
}

test_port_of_init_containers if {
	named := ports([{"port": 80, "targetPort": "http"}])
	sidecar := {"initContainers": [{"name": "proxy", "restartPolicy": "Always", "ports": http}]}
	without_port(named, [build.deployment(sidecar)]) == set()
	setup := {"initContainers": [{"name": "setup", "ports": http}]}
	without_port(named, [build.deployment(setup)]) == {"spec.ports[0].targetPort"}
	debug := {"ephemeralContainers": [{"name": "debug", "restartPolicy": "Always", "ports": http}]}
	without_port(named, [build.deployment(debug)]) == {"spec.ports[0].targetPort"}
}

test_ports_that_need_no_name if {
	objects := [pod({"app": "web"}, [])]
	every list in [null, [], [{"port": 80}], [{"port": 80, "targetPort": 8080}], [{"port": 80, "targetPort": null}]] {
		without_port(ports(list), objects) == set()
	}

	# Reported as a Service without pods.
	without_port(ports([{"port": 80, "targetPort": "http"}]), []) == set()
	without_port(ports([{"port": 80, "targetPort": "http"}]), [pod({"app": "api"}, [])]) == set()
	without_port(service({"ports": [{"port": 80, "targetPort": "http"}]}), objects) == set()
}

test_message_of_a_missing_port if {
	store := build.inventory([pod({"app": "web"}, [])])
	results := data.references.services.deny_missing_port with input as ports([{"port": 80, "targetPort": "http"}])
		with data.inventory as store
	results == {{
		"msg": "no selected container has a TCP port named \"http\": name the container's port so, or correct targetPort",
		"details": {"field": "spec.ports[0].targetPort", "value": "http"},
	}}
}
