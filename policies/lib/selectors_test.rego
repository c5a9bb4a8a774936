package lib.selectors_test

import data.lib.selectors

web := {"app": "web", "tier": "front", "empty": ""}

test_selected if {
	every selector in [
		{},
		{"matchLabels": null, "matchExpressions": null},
		{"matchLabels": {"app": "web"}},
		{"matchLabels": {"app": "web", "tier": "front"}},
		{"matchExpressions": [{"key": "app", "operator": "In", "values": ["api", "web"]}]},
		{"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["api"]}]},
		{"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["api"]}]},
		{"matchExpressions": [{"key": "empty", "operator": "Exists"}]},
		{"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]},
		{"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
	] {
		selectors.matches(selector, web)
	}
}

test_not_selected if {
	every selector in [
		null,
		{"matchLabels": {"app": "api"}},
		{"matchLabels": {"app": "web", "team": "shop"}},
		{"matchExpressions": [{"key": "app", "operator": "In", "values": ["api"]}]},
		{"matchExpressions": [{"key": "team", "operator": "In", "values": ["api"]}]},
		{"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["api", "web"]}]},
		{"matchExpressions": [{"key": "team", "operator": "Exists"}]},
		{"matchExpressions": [{"key": "empty", "operator": "DoesNotExist"}]},
		{"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "team", "operator": "Exists"}]},
		{"matchLabels": {"app": "api"}, "matchExpressions": [{"key": "tier", "operator": "Exists"}]},
		{"matchExpressions": [{"key": "app", "operator": "Near", "values": ["web"]}]},
	] {
		not selectors.matches(selector, web)
	}
}

test_map if {
	selectors.matches_map({"app": "web"}, web)
	selectors.matches_map({"app": "web", "tier": "front"}, web)
	not selectors.matches_map({"app": "web", "team": "shop"}, web)
	not selectors.matches_map({}, web)
	not selectors.matches_map(null, web)
	not selectors.matches_map("web", web)
}

test_labels if {
	selectors.labels({"labels": {"app": "web"}}) == {"app": "web"}
	selectors.labels({"labels": null}) == {}
	selectors.labels({}) == {}
}

test_text if {
	selectors.text({"tier": "front", "app": "web"}) == "app=web,tier=front"
	exact := "a234567890123456789012345678901234567890123456789"
	selectors.text({exact: ""}) == sprintf("%s=", [exact])
	selectors.text({exact: "b"}) == sprintf("%s…", [exact])
}
