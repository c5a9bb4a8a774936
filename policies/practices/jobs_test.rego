package practices.jobs_test

import data.lib.build_test as build

# For the pages of the rules.
examples := {"warn_accumulation": {
	"violating": job({}, {}),
	"correct": job({}, {"ttlSecondsAfterFinished": 86400}),
}}

pod := object.union(build.small({}, {}).spec, {"restartPolicy": "Never"})

job(metadata, spec) := {
	"apiVersion": "batch/v1",
	"kind": "Job",
	"metadata": object.union({"name": "migrate"}, metadata),
	"spec": object.union({"template": {"spec": pod}}, spec),
}

cron_job(spec) := {
	"apiVersion": "batch/v1",
	"kind": "CronJob",
	"metadata": {"name": "cleanup"},
	"spec": object.union({"schedule": "17 3 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}}, spec),
}

count_of(item) := count(results) if {
	results := data.practices.jobs.warn_accumulation with input as item
}

test_jobs if {
	every item in [job({}, {}), job({"annotations": null, "ownerReferences": null}, {"ttlSecondsAfterFinished": null}), job({"annotations": {"note": "x"}}, {})] {
		results := data.practices.jobs.warn_accumulation with input as item
		results == {{
			"msg": "job stays after it has finished: set spec.ttlSecondsAfterFinished",
			"details": {"field": "spec.ttlSecondsAfterFinished", "value": null},
		}}
	}
}

test_jobs_that_are_deleted if {
	count_of(job({}, {"ttlSecondsAfterFinished": 0})) == 0
	count_of(job({}, {"ttlSecondsAfterFinished": 60})) == 0
	count_of(job({"ownerReferences": [{"kind": "CronJob", "name": "cleanup", "controller": true}]}, {})) == 0
	every annotation in ["helm.sh/hook", "argocd.argoproj.io/hook"] {
		count_of(job({"annotations": {annotation: "PreSync"}}, {})) == 0
	}
}

test_cron_jobs if {
	every policy in [{"concurrencyPolicy": "Allow"}, {"concurrencyPolicy": null}, {}] {
		every version in ["batch/v1", "batch/v1beta1"] {
			results := data.practices.jobs.warn_accumulation with input as object.union(cron_job(policy), {"apiVersion": version})
			results == {{
				"msg": "runs may overlap and have no deadline: set spec.concurrencyPolicy to Forbid or Replace",
				"details": {"field": "spec.concurrencyPolicy", "value": object.get(policy, "concurrencyPolicy", null)},
			}}
		}
	}
	count_of(cron_job({"jobTemplate": {"spec": {"activeDeadlineSeconds": null}}})) == 1
	count_of(cron_job({"jobTemplate": {"spec": {"activeDeadlineSeconds": 0, "template": {"spec": {"activeDeadlineSeconds": 0}}}}})) == 1
}

test_cron_jobs_that_do_not_accumulate if {
	every policy in ["Forbid", "Replace"] {
		count_of(cron_job({"concurrencyPolicy": policy})) == 0
	}
	every seconds in [1, 600] {
		count_of(cron_job({"jobTemplate": {"spec": {"activeDeadlineSeconds": seconds}}})) == 0
		count_of(cron_job({"jobTemplate": {"spec": {"template": {"spec": {"activeDeadlineSeconds": seconds}}}}})) == 0
	}
}

test_other_objects if {
	every item in [job({}, {}), cron_job({})] {
		count_of(object.union(item, {"apiVersion": "example.com/v1"})) == 0
		count_of(object.union(item, {"kind": "Task"})) == 0
	}
}
