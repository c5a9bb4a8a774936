package lib.results_test

test_first_of_each_message if {
	found := [{"msg": "b", "details": 2}, {"msg": "a", "details": 3}, {"msg": "b", "details": 1}]
	data.lib.results.once(found) == {{"msg": "a", "details": 3}, {"msg": "b", "details": 2}}
	data.lib.results.once([]) == set()
}
