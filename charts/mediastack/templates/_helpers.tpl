{{/* Name that the names of all objects begin with. */}}
{{- define "mediastack.name" -}}
{{- include "mediastack.requireSections" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains (include "mediastack.program" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "mediastack.program" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* Value of the label app.kubernetes.io/name. */}}
{{- define "mediastack.program" -}}
{{- .Values.nameOverride | default "mediastack" -}}
{{- end -}}

{{/* Every template reads sections of the values without a check, and calls this first. */}}
{{- define "mediastack.requireSections" -}}
{{- range list "commonLabels" "commonAnnotations" "podSecurityContext" "containerSecurityContext" "certificate" "image" "traces" "database" "s3" "smtp" "cdn" "serverSecret" "trustedCA" "crds" "admission" "rbac" "priorityClass" "topologySpread" "nodeFailure" "operator" "runtime" "tls" "service" "ingress" "httpRoute" "purge" "migrate" "networkPolicy" "uninstallCheck" "monitoring" "metrics" "trial" -}}
{{- if not (kindIs "map" (get $.Values .)) -}}
{{- include "mediastack.failSection" . -}}
{{- end -}}
{{- end -}}
{{- range $path := list "operator.serviceAccount" "operator.podDisruptionBudget" "operator.probes.liveness" "operator.probes.readiness" "runtime.serviceAccount" "runtime.podDisruptionBudget" "runtime.probes.startup" "runtime.probes.liveness" "runtime.probes.readiness" "httpRoute.backendTLS" "certificate.issuerRef" "networkPolicy.dns" "metrics.tls.issuerRef" "metrics.tls.readerToken" -}}
{{- $section := $.Values -}}
{{- range splitList "." $path -}}
{{- $section = get $section . -}}
{{- if not (kindIs "map" $section) -}}{{- include "mediastack.failSection" $path -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "mediastack.failSection" -}}
{{- fail (printf "the values have no section %s: `helm upgrade --reuse-values` omits what is new in the values of this chart; use --reset-then-reuse-values instead" .) -}}
{{- end -}}

{{/* Labels by which selectors find pods. Argument: list of the root and the component. */}}
{{- define "mediastack.selector" -}}
app.kubernetes.io/name: {{ include "mediastack.program" (index . 0) }}
app.kubernetes.io/component: {{ index . 1 }}
{{- end -}}

{{/* Labels of the chart that every object has. Argument: the root. */}}
{{- define "mediastack.chartLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Labels that every object has. Argument: the root. */}}
{{- define "mediastack.commonLabels" -}}
{{ include "mediastack.chartLabels" . }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of an object. Argument: list of the root and the component. */}}
{{- define "mediastack.labels" -}}
{{ include "mediastack.selector" . }}
{{ include "mediastack.commonLabels" (index . 0) }}
{{- end -}}

{{/* Labels of a pod: none that changes with the version of the chart, which would roll the pods.
Argument: list of the root, the component and further labels. */}}
{{- define "mediastack.podLabels" -}}
{{- with merge (dict) (index . 2 | default dict) (index . 0).Values.commonLabels -}}
{{ toYaml . }}
{{ end -}}
{{ include "mediastack.selector" . }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
{{- end -}}

{{/* Annotations of an object, which is not indented. Argument: list of the root and annotations of its own. */}}
{{- define "mediastack.annotations" -}}
{{- with merge (dict) (index . 1 | default dict) (index . 0).Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
{{- end }}
{{- end -}}

{{/* Labels and annotations of the user must not be those by which the chart, Helm and the selectors work. */}}
{{- define "mediastack.checkMetadata" -}}
{{- range $value, $labels := dict "commonLabels" .Values.commonLabels "operator.podLabels" .Values.operator.podLabels "runtime.podLabels" .Values.runtime.podLabels "monitoring.labels" .Values.monitoring.labels -}}
{{- range $key, $_ := $labels -}}
{{- if or (hasPrefix "helm.sh/" $key) (hasPrefix "rbac.authorization.k8s.io/" $key) (has $key (list "app.kubernetes.io/name" "app.kubernetes.io/component" "app.kubernetes.io/instance" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "mediastack.dev/trial" "grafana_dashboard")) -}}
{{- fail (printf "%s: the chart sets the label %s itself" $value $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $value, $annotations := dict "commonAnnotations" .Values.commonAnnotations "operator.podAnnotations" .Values.operator.podAnnotations "runtime.podAnnotations" .Values.runtime.podAnnotations -}}
{{- range $key, $_ := $annotations -}}
{{- if or (hasPrefix "helm.sh/" $key) (has $key (list "kubectl.kubernetes.io/default-container" "checksum/settings")) -}}
{{- fail (printf "%s: the chart sets the annotation %s itself" $value $key) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Reference of an image. Argument: list of the root and operator or runtime. */}}
{{- define "mediastack.image" -}}
{{- $root := index . 0 -}}
{{- $image := get $root.Values.image (index . 1) -}}
{{- with $root.Values.image.registry }}{{ trimSuffix "/" . }}/{{ end -}}
{{- $image.repository -}}
{{- $digest := $image.digest -}}
{{- if and $root.Values.image.byDigest (not $digest) -}}
{{- $digest = get ($root.Files.Get "files/digests.yaml" | fromYaml) (index . 1) | required "image.byDigest: this chart is not that of a release, and has no digests. Set image.operator.digest and image.runtime.digest instead" -}}
{{- end -}}
{{- if $digest }}@{{ $digest }}{{ else }}:{{ $root.Values.image.tag | default $root.Chart.AppVersion }}{{ end -}}
{{- end -}}

{{/* Settings without secrets, as the data of the ConfigMap. */}}
{{- define "mediastack.settings" -}}
{{- $name := include "mediastack.name" . -}}
{{- $service := printf "%s-runtime" $name -}}
{{- $port := printf ":%s" (include "mediastack.servicePort" .) | trimSuffix (ternary ":443" ":80" (ne .Values.tls.secretName "")) -}}
{{- $hosts := list -}}
{{- range list $service (printf "%s.%s" $service .Release.Namespace) (printf "%s.%s.svc" $service .Release.Namespace) (printf "%s.%s.svc.cluster.local" $service .Release.Namespace) -}}
{{- $hosts = append $hosts (print . $port) -}}
{{- end -}}
{{- $data := dict
  "SERVICE_BASE_URL" (include "mediastack.baseURL" .)
  "SERVICE_S3_REGION" .Values.s3.region
  "SERVICE_MCP_HOSTS" (join "," (concat $hosts (include "mediastack.extraHostsWithPort" . | fromJsonArray) .Values.mcpHosts)) -}}
{{- if or .Values.trial.enabled (not .Values.s3.endpointKey) -}}
{{- $_ := set $data "SERVICE_S3_ENDPOINT" (include "mediastack.s3Endpoint" .) -}}
{{- end -}}
{{- if and (eq .Values.s3.credentials "iam") (not .Values.trial.enabled) -}}
{{- $_ := set $data "SERVICE_S3_CREDENTIALS" "iam" -}}
{{- end -}}
{{- with .Values.smtp -}}
{{- if .host -}}
{{- $_ := set $data "SERVICE_SMTP_HOST" .host -}}
{{- $_ := set $data "SERVICE_SMTP_PORT" (toString .port) -}}
{{- $_ := set $data "SERVICE_SMTP_TLS" .tls -}}
{{- $_ := set $data "SERVICE_MAIL_FROM" (required "smtp.from is not set: it is the sender of the login codes" .from) -}}
{{- if and .user (not .userKey) -}}
{{- $_ := set $data "SERVICE_SMTP_USER" .user -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- with .Values.cdn -}}
{{- if .purge -}}
{{- $_ := set $data "SERVICE_CDN_PURGE" .purge -}}
{{- $_ := set $data "SERVICE_CDN_PURGE_URL" (join "," (required "cdn.urls is not set: it has the addresses that take purges" .urls)) -}}
{{- end -}}
{{- end -}}
{{- with .Values.traces -}}
{{- if .endpoint -}}
{{- $_ := set $data "OTEL_EXPORTER_OTLP_ENDPOINT" .endpoint -}}
{{- $_ := set $data "OTEL_TRACES_SAMPLER" "parentbased_traceidratio" -}}
{{- $_ := set $data "OTEL_TRACES_SAMPLER_ARG" (toString .sampleRatio) -}}
{{- end -}}
{{- end -}}
{{- $known := .Files.Get "files/settings.json" | fromJson -}}
{{- range $key, $value := .Values.settings -}}
{{- if hasKey $known.valueOf $key -}}
{{- with get $known.valueOf $key -}}{{- fail (printf "settings.%s: use the value %s instead" $key .) -}}{{- end -}}
{{- fail (printf "settings.%s: the chart sets %s itself" $key $key) -}}
{{- else if not (has $key $known.allowed) -}}
{{- fail (printf "settings.%s: %s is not a setting; docs/reference/configuration.md has all of them" $key $key) -}}
{{- end -}}
{{- if kindIs "float64" $value -}}{{- $value = printf "%v" (int64 $value) -}}{{- end -}}
{{- $_ := set $data $key (toString $value) -}}
{{- end -}}
{{- toYaml $data -}}
{{- end -}}

{{/* Port of the runtime's Service. */}}
{{- define "mediastack.servicePort" -}}
{{- .Values.service.port | default (ternary 443 80 (ne .Values.tls.secretName "")) -}}
{{- end -}}

{{/* Scheme that the runtime listens for. */}}
{{- define "mediastack.scheme" -}}
{{- if .Values.tls.secretName -}}
{{- if not (hasPrefix "https://" (include "mediastack.baseURL" .)) -}}{{- fail "tls.secretName: baseURL must begin with https://" -}}{{- end -}}
https
{{- else -}}
http
{{- end -}}
{{- end -}}

{{/* With trial stores the service is reached by a port-forward. */}}
{{- define "mediastack.baseURL" -}}
{{- $default := ternary "http://localhost:8080" "" .Values.trial.enabled -}}
{{- required "baseURL is not set: it is the URL of the service for tenants, e.g. https://media.example.org" (.Values.baseURL | default $default) -}}
{{- end -}}

{{- define "mediastack.s3Endpoint" -}}
{{- if .Values.trial.enabled -}}
http://{{ include "mediastack.name" . }}-trial-s3:7070
{{- else -}}
{{- required "s3.endpoint is not set: it is the URL of the S3 store, e.g. https://s3.example.org" .Values.s3.endpoint -}}
{{- end -}}
{{- end -}}

{{/* A variable from a key of a Secret; from the Secret of the trial stores if they are enabled.
Argument: list of the root, the variable, the Secret and the key. */}}
{{- define "mediastack.secretEnv" -}}
{{- $trial := (index . 0).Values.trial.enabled -}}
- name: {{ index . 1 }}
  valueFrom:
    secretKeyRef:
      name: {{ ternary (printf "%s-trial" (include "mediastack.name" (index . 0))) (index . 2) $trial }}
      key: {{ ternary (index . 1) (index . 3) $trial }}
{{- end -}}

{{/* The driver takes PGSSLMODE if the URL has no sslmode. */}}
{{- define "mediastack.databaseEnv" -}}
{{ include "mediastack.secretEnv" (list . "SERVICE_DATABASE_URL" .Values.database.secretName .Values.database.urlKey) }}
{{- if and .Values.database.sslMode (not .Values.trial.enabled) }}
- name: PGSSLMODE
  value: {{ .Values.database.sslMode }}
{{- end }}
{{- end -}}

{{/* Variables of S3. Argument: the root. With temporary keys the identity of the pod is enough. */}}
{{- define "mediastack.s3Env" -}}
{{- $s3 := .Values.s3 -}}
{{- if and $s3.endpointKey (not .Values.trial.enabled) -}}
{{ include "mediastack.secretEnv" (list . "SERVICE_S3_ENDPOINT" $s3.secretName $s3.endpointKey) }}
{{ end -}}
{{ if or (eq $s3.credentials "static") .Values.trial.enabled -}}
{{ include "mediastack.secretEnv" (list . "SERVICE_S3_ACCESS_KEY" $s3.secretName $s3.accessKeyKey) }}
{{ include "mediastack.secretEnv" (list . "SERVICE_S3_SECRET_KEY" $s3.secretName $s3.secretKeyKey) }}
{{- end -}}
{{- end -}}

{{- define "mediastack.runtimeSecretEnv" -}}
{{- $root := . -}}
{{- with .Values.serverSecret }}
{{- include "mediastack.secretEnv" (list $root "SERVICE_SECRET" .secretName .key) }}
{{ include "mediastack.secretEnv" (list $root "SERVICE_SECRET_PREVIOUS" .secretName .previousKey) }}
      optional: true
{{- end }}
{{- with .Values.cdn }}
- name: SERVICE_CDN_PURGE_KEY
  valueFrom:
    secretKeyRef:
      name: {{ .secretName }}
      key: {{ .keyKey }}
      optional: true
{{- end }}
{{- with .Values.smtp }}
- name: SERVICE_SMTP_PASSWORD
  valueFrom:
    secretKeyRef:
      name: {{ .secretName }}
      key: {{ .passwordKey }}
      optional: true
{{- if .userKey }}
- name: SERVICE_SMTP_USER
  valueFrom:
    secretKeyRef:
      name: {{ .secretName }}
      key: {{ .userKey }}
{{- end }}
{{- end }}
{{- end -}}

{{- define "mediastack.envFrom" -}}
- configMapRef:
    name: {{ include "mediastack.name" . }}
{{- end -}}

{{/* Variables of the export of traces that are secret. */}}
{{- define "mediastack.tracesEnv" -}}
{{- with .Values.traces -}}
{{- if .secretName -}}
{{- if not .endpoint }}{{ fail "traces.secretName is set, but traces.endpoint is not: no traces are exported" }}{{ end -}}
- name: OTEL_EXPORTER_OTLP_HEADERS
  valueFrom:
    secretKeyRef:
      name: {{ .secretName }}
      key: {{ .headersKey }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* Variables of certificates of further authorities. Go reads the system's and these. */}}
{{- define "mediastack.trustedCAEnv" -}}
{{- if include "mediastack.trustedCA" . }}
- name: SSL_CERT_DIR
  value: /etc/ssl/certs:/etc/mediastack/ca
{{- end }}
{{- end -}}

{{/* Source of the volume with the certificates of further authorities; empty without them. */}}
{{- define "mediastack.trustedCA" -}}
{{- with .Values.trustedCA -}}
{{- if and .configMapName .secretName -}}{{- fail "trustedCA: configMapName and secretName are both set: use one of them" -}}{{- end -}}
{{- if .configMapName -}}
configMap:
  name: {{ .configMapName }}
{{- else if .secretName -}}
secret:
  secretName: {{ .secretName }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Values of the workload that a component belongs to. Argument: list of the root and the component. */}}
{{- define "mediastack.workload" -}}
{{- ternary "operator" "runtime" (eq (index . 1) "operator") -}}
{{- end -}}

{{/* Further variables of a container, without those that have a value of their own. Argument: list of the root and the component. */}}
{{- define "mediastack.extraEnv" -}}
{{- $root := index . 0 -}}
{{- $workload := include "mediastack.workload" . -}}
{{- with (get $root.Values $workload).extraEnv -}}
{{- $known := $root.Files.Get "files/settings.json" | fromJson -}}
{{- $values := dict "GOMEMLIMIT" (printf "%s.goMemoryLimit" $workload) "PGSSLMODE" "database.sslMode" "SSL_CERT_DIR" "trustedCA"
  "OTEL_EXPORTER_OTLP_ENDPOINT" "traces.endpoint" "OTEL_EXPORTER_OTLP_HEADERS" "traces.secretName" "OTEL_TRACES_SAMPLER" "traces.sampleRatio" "OTEL_TRACES_SAMPLER_ARG" "traces.sampleRatio" -}}
{{- range . -}}
{{- if hasKey $known.valueOf .name -}}
{{- fail (printf "%s.extraEnv: %s: %s" $workload .name (ternary (printf "use the value %s instead" (get $known.valueOf .name)) "the chart sets it itself" (ne (get $known.valueOf .name) ""))) -}}
{{- else if has .name $known.allowed -}}
{{- fail (printf "%s.extraEnv: %s: use the value settings.%s instead" $workload .name .name) -}}
{{- else if hasPrefix "SERVICE_" .name -}}
{{- fail (printf "%s.extraEnv: %s is not a setting; docs/reference/configuration.md has all of them" $workload .name) -}}
{{- else if hasKey $values .name -}}
{{- fail (printf "%s.extraEnv: %s: use the value %s instead" $workload .name (get $values .name)) -}}
{{- end -}}
{{- end -}}
{{- toYaml . -}}
{{- end -}}
{{- end -}}

{{/* Secret with the certificate of a program's metrics; empty without TLS. Argument: list of the root and operator or runtime. */}}
{{- define "mediastack.metricsSecret" -}}
{{- $root := index . 0 -}}
{{- with $root.Values.metrics.tls -}}
{{- if .enabled -}}
{{- get . (printf "%sSecretName" (index $ 1)) | default (printf "%s-%s-metrics" (include "mediastack.name" $root) (index $ 1)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Metrics by TLS need a token, and are of no use to what is half set. */}}
{{- define "mediastack.checkMetrics" -}}
{{- with .Values.metrics -}}
{{- if and .tls.enabled (not .tokenSecretName) -}}
{{- fail "metrics.tokenSecretName is not set: with metrics.tls.enabled the runtime demands the token of this Secret" -}}
{{- else if and (not .tls.enabled) (or .tokenSecretName .tls.operatorSecretName .tls.runtimeSecretName .tls.issuerRef.name .tls.readers .tls.readerToken.secretName) -}}
{{- fail "metrics: tls.enabled is false, so the other values have no effect" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Volumes of a pod and their mounts. Argument: list of the root and the component. */}}
{{- define "mediastack.mounts" -}}
{{- $root := index . 0 }}
{{- $tls := and (eq (index . 1) "runtime") $root.Values.tls.secretName }}
{{- $ca := include "mediastack.trustedCA" $root }}
{{- $workload := include "mediastack.workload" . }}
{{- $metrics := "" }}
{{- if has (index . 1) (list "operator" "runtime") }}{{ $metrics = include "mediastack.metricsSecret" . }}{{ end }}
{{- $extra := (get $root.Values $workload).extraVolumeMounts }}
{{- $names := list }}
{{- range (get $root.Values $workload).extraVolumes }}
{{- if has .name (list "trusted-ca" "tls" "metrics-tls" "metrics-token") }}{{ fail (printf "%s.extraVolumes: the chart has a volume %s itself" $workload .name) }}{{ end }}
{{- $names = append $names .name }}
{{- end }}
{{- range $extra }}
{{- if not (has .name $names) }}{{ fail (printf "%s.extraVolumeMounts: %s.extraVolumes has no volume %s" $workload $workload .name) }}{{ end }}
{{- end }}
{{- if or $tls $ca $metrics $extra }}
volumeMounts:
  {{- if $ca }}
  - name: trusted-ca
    mountPath: /etc/mediastack/ca
    readOnly: true
  {{- end }}
  {{- if $tls }}
  - name: tls
    mountPath: /etc/mediastack/tls
    readOnly: true
  {{- end }}
  {{- if $metrics }}
  - name: metrics-tls
    mountPath: /etc/mediastack/metrics-tls
    readOnly: true
  {{- if eq (index . 1) "runtime" }}
  - name: metrics-token
    mountPath: /etc/mediastack/metrics-token
    readOnly: true
  {{- end }}
  {{- end }}
  {{- with $extra }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "mediastack.volumes" -}}
{{- $root := index . 0 }}
{{- $tls := and (eq (index . 1) "runtime") $root.Values.tls.secretName }}
{{- $ca := include "mediastack.trustedCA" $root }}
{{- $metrics := "" }}
{{- if has (index . 1) (list "operator" "runtime") }}{{ $metrics = include "mediastack.metricsSecret" . }}{{ end }}
{{- $extra := (get $root.Values (include "mediastack.workload" .)).extraVolumes }}
{{- if or $tls $ca $metrics $extra }}
volumes:
  {{- if $ca }}
  - name: trusted-ca
    {{- $ca | nindent 4 }}
      items:
        - key: {{ $root.Values.trustedCA.key }}
          path: ca.crt
  {{- end }}
  {{- if $tls }}
  - name: tls
    secret:
      secretName: {{ $tls }}
  {{- end }}
  {{- if $metrics }}
  - name: metrics-tls
    secret:
      secretName: {{ $metrics }}
  {{- if eq (index . 1) "runtime" }}
  - name: metrics-token
    secret:
      secretName: {{ $root.Values.metrics.tokenSecretName }}
      items:
        - key: {{ $root.Values.metrics.tokenKey }}
          path: token
  {{- end }}
  {{- end }}
  {{- with $extra }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}
{{- end -}}

{{- define "mediastack.pullSecrets" -}}
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- end -}}

{{/* Fields of a map, the named ones first, each after a line break. Lists of plain values take one line.
Argument: list of the map and the names. */}}
{{- define "mediastack.fields" -}}
{{- $map := index . 0 -}}
{{- range $name := concat (index . 1) (keys $map | sortAlpha) | uniq -}}
{{- $value := get $map $name -}}
{{- if and $value (kindIs "map" $value) }}
{{ $name }}:
  {{- include "mediastack.fields" (list $value list) | trim | nindent 2 }}
{{- else if and $value (kindIs "slice" $value) (not (kindIs "map" (first $value))) }}
{{ $name }}: [{{ range $i, $item := $value }}{{ if $i }}, {{ end }}{{ toYaml $item }}{{ end }}]
{{- else if and (hasKey $map $name) (not (kindIs "invalid" $value)) }}
{{ toYaml (dict $name $value) }}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* The defaults are what the standard "restricted" demands of pods and containers. */}}
{{- define "mediastack.podSecurity" -}}
securityContext:
  {{- include "mediastack.fields" (list .Values.podSecurityContext (list "runAsNonRoot" "runAsUser" "runAsGroup")) | trim | nindent 2 }}
{{- end -}}

{{- define "mediastack.containerSecurity" -}}
securityContext:
  {{- include "mediastack.fields" (list .Values.containerSecurityContext (list "allowPrivilegeEscalation" "readOnlyRootFilesystem")) | trim | nindent 2 }}
{{- end -}}

{{/* A probe of /healthz or /readyz. Argument: list of the path, the port, the values of the probe, and the scheme; HTTP if it is empty. */}}
{{- define "mediastack.probe" -}}
httpGet:
  path: {{ index . 0 }}
  port: {{ index . 1 }}
  {{- with index . 3 }}
  scheme: {{ . }}
  {{- end }}
{{- with index . 2 }}
periodSeconds: {{ .periodSeconds }}
timeoutSeconds: {{ .timeoutSeconds }}
failureThreshold: {{ .failureThreshold }}
{{- end }}
{{- end -}}

{{/* How many pods may be away during a drain. Argument: list of the name of the values and podDisruptionBudget. */}}
{{- define "mediastack.budget" -}}
{{- $least := (index . 1).minAvailable -}}
{{- if kindIs "invalid" $least -}}
maxUnavailable: {{ required (printf "%s.podDisruptionBudget: neither maxUnavailable nor minAvailable is set" (index . 0)) (index . 1).maxUnavailable }}
{{- else -}}
minAvailable: {{ $least }}
{{- end -}}
{{- end -}}

{{/* Name of the service account of a workload. Argument: list of the root and operator or runtime. */}}
{{- define "mediastack.serviceAccount" -}}
{{- $account := (get (index . 0).Values (index . 1)).serviceAccount -}}
{{- if and (not $account.create) (not $account.name) -}}
{{- fail (printf "%s.serviceAccount.name is not set: with create: false it names a service account that exists" (index . 1)) -}}
{{- end -}}
{{- $account.name | default (printf "%s-%s" (include "mediastack.name" (index . 0)) (index . 1)) -}}
{{- end -}}

{{/* The operator has rights that the runtime must not have. */}}
{{- define "mediastack.checkServiceAccounts" -}}
{{- if eq (include "mediastack.serviceAccount" (list . "operator")) (include "mediastack.serviceAccount" (list . "runtime")) -}}
{{- fail "operator.serviceAccount and runtime.serviceAccount have the same name: the runtime must not have the rights of the operator" -}}
{{- end -}}
{{- end -}}

{{- define "mediastack.priorityClassName" -}}
{{- if .Values.priorityClass.create -}}
{{- .Values.priorityClass.name | default (include "mediastack.name" .) -}}
{{- else -}}
{{- .Values.priorityClass.name -}}
{{- end -}}
{{- end -}}

{{/* Constraints that keep the replicas of a workload on different nodes, also after drains, and in different
zones where there are some. Argument: list of the root and the component. */}}
{{- define "mediastack.spread" -}}
topologySpreadConstraints:
  - maxSkew: 1
    minDomains: {{ ternary 1 (index . 0).Values.topologySpread.minNodes (index . 0).Values.trial.enabled }}
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: DoNotSchedule
    nodeTaintsPolicy: Honor
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "mediastack.selector" . | nindent 8 }}
  {{- with (index . 0).Values.topologySpread.zones }}
  - maxSkew: 1
    topologyKey: topology.kubernetes.io/zone
    whenUnsatisfiable: {{ . }}
    nodeTaintsPolicy: Honor
    matchLabelKeys: [pod-template-hash]
    labelSelector:
      matchLabels:
        {{- include "mediastack.selector" $ | nindent 8 }}
  {{- end }}
  {{- $selector := include "mediastack.selector" . | fromYaml }}
  {{- range (index . 0).Values.topologySpread.constraints }}
  {{- if has .topologyKey (list "kubernetes.io/hostname" "topology.kubernetes.io/zone") }}
  {{- fail (printf "topologySpread.constraints: the chart has a constraint of %s itself: use topologySpread.minNodes and topologySpread.zones" .topologyKey) }}
  {{- end }}
  {{- toYaml (list (merge (dict) . (dict "labelSelector" (dict "matchLabels" $selector)))) | nindent 2 }}
  {{- end }}
{{- end -}}

