package totals

requests[container.name] := to_number(trim_suffix(container.resources.requests.cpu, "m")) if {
	some container in input.spec.containers
}

deny contains message if {
	total := sum([cpu | some cpu in requests])
	total > 1000
	message := sprintf("all containers request %dm", [total])
}
