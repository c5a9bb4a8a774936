package bad

import rego.v1

# `with` leaves the rule to the evaluator that has no limit for one evaluation.
all := numbers.range(1, 900000)

pairs := [[a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a, a] | some a in all; some b in all]

deny contains "x" if count(pairs) < 0 with input.zz as 1

warn contains "still judged"
