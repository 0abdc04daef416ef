{{/* A manifest of files/chaos with its parameters, in JSON. Given are a list of: the root, the manifest's name, the cluster's
parameters, and those of its own. */}}
{{- define "georegister.chaos.manifest" -}}
{{- $root := index . 0 -}}
{{- $p := merge (omit (index . 3) "enabled") (index . 2) (omit $root.Values.chaos "cluster" "namespace" "site" "peer") -}}
{{- $url := "http://%s--%s.%s.svc:8080/quorumz" -}}
{{- $tokens := dict
  "CLUSTER" $p.cluster "NAMESPACE" $p.namespace "OPERATOR_NAMESPACE" $root.Release.Namespace "PROTOCOL" $p.protocol
  "IMAGE" (default (include "georegister.image" $root) $p.image) "SITES" (join "," $p.sites) "SITE" $p.site "PEER" $p.peer
  "SITE_QUORUM" (printf $url $p.cluster $p.site $p.namespace) "PEER_QUORUM" (printf $url $p.cluster $p.peer $p.namespace)
  "EVERY" $p.every "DURATION" $p.duration "SETTLE" $p.settle "LOAD" $p.load "SEED" $p.seed
  "LOSS" $p.loss "DELAY" $p.delay "OFFSET" $p.offset "STRESS" $p.stress -}}
{{- $object := $root.Files.Get (printf "files/chaos/%s.yaml" (index . 1)) | fromYaml -}}
{{- include "georegister.chaos.fill" (dict "value" $object "tokens" $tokens "minority" (default (list $p.site) $p.minority)) -}}
{{- end -}}

{{/* A value with parameters in the place of their names, in JSON. */}}
{{- define "georegister.chaos.fill" -}}
{{- $in := . -}}
{{- $comma := "" -}}
{{- if kindIs "map" .value -}}
{
{{- range $key, $value := .value -}}
{{- $comma }}{{ toJson $key }}:{{ include "georegister.chaos.fill" (merge (dict "value" $value) (omit $in "value")) -}}
{{- $comma = "," -}}
{{- end -}}
}
{{- else if kindIs "slice" .value -}}
[
{{- range $value := .value -}}
{{- if eq (toString $value) "MINORITY" -}}
{{- range $site := $in.minority -}}
{{- $comma }}{{ toJson $site -}}
{{- $comma = "," -}}
{{- end -}}
{{- else -}}
{{- $comma }}{{ include "georegister.chaos.fill" (merge (dict "value" $value) (omit $in "value")) -}}
{{- $comma = "," -}}
{{- end -}}
{{- end -}}
]
{{- else if kindIs "string" .value -}}
{{- $text := .value -}}
{{- range $name, $value := .tokens -}}
{{- $text = mustRegexReplaceAllLiteral (printf "\\b%s\\b" $name) $text $value -}}
{{- end -}}
{{- toJson $text -}}
{{- else -}}
{{- toJson .value -}}
{{- end -}}
{{- end -}}
