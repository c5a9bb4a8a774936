# METADATA
# title: Results
package lib.results

# METADATA
# description: The first result with each message, for rules that may find the same object missing at several fields.
once(results) := {first |
	some msg in {result.msg | some result in results}
	first := [result | some result in results; result.msg == msg][0]
}
