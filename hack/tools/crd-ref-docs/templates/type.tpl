{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}
{{ .Doc }}
{{- if .References }}

Used in: {{ range $i, $reference := .SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $reference }}{{ end }}
{{- end }}
{{- if .IsAlias }}

A {{ markdownRenderTypeLink .UnderlyingType }}.{{ range .Validation }} `{{ . | replace (printf "%c" 96) "" | replace "|" "\\|" }}`{{ end }}
{{- end }}
{{- if .Members }}

| field | type | default | meaning | bounds |
|---|---|---|---|---|
{{- range .Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ with .Default }}`{{ . }}`{{ end }} | {{ template "type_members" . }} | {{ range .Validation }}{{ if not (hasPrefix "Optional" .) }}`{{ . | replace ": {}" "" | replace (printf "%c" 96) "" | replace "|" "\\|" }}` {{ end }}{{ end }} |
{{- end }}
{{- end }}
{{- if .EnumValues }}

| value | meaning |
|---|---|
{{- range .EnumValues }}
| `{{ .Name }}` | {{ markdownRenderFieldDoc .Doc | replace "<br />" " " }} |
{{- end }}
{{- end }}
{{ end -}}
{{- end -}}
