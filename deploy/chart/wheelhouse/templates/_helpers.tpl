{{- define "wheelhouse.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if contains $name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "wheelhouse.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: hub
{{- end -}}

{{- define "wheelhouse.syncerSelector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: syncer
{{- end -}}

{{- define "wheelhouse.labels" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{- define "wheelhouse.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "wheelhouse.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "wheelhouse.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{- printf "%s@%s" .repository .digest -}}
{{- else -}}
{{- printf "%s:%s" .repository (default $.Chart.AppVersion .tag) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- /* The name under which clients verify the hub: the first one of its certificate. */ -}}
{{- define "wheelhouse.host" -}}
{{- if .Values.hosts -}}
{{- first .Values.hosts -}}
{{- else -}}
{{- printf "%s.%s.svc" (include "wheelhouse.fullname" .) .Release.Namespace -}}
{{- end -}}
{{- end -}}

{{- define "wheelhouse.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "wheelhouse.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{- define "wheelhouse.egress" -}}
{{- with .Values.networkPolicy.egress -}}
{{ toYaml . }}
{{- else -}}
- ports:
  - {port: 53, protocol: UDP}
  - {port: 53, protocol: TCP}
# Spokes, etcd and webhooks may be anywhere, but not where machines ask for their own credentials.
- to:
  - namespaceSelector: {}
  - ipBlock: {cidr: 0.0.0.0/0, except: [169.254.0.0/16]}
  - ipBlock: {cidr: "::/0", except: ["fe80::/10"]}
{{- end }}
{{- end -}}

{{- define "wheelhouse.args" -}}
{{- $name := include "wheelhouse.fullname" . -}}
- serve
- --data-dir=/var/lib/wheelhouse/data
- --listen={{ .Values.listenAddress }}:{{ .Values.service.port }}
- --kubeconfig-out=/run/wheelhouse/admin.kubeconfig
{{- range .Values.hosts }}
- --host={{ . }}
{{- end }}
- --host={{ $name }}.{{ .Release.Namespace }}.svc
- --host={{ $name }}.{{ .Release.Namespace }}.svc.{{ .Values.clusterDomain }}
- --host={{ $name }}.{{ .Release.Namespace }}
- --host={{ $name }}
{{- if eq .Values.store.type "etcd" }}
{{- with .Values.store.etcd }}
- --etcd-servers={{ join "," .servers }}
- --etcd-prefix={{ .prefix }}
{{- if .tlsSecret }}
- --etcd-cafile=/etc/wheelhouse/etcd/ca.crt
- --etcd-certfile=/etc/wheelhouse/etcd/tls.crt
- --etcd-keyfile=/etc/wheelhouse/etcd/tls.key
{{- end }}
{{- end }}
{{- end }}
{{- if .Values.syncers.enabled }}
- --no-syncer
- --syncer-kubeconfig-out=/run/wheelhouse/syncer.kubeconfig
{{- end }}
{{- if .Values.tls.secretName }}
- --tls-cert-file=/etc/wheelhouse/tls/tls.crt
- --tls-private-key-file=/etc/wheelhouse/tls/tls.key
{{- end }}
{{- if .Values.tokenAuth.secretName }}
- --token-auth-file=/etc/wheelhouse/tokens/{{ .Values.tokenAuth.key }}
{{- end }}
{{- if .Values.encryption.secretName }}
- --encryption-key-file=/etc/wheelhouse/encryption/{{ .Values.encryption.key }}
{{- end }}
{{- with .Values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end -}}
