{{/* The part of names that does not depend on the release. */}}
{{- define "kaudit.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 54 | trimSuffix "-" }}
{{- end }}

{{/* The name of all objects; at most 54 characters, so that a label has room for a suffix. */}}
{{- define "kaudit.fullname" -}}
{{- $name := include "kaudit.name" . }}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 54 | trimSuffix "-" }}
{{- else if contains $name .Release.Name }}
{{- .Release.Name | trunc 54 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name $name | trunc 54 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "kaudit.selectorLabels" -}}
app.kubernetes.io/name: {{ include "kaudit.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "kaudit.labels" -}}
{{ include "kaudit.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/component: auditor
app.kubernetes.io/part-of: kaudit
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "kaudit.serviceAccountName" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "kaudit.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- required "serviceAccount.name is required when serviceAccount.create is false: the namespace's default ServiceAccount would share these permissions with every pod" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "kaudit.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end }}
{{- end }}

{{/* Not empty if pods need a Lease to record. */}}
{{- define "kaudit.elects" -}}
{{- if or (gt (int .Values.replicas) 1) (gt (int .Values.shards) 1) }}true{{ end }}
{{- end }}

{{/* The names of all Audits and of their Leases, as a YAML list. */}}
{{- define "kaudit.auditNames" -}}
{{- if gt (int .Values.shards) 1 }}
{{- range $shard := until (int .Values.shards) }}
- {{ printf "%s-%d" $.Values.auditName $shard | quote }}
{{- end }}
{{- else }}
- {{ .Values.auditName | quote }}
{{- end }}
{{- end }}

{{- define "kaudit.inlineConfigMap" -}}
{{ include "kaudit.fullname" . }}-policies
{{- end }}

{{- define "kaudit.exceptionsConfigMap" -}}
{{ include "kaudit.fullname" . }}-exceptions
{{- end }}

{{- define "kaudit.notifyConfigMap" -}}
{{ include "kaudit.fullname" . }}-notify
{{- end }}

{{/* Not empty if there are receivers of notifications. */}}
{{- define "kaudit.notifies" -}}
{{- if and .Values.notify.receivers .Values.notify.existingSecret }}
{{- fail "notify.receivers and notify.existingSecret exclude each other: the Secret has the receivers" }}
{{- end }}
{{- if or .Values.notify.receivers .Values.notify.existingSecret }}true{{ end }}
{{- end }}

{{/* The content of the file of receivers. */}}
{{- define "kaudit.notifyFile" -}}
{{- with include "kaudit.externalURL" . }}
externalURL: {{ . | quote }}
{{- end }}
{{- with .Values.clusterName }}
cluster: {{ . | quote }}
{{- end }}
receivers:
  {{- toYaml .Values.notify.receivers | nindent 2 }}
{{- end }}

{{/* Not empty if files of a Secret are needed to connect to the fleet. */}}
{{- define "kaudit.fleetFiles" -}}
{{- with .Values.fleet }}
{{- if and .servers (or (ne .login "none") .ca .clientCertificate) }}
{{- if not .secret }}
{{- fail "fleet.login, fleet.ca and fleet.clientCertificate need fleet.secret, the Secret with the files" }}
{{- end }}true
{{- end }}
{{- end }}
{{- end }}

{{/* The arguments that mirror the results into the bucket of the fleet, as a YAML list. */}}
{{- define "kaudit.fleetArguments" -}}
{{- with .Values.fleet }}
{{- if .servers }}
{{- if not $.Values.clusterName }}
{{- fail "fleet.servers needs clusterName, which names the bucket" }}
{{- end }}
{{- range .servers }}
- {{ printf "--fleet=%s" . | quote }}
{{- end }}
{{- range $key, $value := .labels }}
- {{ printf "--cluster-label=%s=%s" $key $value | quote }}
{{- end }}
{{- if eq .login "credentials" }}
- --nats-credentials=/fleet.d/nats.creds
{{- else if eq .login "nkey" }}
- --nats-nkey=/fleet.d/nats.nk
{{- else if eq .login "password" }}
- {{ printf "--nats-user=%s" (required "fleet.user is needed for fleet.login: password" .user) | quote }}
- --nats-password-file=/fleet.d/password
{{- end }}
{{- if .ca }}
- --nats-ca=/fleet.d/ca.crt
{{- end }}
{{- if .clientCertificate }}
- --nats-cert=/fleet.d/tls.crt
- --nats-key=/fleet.d/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The names of all ConfigMaps with policies, as a YAML list. */}}
{{- define "kaudit.policyConfigMaps" -}}
{{- $names := .Values.policies.configMaps }}
{{- if .Values.policies.inline }}
{{- $inline := include "kaudit.inlineConfigMap" . }}
{{- if has $inline $names }}
{{- fail (printf "policies.configMaps: %s is the name of the ConfigMap of policies.inline" $inline) }}
{{- end }}
{{- $names = prepend $names $inline }}
{{- end }}
{{- if and .Values.policies.parts (not .Values.policies.bundled) }}
{{- fail "policies.parts are parts of the library, which policies.bundled: false leaves out" }}
{{- end }}
{{- if not (or .Values.policies.bundled .Values.policies.paths .Values.policies.cluster .Values.policies.bundles $names) }}
{{- fail "there are no policies: set policies.bundled, policies.inline, policies.configMaps, policies.cluster, policies.bundles or policies.paths" }}
{{- end }}
{{- toYaml $names }}
{{- end }}

{{/* Not empty if bundles have to be signed by an identity. An incomplete identity fails, since it would verify nothing. */}}
{{- define "kaudit.bundleIdentity" -}}
{{- with .Values.policies.bundleIdentity }}
{{- if or .identity .identityRegexp .issuer .issuerRegexp .trustedRoot }}
{{- if or (and .identity .identityRegexp) (and .issuer .issuerRegexp) }}
{{- fail "policies.bundleIdentity: identity and identityRegexp exclude each other, and so do issuer and issuerRegexp" }}
{{- end }}
{{- if not (and (or .identity .identityRegexp) (or .issuer .issuerRegexp) .trustedRoot) }}
{{- fail "policies.bundleIdentity: an identity, its issuer and a trustedRoot have to be given together" }}
{{- end }}
{{- if $.Values.policies.bundleKey }}
{{- fail "policies.bundleKey and policies.bundleIdentity exclude each other" }}
{{- end }}
true
{{- end }}
{{- end }}
{{- end }}

{{/* The rules for audited objects: reading them, and writing Events and reports about them. */}}
{{- define "kaudit.auditRules" -}}
{{- range $index, $rule := .Values.rbac.readRules }}
{{- if $index }}{{ "\n" }}{{ end -}}
- apiGroups: {{ toJson $rule.apiGroups }}
  resources: {{ toJson $rule.resources }}
  verbs: {{ default (list "list" "watch") $rule.verbs | toJson }}
{{- end }}
{{- if and (has "events" .Values.record) (ne .Values.events "none") }}
{{ include "kaudit.eventRule" (list "create" "list") }}
{{- end }}
{{- if has "reports" .Values.record }}
{{- if has .Values.reports.api (list "auto" "openreports") }}
- apiGroups: ["openreports.io"]
  resources: {{ empty .Values.namespaces | ternary (list "clusterreports" "reports") (list "reports") | toJson }}
  verbs: ["list", "create", "patch", "delete"]
{{- end }}
{{- if has .Values.reports.api (list "auto" "wgpolicy") }}
- apiGroups: ["wgpolicyk8s.io"]
  resources: {{ empty .Values.namespaces | ternary (list "clusterpolicyreports" "policyreports") (list "policyreports") | toJson }}
  verbs: ["list", "create", "patch", "delete"]
{{- end }}
{{- end }}
{{- if has "status" .Values.record }}
- apiGroups: ["kaudit.dev"]
  resources: ["policyexceptions/status"]
  verbs: ["patch"]
{{- end }}
{{- end }}

{{- /* Events are listed at startup to find those already written. */}}
{{- define "kaudit.eventRule" -}}
- apiGroups: ["events.k8s.io"]
  resources: ["events"]
  verbs: {{ toJson . }}
{{- end }}

{{/* Not empty if everything in the cluster may be read. */}}
{{- define "kaudit.readsEverything" -}}
{{- if not .Values.namespaces }}
{{- range .Values.rbac.readRules }}
{{- if and (has "*" .apiGroups) (has "*" .resources) }}true{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* Not empty if the page is served beyond the pod, to authenticated users. */}}
{{- define "kaudit.uiIsServed" -}}
{{- if and .Values.ui.enabled (ne .Values.ui.auth "none") }}true{{ end }}
{{- end }}

{{/* The URL at which users reach the page; empty if it is unknown. */}}
{{- define "kaudit.externalURL" -}}
{{- if .Values.notify.externalURL }}
{{- .Values.notify.externalURL }}
{{- else if .Values.ui.ingress.enabled }}
{{- printf "https://%s" .Values.ui.ingress.host }}
{{- else if .Values.ui.httpRoute.enabled }}
{{- with first .Values.ui.httpRoute.hostnames }}
{{- if not (hasPrefix "*" .) }}{{ printf "https://%s" . }}{{ end }}
{{- end }}
{{- end }}
{{- end }}

{{/* The number of namespaces with series of their own; empty if the arguments or kaudit's default determine it. */}}
{{- define "kaudit.metricsNamespaces" -}}
{{- $given := printf "%s %s" (toJson .Values.extraArgs) (toJson .Values.extraEnv) }}
{{- if not (or (contains "--metrics-namespaces" $given) (contains "KAUDIT_METRICS_NAMESPACES" $given)) }}
{{- if not (kindIs "invalid" .Values.metrics.namespaces) }}{{ int .Values.metrics.namespaces }}
{{- else if not (and .Values.networkPolicy.enabled .Values.networkPolicy.from) }}0{{ end }}
{{- end }}
{{- end }}
