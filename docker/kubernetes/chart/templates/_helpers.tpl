{{- define "kwire.name" -}}
{{- .Values.fullnameOverride | default .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{/* The labels by which services and the budget find the brokers; they never change. */}}
{{- define "kwire.selector" -}}
app.kubernetes.io/name: kwire
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: broker
{{- end }}

{{- define "kwire.zookeeperSelector" -}}
app.kubernetes.io/name: kwire
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: zookeeper
{{- end }}

{{/* Rights of every pod, as the restricted pod security standard has them. */}}
{{- define "kwire.podSecurity" -}}
runAsNonRoot: true
runAsUser: 1000
runAsGroup: 1000
fsGroup: 1000
fsGroupChangePolicy: OnRootMismatch
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{/* What the brokers are: alone, zookeeper or kraft.  It refuses values that contradict each other. */}}
{{- define "kwire.mode" -}}
{{- $zookeeper := .Values.zookeeper -}}
{{- if and $zookeeper.enabled $zookeeper.connect -}}
{{- fail "zookeeper.enabled starts a ZooKeeper, and zookeeper.connect names another one: set one of them." -}}
{{- end -}}
{{- $onZooKeeper := or $zookeeper.enabled $zookeeper.connect -}}
{{- if and $onZooKeeper .Values.kraft.controllers -}}
{{- fail "kraft.controllers and a ZooKeeper are both set: a broker is a member of one cluster. Set kraft.controllers, or zookeeper.connect, or zookeeper.enabled." -}}
{{- end -}}
{{- if and .Values.kraft.clusterId (not .Values.kraft.controllers) -}}
{{- fail "kraft.clusterId is set without kraft.controllers: add the addresses of the controllers, as controller-0:9093,controller-1:9093." -}}
{{- end -}}
{{- $factor := int .Values.topics.replicationFactor -}}
{{- if gt (int .Values.topics.minInsyncReplicas) $factor -}}
{{- fail (printf "topics.minInsyncReplicas is %d, and topics have %d replicas (topics.replicationFactor): no write with acks=all would succeed. Lower the first, or raise the second." (int .Values.topics.minInsyncReplicas) $factor) -}}
{{- end -}}
{{- if and $zookeeper.enabled (gt $factor (int .Values.replicas)) -}}
{{- fail (printf "topics.replicationFactor is %d, and replicas, the number of brokers, is %d: lower the first, or raise the second." $factor (int .Values.replicas)) -}}
{{- end -}}
{{- if .Values.kraft.controllers -}}
kraft
{{- else if $onZooKeeper -}}
zookeeper
{{- else if gt (int .Values.replicas) 1 -}}
{{- fail (printf "replicas is %d, and brokers that are in no cluster would be %d clusters: set zookeeper.connect to a ZooKeeper, as zookeeper:2181, or zookeeper.enabled=true to start one, or kraft.controllers to Apache Kafka's controllers, as controller-0:9093." (int .Values.replicas) (int .Values.replicas)) -}}
{{- else -}}
alone
{{- end -}}
{{- end }}

{{/* The variable of a broker setting: log.retention.hours is KAFKA_LOG_RETENTION_HOURS. */}}
{{- define "kwire.variable" -}}
KAFKA_{{ . | replace "_" "__" | replace "-" "___" | replace "." "_" | upper }}
{{- end }}

{{/* A setting as text: 10485760 stays that, and does not become 1.048576e+07. */}}
{{- define "kwire.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq . (floor .) }}{{ int64 . }}{{ else }}{{ . }}{{ end -}}
{{- else -}}
{{ . }}
{{- end -}}
{{- end }}

{{/* Settings that the chart sets itself, and the end of the sentence that refuses them in `settings`. */}}
{{- define "kwire.derived" -}}
listeners: "clients and probes use port 9092"
advertised.listeners: "each pod advertises its own name"
broker.id: "use firstBrokerId"
node.id: "use firstBrokerId"
log.dirs: "the data are in the volume"
log.dir: "the data are in the volume"
process.roles: "use kraft.controllers"
controller.quorum.bootstrap.servers: "use kraft.controllers"
controller.quorum.voters: "use kraft.controllers"
zookeeper.connect: "use the value zookeeper.connect outside settings"
default.replication.factor: "use topics.replicationFactor"
min.insync.replicas: "use topics.minInsyncReplicas"
metrics.port: "use metrics.enabled"
metrics.host: "use metrics.enabled"
{{- end }}
