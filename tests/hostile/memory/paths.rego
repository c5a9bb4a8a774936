# All paths of a graph in which each of many nodes leads to two of the next layer.
package hostile.paths

deny contains msg if {
	g := {n: next |
		some i in numbers.range(1, 40)
		some side in ["l", "r"]
		n := sprintf("%s%d", [side, i])
		next := [sprintf("l%d", [i + 1]), sprintf("r%d", [i + 1])]
	}
	msg := sprintf("%d", [count(graph.reachable_paths(g, {"l1"}))])
}

warn contains "still judged"
