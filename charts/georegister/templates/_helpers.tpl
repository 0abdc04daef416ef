{{- define "georegister.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Members let pods with this name reach their admin port, so it is no one's to choose. */}}
{{- define "georegister.selector" -}}
app.kubernetes.io/name: georegister-operator
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "georegister.labels" -}}
{{ include "georegister.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end -}}

{{- define "georegister.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "georegister.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "georegister.image" -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}

{{/* The namespaces with clusters, as a list in JSON; the list is empty for all of them. */}}
{{- define "georegister.namespaces" -}}
{{- if .Values.clusterWide -}}
{{- if .Values.watchNamespaces -}}
{{- fail "clusterWide is every namespace: leave watchNamespaces empty, or set clusterWide to false" -}}
{{- end -}}
[]
{{- else -}}
{{- default (list .Release.Namespace) .Values.watchNamespaces | uniq | sortAlpha | toJson -}}
{{- end -}}
{{- end -}}

{{- define "georegister.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "georegister.securityContext" -}}
allowPrivilegeEscalation: false
capabilities:
  drop: [ALL]
readOnlyRootFilesystem: true
{{- end -}}
