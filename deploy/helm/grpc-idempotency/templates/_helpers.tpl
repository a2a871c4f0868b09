{{- define "idempotency.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "idempotency.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "idempotency.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "idempotency.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "idempotency.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/name: {{ include "idempotency.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end -}}

{{/* Of the pods that serve; those of the migration and of the test have another component. */}}
{{- define "idempotency.selector" -}}
app.kubernetes.io/name: {{ include "idempotency.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end -}}

{{- define "idempotency.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "idempotency.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "idempotency.image" -}}
{{- if .Values.image.digest -}}
{{ printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else -}}
{{ printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- end -}}
{{- end -}}

{{/* Pod Security Standards, level "restricted". */}}
{{- define "idempotency.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
# Secrets are readable by this group.
fsGroup: 10001
fsGroupChangePolicy: OnRootMismatch
seccompProfile:
  type: RuntimeDefault
{{- end -}}

{{- define "idempotency.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end -}}

{{/* What keeps the records: postgres or redis. */}}
{{- define "idempotency.engine" -}}
{{- ternary "redis" "postgres" (hasPrefix "redis" .Values.store.url) -}}
{{- end -}}

{{/* The ports of the database, as a list in JSON: those that the URLs of the store name, or their
defaults. A URL names them behind its hosts, or for Postgres in the parameter `port`. Behind Sentinels
is a server whose port only they have. */}}
{{- define "idempotency.databasePorts" -}}
{{- $sentinels := regexMatch "^rediss?[+]sentinel:" .Values.store.url -}}
{{- $default := 5432 -}}
{{- if eq (include "idempotency.engine" .) "redis" }}{{ $default = ternary 26379 6379 $sentinels }}{{ end -}}
{{- $ports := ternary (list 6379) list $sentinels -}}
{{- range compact (list .Values.store.url .Values.store.maintenance.url) -}}
{{- $named := regexFindAll "[?&]port=[0-9]+((,|%2C)[0-9]+)*" . -1 -}}
{{- range $one := $named -}}
{{- range regexFindAll "[0-9]+" (trimPrefix "port=" (substr 1 -1 $one) | replace "%2C" ",") -1 }}{{ $ports = append $ports (int .) }}{{ end -}}
{{- end -}}
{{- range splitList "," (regexReplaceAll "^[a-z+]+://([^@/?]*@)?([^/?]*).*$" . "${2}") -}}
{{- $port := regexFind ":[0-9]+$" . | trimPrefix ":" -}}
{{- if $port }}{{ $ports = append $ports (int $port) }}{{ else if not $named }}{{ $ports = append $ports $default }}{{ end -}}
{{- end -}}
{{- end -}}
{{- default ($ports | uniq) .Values.networkPolicy.databasePorts | toJson -}}
{{- end -}}

{{/* When the Job runs. A Redis is prepared once: an upgrade must not accept a loss of its data. */}}
{{- define "idempotency.migrateHooks" -}}
{{- ternary "pre-install" "pre-install,pre-upgrade" (eq (include "idempotency.engine" .) "redis") -}}
{{- end -}}

{{/* The store's password, of (dict "engine" ... "secret" ... "maintenance" ... "sentinel" ...), the last
two for another login and for the Sentinels: as variables, because libpq refuses a file that a group
may read, as files of Secrets have to be. */}}
{{- define "idempotency.password" -}}
{{- $maintenance := default dict .maintenance }}
{{- $sentinel := default dict .sentinel }}
{{- if or .secret.name $maintenance.name $sentinel.name }}
env:
{{- end }}
{{- if .secret.name }}
  - name: {{ ternary "REDIS_PASSWORD" "PGPASSWORD" (eq .engine "redis") }}
    valueFrom:
      secretKeyRef:
        name: {{ .secret.name }}
        key: {{ .secret.key }}
{{- end }}
{{- if $maintenance.name }}
  - name: IDEMPOTENCYD_MAINTENANCE_PASSWORD
    valueFrom:
      secretKeyRef:
        name: {{ $maintenance.name }}
        key: {{ $maintenance.key }}
{{- end }}
{{- if $sentinel.name }}
  - name: REDIS_SENTINEL_PASSWORD
    valueFrom:
      secretKeyRef:
        name: {{ $sentinel.name }}
        key: {{ $sentinel.key }}
{{- end }}
{{- end -}}

{{- define "idempotency.databaseCaVolume" -}}
- name: {{ include "idempotency.engine" . }}-ca
  secret:
    secretName: {{ .Values.store.caSecret.name }}
    defaultMode: 0440
    items:
      - key: {{ .Values.store.caSecret.key }}
        path: ca.crt
{{- end -}}

{{- define "idempotency.databaseCaMount" -}}
- name: {{ include "idempotency.engine" . }}-ca
  mountPath: /etc/idempotency/{{ include "idempotency.engine" . }}
  readOnly: true
{{- end -}}

{{- define "idempotency.configMap" -}}
{{- default (include "idempotency.fullname" .) .Values.config.existingConfigMap -}}
{{- end -}}

{{/* A client's flags for `idempotencyd health`. */}}
{{- define "idempotency.healthFlags" -}}
{{- if .Values.tls.existingSecret }}
- --tls
{{- if .Values.tls.probeSecret }}
- --tls_cert=/etc/idempotency/probe/tls.crt
- --tls_key=/etc/idempotency/probe/tls.key
{{- else if .Values.tls.clientCaSecret.name }}
- --tls_cert=/etc/idempotency/tls/tls.crt
- --tls_key=/etc/idempotency/tls/tls.key
{{- end }}
{{- end }}
{{- end -}}

{{- define "idempotency.tlsVolumes" -}}
{{- if .Values.tls.existingSecret }}
- name: tls
  secret:
    secretName: {{ .Values.tls.existingSecret }}
    defaultMode: 0440
{{- end }}
{{- if .Values.tls.probeSecret }}
- name: probe
  secret:
    secretName: {{ .Values.tls.probeSecret }}
    defaultMode: 0440
{{- end }}
{{- end -}}

{{- define "idempotency.tlsMounts" -}}
{{- if .Values.tls.existingSecret }}
- name: tls
  mountPath: /etc/idempotency/tls
  readOnly: true
{{- end }}
{{- if .Values.tls.probeSecret }}
- name: probe
  mountPath: /etc/idempotency/probe
  readOnly: true
{{- end }}
{{- end -}}

{{/* Values that fit their types but not each other. */}}
{{- define "idempotency.check" -}}
{{- if not .Values.store.url -}}
{{- fail "store.url is missing: set it to postgresql://USER@HOST:PORT/DATABASE" -}}
{{- end -}}
{{- if and (eq (include "idempotency.engine" .) "redis") .Values.store.maintenance.url -}}
{{- fail "store.maintenance is for Postgres: Redis has one login for all work" -}}
{{- end -}}
{{- if and .Values.store.sentinelPasswordSecret.name (not (regexMatch "^rediss?[+]sentinel:" .Values.store.url)) -}}
{{- fail "store.sentinelPasswordSecret needs a store.url of redis+sentinel://..." -}}
{{- end -}}
{{- if and .Values.store.maintenance.passwordSecret.name (not .Values.store.maintenance.url) -}}
{{- fail "store.maintenance.passwordSecret needs store.maintenance.url" -}}
{{- end -}}
{{- if and (not .Values.tls.existingSecret) (not .Values.tls.insecure) -}}
{{- fail "tls.existingSecret is missing: set it to the Secret of the server's certificate, or set tls.insecure=true, with which tokens and replies can be read on the network" -}}
{{- end -}}
{{- if and (not .Values.config.text) (not .Values.config.existingConfigMap) -}}
{{- fail "config.text is missing: no caller may do anything without a rule; docs/configuration.md has an example, and --set-file config.text=FILE passes a file" -}}
{{- end -}}
{{- if and .Values.extProc.enabled .Values.config.text (not (regexMatch "(?m)^\\s*external_processor\\b" .Values.config.text)) -}}
{{- fail "extProc.enabled needs the section `external_processor` in config.text, which states what is guarded (docs/external_processor.md)" -}}
{{- end -}}
{{- if and .Values.config.existingConfigMap (or .Values.config.text .Values.config.files) -}}
{{- fail "config.existingConfigMap excludes config.text and config.files" -}}
{{- end -}}
{{- if and .Values.tls.existingSecret .Values.tls.insecure -}}
{{- fail "tls.existingSecret and tls.insecure exclude each other" -}}
{{- end -}}
{{- if and .Values.tls.insecure (regexMatch "\\blocal\\s*:\\s*(?i:true|t|1)\\b" (regexReplaceAll "(?m)(^|\\s)#.*$" .Values.config.text "")) -}}
{{- fail "config.text has an identity with `local: true`, which excludes tls.insecure: a sidecar connects from the pod's own loopback, so every caller of the mesh would be that identity; identify callers by tokens (docs/access.md)" -}}
{{- end -}}
{{- if and (or .Values.tls.clientCaSecret.name .Values.tls.probeSecret) (not .Values.tls.existingSecret) -}}
{{- fail "tls.clientCaSecret and tls.probeSecret need tls.existingSecret" -}}
{{- end -}}
{{- if le (int .Values.terminationGracePeriodSeconds) (int .Values.drainTimeoutSeconds) -}}
{{- fail "terminationGracePeriodSeconds has to be longer than drainTimeoutSeconds" -}}
{{- end -}}
{{- if and .Values.autoscaling.enabled (lt (int .Values.autoscaling.maxReplicas) (int .Values.autoscaling.minReplicas)) -}}
{{- fail "autoscaling.maxReplicas is lower than autoscaling.minReplicas" -}}
{{- end -}}
{{- end -}}
