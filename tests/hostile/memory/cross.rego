# Pairs out of two ranges, an array of each.
package hostile.cross

deny contains msg if {
	all := [[a, b, {a: b}] | some a in numbers.range(1, 100000); some b in numbers.range(1, 100000)]
	msg := sprintf("%d", [count(all)])
}

warn contains "still judged"
