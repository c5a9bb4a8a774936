# The product of many numbers.
package hostile.product

deny contains msg if {
	x := product(numbers.range(1, 900000))
	msg := format_int(x, 10)
}

warn contains "still judged"
