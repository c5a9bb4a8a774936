# METADATA
# title: Files of the node
package bench.host_path

deny contains msg if {
	spec := object.get(input.spec, ["template", "spec"], input.spec)
	some volume in spec.volumes
	volume.hostPath
	msg := sprintf("volume %s is %s of the node", [volume.name, volume.hostPath.path])
}
