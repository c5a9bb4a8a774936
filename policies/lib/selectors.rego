# METADATA
# title: Label selectors
# description: Compares labels with selectors, as the API server does.
package lib.selectors

# METADATA
# description: |
#   Whether a LabelSelector selects an object with these labels. An empty selector selects every object, null selects none.
matches(selector, labels) if {
	is_object(selector)
	every key, value in given(selector, "matchLabels", {}) {
		labels[key] == value
	}
	every requirement in given(selector, "matchExpressions", []) {
		meets(requirement, labels)
	}
}

# METADATA
# description: Whether a selector that is a map of labels, as in a Service, selects an object. An empty one selects none.
matches_map(selector, labels) if {
	selector != {}
	every key, value in selector {
		labels[key] == value
	}
}

# METADATA
# description: The labels in an object's metadata; empty if it has none.
labels(metadata) := given(metadata, "labels", {})

# METADATA
# description: A map of labels as text for a message, cut off after 50 characters.
text(map) := shortened(concat(",", [sprintf("%v=%v", [key, value]) | some key, value in map]))

shortened(words) := words if count(words) <= 50

shortened(words) := concat("", [substring(words, 0, 49), "…"]) if count(words) > 50

meets(requirement, labels) if {
	requirement.operator == "In"
	has_value(labels, requirement)
}

meets(requirement, labels) if {
	requirement.operator == "NotIn"
	not has_value(labels, requirement)
}

meets(requirement, labels) if {
	requirement.operator == "Exists"
	labels[requirement.key]
}

meets(requirement, labels) if {
	requirement.operator == "DoesNotExist"
	not labels[requirement.key]
}

has_value(labels, requirement) if labels[requirement.key] in requirement.values

# Null means unset.
given(parent, key, otherwise) := value if {
	value := parent[key]
	value != null
} else := otherwise
