# An object of pairs.
package hostile.cross_objects

deny contains msg if {
	all := {[a, b]: {"a": a, "b": b} | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000)}
	msg := sprintf("%d", [count(all)])
}

warn contains "still judged"
