# The same by strings.replace_n.
package hostile.replace_n

deny contains msg if {
	x0 := "xx"
	x1 := strings.replace_n({"x": x0}, x0)
	x2 := strings.replace_n({"x": x1}, x1)
	x3 := strings.replace_n({"x": x2}, x2)
	x4 := strings.replace_n({"x": x3}, x3)
	x5 := strings.replace_n({"x": x4}, x4)
	x6 := strings.replace_n({"x": x5}, x5)
	x7 := strings.replace_n({"x": x6}, x6)
	x8 := strings.replace_n({"x": x7}, x7)
	x9 := strings.replace_n({"x": x8}, x8)
	x10 := strings.replace_n({"x": x9}, x9)
	x11 := strings.replace_n({"x": x10}, x10)
	x12 := strings.replace_n({"x": x11}, x11)
	msg := sprintf("%d", [count(x12)])
}

warn contains "still judged"
