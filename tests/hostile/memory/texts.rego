# A thousand different texts, each as long as one may be.
package hostile.texts

deny contains msg if {
	x0 := "xxxxxxxxxxxxxxxx"
	x1 := concat("", [x0, x0])
	x2 := concat("", [x1, x1])
	x3 := concat("", [x2, x2])
	x4 := concat("", [x3, x3])
	x5 := concat("", [x4, x4])
	x6 := concat("", [x5, x5])
	x7 := concat("", [x6, x6])
	x8 := concat("", [x7, x7])
	x9 := concat("", [x8, x8])
	x10 := concat("", [x9, x9])
	x11 := concat("", [x10, x10])
	x12 := concat("", [x11, x11])
	x13 := concat("", [x12, x12])
	x14 := concat("", [x13, x13])
	x15 := concat("", [x14, x14])
	x16 := concat("", [x15, x15])
	x17 := concat("", [x16, x16])
	x18 := concat("", [x17, x17])
	all := [t | some i in numbers.range(1, 1000); t := sprintf("%s%d", [x18, i])]
	msg := sprintf("%d", [count(all)])
}

warn contains "still judged"
