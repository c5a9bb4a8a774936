# Many small arrays in each step of a loop: more memory for each look at the clock.
package hostile.wide

deny contains msg if {
	all := [[[a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a], [a]] | some a in numbers.range(1, 900000)]
	msg := sprintf("%d", [count(all)])
}

warn contains "still judged"
