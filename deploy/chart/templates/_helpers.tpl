{{- define "waywarden.name" -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "waywarden.labels" -}}
app.kubernetes.io/name: waywarden
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "waywarden.selector" -}}
app.kubernetes.io/name: waywarden
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "waywarden.image" -}}
{{- with .Values.image }}
{{- if .registry }}{{ .registry }}/{{ end }}{{ .repository }}
{{- if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* The Secret that the certificate comes from. */}}
{{- define "waywarden.secret" -}}
{{- if eq .Values.certificates.source "files" }}{{ required "certificates.existingSecret: the Secret with tls.crt and tls.key" .Values.certificates.existingSecret }}
{{- else if eq .Values.certificates.source "cert-manager" }}{{ include "waywarden.name" . }}-tls
{{- else }}{{ include "waywarden.name" . }}-certificates{{ end }}
{{- end }}

{{/* Both webhook configurations and the ClusterRole are the cluster's: two releases must not share them. */}}
{{- define "waywarden.clusterName" -}}
{{- if eq .Release.Name .Release.Namespace }}{{ include "waywarden.name" . }}{{ else }}{{ include "waywarden.name" . }}-{{ .Release.Namespace }}{{ end }}
{{- end }}

{{- define "waywarden.closedPolicy" -}}
{{- if and (eq .Values.mode "enforce") .Values.admission.failClosed }}Fail{{ else }}Ignore{{ end }}
{{- end }}

{{- define "waywarden.webhookAnnotations" -}}
{{- if eq .Values.certificates.source "cert-manager" -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "waywarden.name" . }}
{{- end }}
{{- end }}

{{/* CEL: whoever asks is a member of a break-glass group. Reads the request alone, and cannot fail. */}}
{{- define "waywarden.isBreakGlass" -}}
has(request.userInfo) && has(request.userInfo.groups) &&
request.userInfo.groups.exists(group, group in {{ .Values.admission.breakGlassGroups | toJson | replace "\"" "'" }})
{{- end }}

{{/*
What all entries have. Call with a dict: root, path, failurePolicy; breakGlass where members of a break-glass group are asked about, and
nobody else; timeoutSeconds where it is not that of the values.
matchConditions read metadata only and cannot fail: one that does would refuse the request.
*/}}
{{- define "waywarden.entry" -}}
{{- $root := .root -}}
clientConfig:
  service:
    namespace: {{ $root.Release.Namespace }}
    name: {{ include "waywarden.name" $root }}
    path: {{ .path }}
    port: 443
  {{- if eq $root.Values.certificates.source "files" }}
  caBundle: {{ required "certificates.caBundle: PEM of the CA" $root.Values.certificates.caBundle | b64enc }}
  {{- end }}
admissionReviewVersions: [v1]
failurePolicy: {{ .failurePolicy }}
matchPolicy: Equivalent
sideEffects: {{ ternary "NoneOnDryRun" "None" $root.Values.events.enabled }}
timeoutSeconds: {{ .timeoutSeconds | default $root.Values.admission.timeoutSeconds }}
namespaceSelector:
  matchExpressions:
    - key: kubernetes.io/metadata.name
      operator: NotIn
      values:
        {{- concat (list $root.Release.Namespace "kube-system" "kube-node-lease") $root.Values.admission.unguardedNamespaces | uniq | toYaml | nindent 8 }}
matchConditions:
  - name: not-terminating
    expression: object == null || !has(object.metadata) || !has(object.metadata.deletionTimestamp)
  - name: not-a-pod-of-istio
    expression: >-
      request.resource.resource != 'pods' || request.resource.group != '' || !has(request.namespace) ||
      !(request.namespace in {{ $root.Values.istio.rootNamespaces | toJson | replace "\"" "'" }})
  {{- if $root.Values.admission.breakGlassGroups }}
  {{- if .breakGlass }}
  - name: break-glass
    expression: >-
      {{- include "waywarden.isBreakGlass" $root | nindent 6 }}
  {{- else }}
  - name: not-break-glass
    expression: >-
      !(
      {{- include "waywarden.isBreakGlass" $root | nindent 6 }}
      )
  {{- end }}
  {{- end }}
{{- end }}
