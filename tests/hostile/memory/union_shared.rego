# An object of itself twice, merged with itself: the merging goes through everything.
package hostile.union_shared

deny contains msg if {
	x0 := {"l": 1}
	x1 := {"l": x0, "r": x0}
	x2 := {"l": x1, "r": x1}
	x3 := {"l": x2, "r": x2}
	x4 := {"l": x3, "r": x3}
	x5 := {"l": x4, "r": x4}
	x6 := {"l": x5, "r": x5}
	x7 := {"l": x6, "r": x6}
	x8 := {"l": x7, "r": x7}
	x9 := {"l": x8, "r": x8}
	x10 := {"l": x9, "r": x9}
	x11 := {"l": x10, "r": x10}
	x12 := {"l": x11, "r": x11}
	x13 := {"l": x12, "r": x12}
	x14 := {"l": x13, "r": x13}
	x15 := {"l": x14, "r": x14}
	x16 := {"l": x15, "r": x15}
	x17 := {"l": x16, "r": x16}
	x18 := {"l": x17, "r": x17}
	x19 := {"l": x18, "r": x18}
	x20 := {"l": x19, "r": x19}
	x21 := {"l": x20, "r": x20}
	x22 := {"l": x21, "r": x21}
	x23 := {"l": x22, "r": x22}
	x24 := {"l": x23, "r": x23}
	x25 := {"l": x24, "r": x24}
	x26 := {"l": x25, "r": x25}
	x27 := {"l": x26, "r": x26}
	x28 := {"l": x27, "r": x27}
	x29 := {"l": x28, "r": x28}
	x30 := {"l": x29, "r": x29}
	x31 := {"l": x30, "r": x30}
	x32 := {"l": x31, "r": x31}
	msg := sprintf("%d", [count(object.union(x32, x32))])
}

warn contains "still judged"
