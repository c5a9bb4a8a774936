package bad

import rego.v1

all := numbers.range(1, 900000)

rows contains [a, b] if {
	some a in all
	some b in all
}

deny contains "x" if count(rows) < 0

warn contains "still judged"
