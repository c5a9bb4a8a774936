package bad

import rego.v1

all := numbers.range(1, 300000)

rows(n) := {[n, a] | some a in all}

grown := ((((rows(1) | rows(2)) | (rows(3) | rows(4))) | ((rows(5) | rows(6)) | (rows(7) | rows(8)))) | (((rows(9) | rows(10)) | (rows(11) | rows(12))) | ((rows(13) | rows(14)) | (rows(15) | rows(16)))))

deny contains "x" if count(grown) < 0

warn contains "still judged"
