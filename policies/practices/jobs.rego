# METADATA
# title: "Practices: jobs"
# description: Whether finished and hanging Jobs are removed. Off by default, because other tools may do that.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/controllers/job/
package practices.jobs

# METADATA
# scope: document
# title: Jobs that accumulate
# description: |
#   A finished Job without a time to live stays with its Pods until something deletes it. Runs of a CronJob without a deadline that may
#   overlap accumulate if they hang. Jobs with an owner, such as those of CronJobs, are not reported, nor hooks of Helm and Argo CD.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/workloads/controllers/ttlafterfinished/
# - ref: https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#concurrency-policy
# custom:
#   id: JOB-01
#   severity: info
warn_accumulation contains result if {
	input.kind == "Job"
	input.apiVersion == "batch/v1"
	data.lib.selectors.given(input.spec, "ttlSecondsAfterFinished", -1) == -1
	not data.lib.workload.is_owned(input)
	not is_hook
	result := {
		"msg": "job stays after it has finished: set spec.ttlSecondsAfterFinished",
		"details": {"field": "spec.ttlSecondsAfterFinished", "value": null},
	}
}

warn_accumulation contains result if {
	input.kind == "CronJob"
	input.apiVersion in {"batch/v1", "batch/v1beta1"}
	data.lib.selectors.given(input.spec, "concurrencyPolicy", "Allow") == "Allow"
	not has_deadline
	result := {
		"msg": "runs may overlap and have no deadline: set spec.concurrencyPolicy to Forbid or Replace",
		"details": {"field": "spec.concurrencyPolicy", "value": object.get(input.spec, "concurrencyPolicy", null)},
	}
}

is_hook if {
	some annotation in ["argocd.argoproj.io/hook", "helm.sh/hook"]
	input.metadata.annotations[annotation]
}

has_deadline if input.spec.jobTemplate.spec.activeDeadlineSeconds > 0

has_deadline if input.spec.jobTemplate.spec.template.spec.activeDeadlineSeconds > 0
