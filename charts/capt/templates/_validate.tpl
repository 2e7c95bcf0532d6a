{{/* Refuses values with which the manager would not work. */}}
{{- define "capt.validate" -}}
{{- $flags := .Values.flags }}
{{- if eq (toString (index $flags "webhook-port")) "0" }}
{{- fail "flags.webhook-port is 0: the chart installs webhooks, so the manager must serve them" }}
{{- end }}
{{- range list "health-addr" "diagnostics-address" }}
{{- $port := last (splitList ":" (toString (index $flags .))) }}
{{- if or (eq $port "0") (eq $port "") }}
{{- fail (printf "flags.%s has no port: write :PORT, for example %s" . (ternary ":9440" ":8443" (eq . "health-addr"))) }}
{{- end }}
{{- end }}
{{- if and (ne (toString (index $flags "leader-elect")) "true") (gt (int .Values.replicas) 1) }}
{{- fail "flags.leader-elect is false: set replicas to 1, or two managers would change the same objects" }}
{{- end }}
{{- end }}
