{{- define "type" -}}
{{- if markdownShouldRenderType . }}
### {{ .Name }}
{{ .Doc }}
{{- if .References }}

Used in: {{ range $i, $reference := .SortedReferences }}{{ if $i }}, {{ end }}{{ markdownRenderTypeLink $reference }}{{ end }}
{{- end }}
{{- $rules := index .Markers "kubebuilder:validation:XValidation" }}
{{- if .IsAlias }}

A {{ markdownRenderTypeLink .UnderlyingType }}.{{ range .Validation }} `{{ . | replace (printf "%c" 96) "" | replace "|" "\\|" }}`{{ end }}{{ template "rules" $rules }}
{{- else if $rules }}

Rules:{{ template "rules" $rules }}
{{- end }}
{{- if .Members }}

| field | type | default | meaning | bounds |
|---|---|---|---|---|
{{- range .Members }}
| `{{ .Name }}` | {{ markdownRenderType .Type }} | {{ with .Default }}`{{ . }}`{{ end }} | {{ template "type_members" . }} | {{ range .Validation }}{{ if not (hasPrefix "Optional" .) }}`{{ . | replace ": {}" "" | replace (printf "%c" 96) "" | replace "|" "\\|" }}` {{ end }}{{ end }}{{ template "rules" index .Markers "kubebuilder:validation:XValidation" }} |
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

{{- /* The rules of a type or field, in the words that the API server answers. */ -}}
{{- define "rules" -}}
{{- range $i, $rule := . }}{{ if $i }};{{ end }} {{ $rule.Message | replace "|" "\\|" }}{{ end -}}
{{- end -}}
