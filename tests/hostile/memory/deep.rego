# Arrays in arrays, as deep as may be: whoever goes through them by recursion needs much stack. Deeper is refused at load.
package hostile.deep

f0(x) := [[[[[[[[[[[[x]]]]]]]]]]]]

f1(x) := f0(f0(f0(f0(f0(f0(f0(f0(f0(f0(f0(f0(x))))))))))))

f2(x) := f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(f1(x))))))))))))

deny contains msg if {
	x := f2(f2(f2(f2(f2(f2(f2(1)))))))
	msg := sprintf("%v", [x])
}

warn contains "still judged"
