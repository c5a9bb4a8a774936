# METADATA
# title: Nothing outlives its date
# description: Depends on the time.
# custom: {id: DATE-01, severity: low}
package expiry

warn contains msg if {
	date := input.metadata.annotations["example.com/expires"]
	time.parse_rfc3339_ns(date) < time.now_ns()
	msg := sprintf("expired at %s", [date])
}
