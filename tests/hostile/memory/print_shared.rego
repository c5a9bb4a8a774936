# An array of itself twice, printed.
package hostile.print_shared

deny contains msg if {
	x0 := ["x"]
	x1 := [x0, x0]
	x2 := [x1, x1]
	x3 := [x2, x2]
	x4 := [x3, x3]
	x5 := [x4, x4]
	x6 := [x5, x5]
	x7 := [x6, x6]
	x8 := [x7, x7]
	x9 := [x8, x8]
	x10 := [x9, x9]
	x11 := [x10, x10]
	x12 := [x11, x11]
	x13 := [x12, x12]
	x14 := [x13, x13]
	x15 := [x14, x14]
	x16 := [x15, x15]
	x17 := [x16, x16]
	x18 := [x17, x17]
	x19 := [x18, x18]
	x20 := [x19, x19]
	x21 := [x20, x20]
	x22 := [x21, x21]
	x23 := [x22, x22]
	x24 := [x23, x23]
	x25 := [x24, x24]
	x26 := [x25, x25]
	x27 := [x26, x26]
	x28 := [x27, x27]
	x29 := [x28, x28]
	x30 := [x29, x29]
	x31 := [x30, x30]
	x32 := [x31, x31]
	print(x32)
	msg := "printed"
}

warn contains "still judged"
