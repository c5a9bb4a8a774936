package ownership_test

import data.ownership

test_without_a_team if {
	count(ownership.deny) == 1 with input as {"kind": "Deployment", "metadata": {"name": "web"}}
}

test_with_a_team if {
	labels := {"team": "shop"}
	count(ownership.deny) == 0 with input as {"kind": "Deployment", "metadata": {"labels": labels}}
}
