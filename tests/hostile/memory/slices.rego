# An array of a million elements, copied a thousand times.
package hostile.slices

deny contains msg if {
	a := numbers.range(1, 900000)
	all := [s | some i in numbers.range(1, 1000); s := array.slice(a, i, 900000)]
	msg := sprintf("%d", [count(all)])
}

warn contains "still judged"
