# Arrays in arrays, a million levels: whoever goes through them by recursion overflows the stack.
package hostile.deep

f0(x) := [[[[[[[[[[[[x]]]]]]]]]]]]

f1(x) := f0(f0(f0(f0(f0(f0(f0(f0(f0(f0(f0(f0(x))))))))))))

f2(x) := f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(x))))))))))))

f3(x) := f2(f2(f2(f2(f2(f2(f2(f2(f2(f2(f2(f2(x))))))))))))

f4(x) := f3(f3(f3(f3(f3(f3(f3(f3(f3(f3(f3(f3(x))))))))))))

f5(x) := f4(f4(f4(f4(f4(f4(f4(f4(f4(f4(f4(f4(x))))))))))))

deny contains msg if {
	x := f5(1)
	msg := sprintf("%v", [x])
}

warn contains "still judged"
