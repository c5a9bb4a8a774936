package lib.removed_apis_test

import data.lib.removed_apis

test_pages_of_sources if {
	removed_apis.page("#psp-v125") == "https://kubernetes.io/docs/reference/using-api/deprecation-guide/#psp-v125"
	file := "https://github.com/kubernetes/api/blob/master/storage/v1alpha1/zz_generated.prerelease-lifecycle.go"
	removed_apis.page("storage/v1alpha1") == file
}
