{{- define "type_members" -}}
{{- if eq .Name "metadata" -}}name, namespace, labels and annotations{{- else -}}{{ markdownRenderFieldDoc .Doc | replace "<br />" " " }}{{- end -}}
{{- end -}}
