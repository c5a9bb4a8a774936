# The same by a regular expression.
package hostile.regex_replace

deny contains msg if {
	x0 := "xx"
	x1 := regex.replace(x0, "x", x0)
	x2 := regex.replace(x1, "x", x1)
	x3 := regex.replace(x2, "x", x2)
	x4 := regex.replace(x3, "x", x3)
	x5 := regex.replace(x4, "x", x4)
	x6 := regex.replace(x5, "x", x5)
	x7 := regex.replace(x6, "x", x6)
	x8 := regex.replace(x7, "x", x7)
	x9 := regex.replace(x8, "x", x8)
	x10 := regex.replace(x9, "x", x9)
	x11 := regex.replace(x10, "x", x10)
	x12 := regex.replace(x11, "x", x11)
	msg := sprintf("%d", [count(x12)])
}

warn contains "still judged"
