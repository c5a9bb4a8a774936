package pairs

deny contains message if {
	some first, one in input.spec.containers
	some second, other in input.spec.containers
	first < second
	one.port == other.port
	message := sprintf("%s and %s have one port", [one.name, other.name])
}
