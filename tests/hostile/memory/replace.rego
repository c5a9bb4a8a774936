# A text of which each letter becomes the text.
package hostile.replace

deny contains msg if {
	x0 := "xx"
	x1 := replace(x0, "x", x0)
	x2 := replace(x1, "x", x1)
	x3 := replace(x2, "x", x2)
	x4 := replace(x3, "x", x3)
	x5 := replace(x4, "x", x4)
	x6 := replace(x5, "x", x5)
	x7 := replace(x6, "x", x6)
	x8 := replace(x7, "x", x7)
	x9 := replace(x8, "x", x8)
	x10 := replace(x9, "x", x9)
	x11 := replace(x10, "x", x10)
	x12 := replace(x11, "x", x11)
	msg := sprintf("%d", [count(x12)])
}

warn contains "still judged"
