{{- define "gvList" -}}
# API reference

The fields of all custom resources, generated from `api/v1alpha1` by `make generate`. What they do together is described in [MediaAccount](mediaaccount.md), [MediaSettings](mediasettings.md), [MediaWebhook](mediawebhook.md) and [RetainedMediaAccount](retainedmediaaccount.md).
{{ range . }}{{ template "gvDetails" . }}{{ end }}
{{- end -}}
