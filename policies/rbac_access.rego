# METADATA
# title: Access to Secrets, pods, nodes and admission
# description: |
#   Rights from which others follow. A role is reported if a binding grants it; the message names the first subject. Not
#   reported are rules with resourceNames, the roles and subjects of Kubernetes itself, and wildcards, which the part rbac
#   reports.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#privilege-escalation-risks
package rbac_access

import data.lib.rbac
import data.lib.rights

# METADATA
# title: Access to Secrets
# description: |
#   Secrets contain passwords, keys and tokens of others, so a subject that can read all of them has the rights of their owners. The
#   severity is medium if the role is bound in single namespaces only.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#listing-secrets
# custom:
#   id: RBAC-08
#   severity: high
#   frameworks: {cis-1.12: ["5.1.2"], nsa-1.2: [rbac, secrets]}
deny_secrets contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, rights.secrets)
	result := graded(rule, rights.secrets, "set resourceNames")
}

# METADATA
# scope: document
# title: Connections to pods
# description: |
#   With exec or attach, a subject acts as any pod, with its token and its files; with port-forward, it reaches ports past
#   NetworkPolicies. The severity is medium for port-forward alone, and if the role is bound in single namespaces only.
# related_resources:
# - ref: https://kubernetes.io/docs/reference/access-authn-authz/authorization/#determine-the-request-verb
# custom:
#   id: RBAC-09
#   severity: high
#   frameworks: {nsa-1.2: [rbac]}
deny_pod_connections contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, rights.pod_commands)
	result := graded(rule, rights.pod_commands, removal(rule, rights.pod_commands))
}

deny_pod_connections contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, pod_ports)
	not rights.grants(rule, rights.pod_commands)
	found := rbac.holder_flaw(rule, rbac.widest_holders, pod_ports.may, removal(rule, pod_ports))
	result := object.union(found, {"severity": "medium"})
}

pod_ports := {
	"may": "connect to all pods",
	"groups": {""},
	"resources": {"pods/portforward", "*/portforward"},
	"verbs": {"create", "get"},
}

removal(rule, right) := sprintf("remove %s", [concat(", ", sort(rule.resources & right.resources))])

# METADATA
# title: Access to nodes/proxy
# description: |
#   The kubelet's API runs commands in all pods of a node, without admission and without an entry in the audit log. Even the
#   verb get is enough.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#access-to-proxy-subresource-of-nodes
# custom:
#   id: RBAC-10
#   severity: high
#   frameworks: {cis-1.12: ["5.1.10"], nsa-1.2: [rbac]}
deny_node_proxy contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, rights.node_proxy)
	result := in_cluster(rule, rights.node_proxy, "use nodes/metrics, not nodes/proxy")
}

# METADATA
# title: Tokens of ServiceAccounts
# description: |
#   A subject that can create tokens of all ServiceAccounts has the rights of each of them. The severity is medium if the role is bound in
#   single namespaces only.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#token-request
# custom:
#   id: RBAC-11
#   severity: high
#   frameworks: {cis-1.12: ["5.1.13"], nsa-1.2: [rbac, tokens]}
deny_account_tokens contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, rights.account_tokens)
	result := graded(rule, rights.account_tokens, "set resourceNames")
}

# METADATA
# title: Changes to admission
# description: |
#   Webhooks and admission policies see and change every object that is written, Secrets too, and enforce the cluster's policies.
#   The verbs create and deletecollection cannot be limited to names.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#control-admission-webhooks
# custom:
#   id: RBAC-12
#   severity: high
#   frameworks: {cis-1.12: ["5.1.12"], nsa-1.2: [rbac]}
deny_admission_changes contains result if {
	some rule in rbac.named_rules
	rights.grants(rule, rights.admission)
	verbs := rule.verbs & rights.admission.verbs
	change := concat(", and ", array.concat(removals(verbs & nameless_verbs), limits(verbs - nameless_verbs)))
	result := in_cluster(rule, rights.admission, change)
}

# The API server does not compare resourceNames for these verbs.
nameless_verbs := {"create", "deletecollection"}

removals(verbs) := [sprintf("remove %s", [verb]) | some verb in sort(verbs)]

limits(verbs) := ["set resourceNames" | count(verbs) > 0]

# METADATA
# title: Approval of certificates
# description: |
#   A client certificate can be for any user or node, and cannot be revoked. Approval of requests is reported if the role does
#   not state for which signers, signers if they include those of client certificates.
# related_resources:
# - ref: https://kubernetes.io/docs/concepts/security/rbac-good-practices/#csrs-and-certificate-issuing
# custom:
#   id: RBAC-13
#   severity: high
#   frameworks: {cis-1.12: ["5.1.11"], nsa-1.2: [rbac]}
deny_certificate_approval contains result if {
	some rule in rbac.named_rules
	approves(rule)
	result := in_cluster(rule, rights.signers, "list signers in resourceNames")
}

approves(rule) if rights.approves_clients(rule)

approves(rule) if {
	rights.grants(rule, approvals)
	not names_signers
}

approvals := {
	"groups": {"certificates.k8s.io"},
	"resources": {"certificatesigningrequests/approval", "*/approval"},
	"verbs": {"patch", "update"},
}

names_signers if {
	some rule in rbac.rules
	rights.allows(rule, rights.signers)
}

in_cluster(rule, right, change) := rbac.holder_flaw(rule, rbac.cluster_holders, right.may, change)

graded(rule, right, change) := in_cluster(rule, right, change)

graded(rule, right, change) := object.union(found, {"severity": "medium"}) if {
	count(rbac.cluster_holders) == 0
	found := rbac.holder_flaw(rule, rbac.namespace_holders, sprintf("%s of %s", [right.may, extent]), change)
}

# Where a role applies that is bound in single namespaces only.
extent := "the namespace" if input.kind == "Role"

extent := "some namespaces" if input.kind == "ClusterRole"