{{/* Bytes of a quantity of memory or of GOMEMLIMIT; empty if it has another form. Argument: the quantity. */}}
{{- define "mediastack.bytes" -}}
{{- $text := ternary . (printf "%.0f" (float64 .)) (kindIs "string" .) -}}
{{- if regexMatch "^[0-9]+([.][0-9]+)?([kKMGT]i?B?|B)?$" $text -}}
{{- $unit := regexFind "[kKMGT]i?" $text -}}
{{- $factor := get (dict "" 1 "k" 1e3 "K" 1e3 "M" 1e6 "G" 1e9 "T" 1e12 "Ki" 1024 "Mi" 1048576 "Gi" 1073741824 "Ti" 1099511627776) $unit -}}
{{- printf "%.0f" (mulf (float64 (regexFind "^[0-9.]+" $text)) $factor) -}}
{{- end -}}
{{- end -}}

{{/* The limit of memory must cover the runtime and the maximum of each image worker, unless one of
them has a form that the chart cannot calculate with. */}}
{{- define "mediastack.checkRuntimeMemory" -}}
{{- with .Values.runtime -}}
{{- $limit := include "mediastack.bytes" (dig "limits" "memory" "" .resources) -}}
{{- $go := include "mediastack.bytes" .goMemoryLimit -}}
{{- $need := add (int64 $go) (mul .imageWorkers.count .imageWorkers.memory) -}}
{{- if and $limit $go (ne (toString (get ($.Values.settings | default dict) "SERVICE_IMAGE_ENABLED")) "false") (lt (int64 $limit) $need) -}}
{{- fail (printf "runtime.resources.limits.memory is %s bytes: it must be at least %d, which is goMemoryLimit and imageWorkers.memory for each of %d imageWorkers.count" $limit $need (int64 .imageWorkers.count)) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{/* Where pods may run. Argument: the values of a workload. */}}
{{- define "mediastack.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{/* Where replicas may run, and how long they stay on a node that has failed. A toleration of the user that
covers such a node comes before. Argument: list of the root and the values of a workload. */}}
{{- define "mediastack.replicaPlacement" -}}
{{- $seconds := (index . 0).Values.nodeFailure.tolerationSeconds -}}
{{- $own := (index . 1).tolerations | default list -}}
{{- $all := $own -}}
{{- if not (kindIs "invalid" $seconds) -}}
{{- range $key := list "node.kubernetes.io/not-ready" "node.kubernetes.io/unreachable" -}}
{{- $covered := false -}}
{{- range $own -}}
{{- if and (has (.key | default "") (list "" $key)) (has (.effect | default "") (list "" "NoExecute")) -}}{{- $covered = true -}}{{- end -}}
{{- end -}}
{{- if not $covered -}}
{{- $all = append $all (dict "key" $key "operator" "Exists" "effect" "NoExecute" "tolerationSeconds" (int64 $seconds)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- include "mediastack.placement" (merge (dict "tolerations" $all) (index . 1)) | trim -}}
{{- end -}}

{{/* Host of the base URL, without a port. */}}
{{- define "mediastack.host" -}}
{{- $host := get (urlParse (include "mediastack.baseURL" .)) "host" -}}
{{- regexReplaceAll ":[0-9]+$" $host "" -}}
{{- end -}}

{{/* Hosts of the service: that of the base URL, and the further ones. */}}
{{- define "mediastack.hosts" -}}
{{- concat (list (include "mediastack.host" .)) (.Values.extraHosts | default list) | uniq | toJson -}}
{{- end -}}

{{/* The further hosts with the port of the base URL. */}}
{{- define "mediastack.extraHostsWithPort" -}}
{{- $port := regexFind ":[0-9]+$" (get (urlParse (include "mediastack.baseURL" .)) "host") -}}
{{- $hosts := list -}}
{{- range .Values.extraHosts -}}
{{- $hosts = append $hosts (print . $port) -}}
{{- end -}}
{{- toJson $hosts -}}
{{- end -}}
