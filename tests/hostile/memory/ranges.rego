# Ranges of a million numbers, a thousand of them.
package hostile.ranges

deny contains msg if {
	all := [r | some i in numbers.range(1, 1000); r := numbers.range(i, 900000)]
	msg := sprintf("%d", [count(all)])
}

warn contains "still judged"
