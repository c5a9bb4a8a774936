# All addresses of a thousand networks.
package hostile.addresses

deny contains msg if {
	all := [a | some i in numbers.range(1, 1000); a := net.cidr_expand("10.0.0.0/16")]
	msg := sprintf("%d", [count(all)])
}

warn contains "still judged"
