{{- define "gateway.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "gateway.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 58 | trimSuffix "-" }}
{{- else if contains (include "gateway.name" .) .Release.Name }}
{{- .Release.Name | trunc 58 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "gateway.name" .) | trunc 58 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "gateway.selector" -}}
app.kubernetes.io/name: {{ include "gateway.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "gateway.labels" -}}
{{ include "gateway.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- define "gateway.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}
{{- default (include "gateway.fullname" .) .Values.serviceAccount.name }}
{{- else }}
{{- default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "gateway.configMap" -}}
{{- default (include "gateway.fullname" .) .Values.config.existingConfigMap }}
{{- end }}

{{- /* What would leave the gateway without Redis or without limits is refused while it is typed. */}}
{{- define "gateway.check" -}}
{{- if and (not .Values.config.existingConfigMap) (not .Values.config.files) }}
{{- fail "config.files is empty: give a file with limits, or the name of a ConfigMap in config.existingConfigMap" }}
{{- end }}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) }}
{{- fail "autoscaling.maxReplicas is less than autoscaling.minReplicas" }}
{{- end }}
{{- $delay := regexFind "[0-9]+" .Values.shutdownDelay | int }}
{{- if hasSuffix "ms" .Values.shutdownDelay }}{{ $delay = div $delay 1000 }}{{ else if hasSuffix "m" .Values.shutdownDelay }}{{ $delay = mul $delay 60 }}{{ end }}
{{- if le (int .Values.terminationGracePeriodSeconds) (int $delay) }}
{{- fail "terminationGracePeriodSeconds must be more than shutdownDelay: the gateway would be killed before it ends" }}
{{- end }}
{{- if .Values.networkPolicy.enabled }}
{{- $ports := list }}
{{- range .Values.networkPolicy.redisPorts }}{{ $ports = append $ports (toString (int .)) }}{{ end }}
{{- range regexFindAll ":[0-9]+([,/?]|$)" .Values.redis.url -1 }}
{{- $port := regexFind "[0-9]+" . }}
{{- if not (has $port $ports) }}
{{- fail (printf "networkPolicy.redisPorts lacks %s, a port of redis.url: the gateway could not reach it" $port) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
