{{/*
The reference of an image. Without a tag or digest of its own, it is the version of the chart,
with the digest that a release has in its annotations.
*/}}
{{- define "capt.image" -}}
{{- $image := .image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else if $image.tag -}}
{{ $image.repository }}:{{ $image.tag }}
{{- else -}}
{{ $image.repository }}:{{ .chart.AppVersion }}{{ with index .chart.Annotations (printf "capt.appthrust.io/%s-digest" .name) }}@{{ . }}{{ end }}
{{- end -}}
{{- end }}
