package chart_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

// eachValue has an example of each value, and what comes of it that is not there by default. "!" is before what goes.
var eachValue = map[string]struct {
	given values
	makes string
}{
	"image.repository":        {"image: {repository: here/gateway}", `image: "here/gateway:`},
	"image.tag":               {"image: {tag: 9.9.9}", `:9.9.9"`},
	"image.pullPolicy":        {"image: {pullPolicy: Always}", "imagePullPolicy: Always"},
	"imagePullSecrets":        {"imagePullSecrets: [{name: pull}]", "imagePullSecrets:\n        - name: pull"},
	"replicas":                {"replicas: 7", "\n  replicas: 7\n"},
	"autoscaling.enabled":     {"autoscaling: {enabled: true}", "kind: HorizontalPodAutoscaler"},
	"autoscaling.minReplicas": {"autoscaling: {enabled: true, minReplicas: 4}", "minReplicas: 4"},
	"autoscaling.maxReplicas": {"autoscaling: {enabled: true, maxReplicas: 9}", "maxReplicas: 9"},
	"autoscaling.targetCPUUtilizationPercentage": {"autoscaling: {enabled: true, targetCPUUtilizationPercentage: 55}", "averageUtilization: 55"},
	"config.files":                       {`config: {files: {b.yaml: "domain: b"}}`, `"b.yaml": "domain: b"`},
	"config.existingConfigMap":           {"config: {existingConfigMap: mine}", "configMap: {name: mine}"},
	"redis.url":                          {"redis: {url: 'other:6379'}", `{name: REDIS_URL, value: "other:6379"}`},
	"redis.type":                         {"redis: {type: CLUSTER}", "{name: REDIS_TYPE, value: CLUSTER}"},
	"redis.auth.existingSecret":          {"redis: {auth: {existingSecret: s}}", "secretKeyRef: {name: s, key: password}"},
	"redis.auth.key":                     {"redis: {auth: {existingSecret: s, key: word}}", "secretKeyRef: {name: s, key: word}"},
	"redis.tls.enabled":                  {"redis: {tls: {enabled: true}}", `{name: REDIS_TLS, value: "true"}`},
	"redis.tls.existingSecret":           {"redis: {tls: {enabled: true, existingSecret: r}}", "secret: {secretName: r}"},
	"redis.tls.clientCertificate":        {"redis: {tls: {enabled: true, existingSecret: r, clientCertificate: true}}", "REDIS_TLS_CLIENT_KEY"},
	"grpcTLS.existingSecret":             {"grpcTLS: {existingSecret: g}", "secret: {secretName: g}"},
	"grpcTLS.clientCA":                   {"grpcTLS: {existingSecret: g, clientCA: true}", "GRPC_CLIENT_TLS_CACERT"},
	"httpTLS.existingSecret":             {"httpTLS: {existingSecret: h}", "httpGet: {path: /healthcheck, port: http, scheme: HTTPS}"},
	"httpTLS.clientCA":                   {"httpTLS: {existingSecret: h, clientCA: true}", "grpc: {port: 8081}\n"},
	"env":                                {"env: [{name: SHADOW_MODE, value: 'true'}]", "name: SHADOW_MODE"},
	"shutdownDelay":                      {"shutdownDelay: 7s", `{name: SHUTDOWN_DELAY, value: "7s"}`},
	"terminationGracePeriodSeconds":      {"terminationGracePeriodSeconds: 77", "terminationGracePeriodSeconds: 77"},
	"service.type":                       {"service: {type: NodePort}", "type: NodePort"},
	"service.httpPort":                   {"service: {httpPort: 81}", "{name: http, port: 81, targetPort: http}"},
	"service.grpcPort":                   {"service: {grpcPort: 82}", "{name: grpc, port: 82, targetPort: grpc"},
	"service.annotations":                {"service: {annotations: {team: edge}}", "annotations:\n    team: edge"},
	"metrics.port":                       {"metrics: {port: 9191}", `{name: PROMETHEUS_ADDR, value: ":9191"}`},
	"metrics.serviceMonitor.enabled":     {"metrics: {serviceMonitor: {enabled: true}}", "kind: ServiceMonitor"},
	"metrics.serviceMonitor.interval":    {"metrics: {serviceMonitor: {enabled: true, interval: 7s}}", "interval: 7s"},
	"metrics.serviceMonitor.labels":      {"metrics: {serviceMonitor: {enabled: true, labels: {release: p}}}", "    release: p"},
	"metrics.dashboard.enabled":          {"metrics: {dashboard: {enabled: true}}", "grafana_dashboard: \"1\""},
	"metrics.dashboard.labels":           {"metrics: {dashboard: {enabled: true, labels: {folder: limits}}}", "    folder: limits"},
	"podDisruptionBudget.enabled":        {"podDisruptionBudget: {enabled: false}", "!kind: PodDisruptionBudget"},
	"podDisruptionBudget.maxUnavailable": {"podDisruptionBudget: {maxUnavailable: 50%}", "maxUnavailable: 50%"},
	"networkPolicy.enabled":              {"networkPolicy: {enabled: false}", "!kind: NetworkPolicy"},
	"networkPolicy.from":                 {"networkPolicy: {from: [{podSelector: {}}]}", "from:\n        - podSelector: {}"},
	"networkPolicy.redisPorts":           {"{redis: {url: 'other:7000'}, networkPolicy: {redisPorts: [7000]}}", "{port: 7000, protocol: TCP}"},
	"networkPolicy.redisTo":              {"networkPolicy: {redisTo: [{podSelector: {}}]}", "to:\n        - podSelector: {}"},
	"networkPolicy.egress":               {"networkPolicy: {egress: [{ports: [{port: 4318}]}]}", "    - ports:\n      - port: 4318"},
	"serviceAccount.create":              {"serviceAccount: {create: false}", "!kind: ServiceAccount"},
	"serviceAccount.name":                {"serviceAccount: {name: mine}", "serviceAccountName: mine"},
	"serviceAccount.annotations":         {"serviceAccount: {annotations: {role: edge}}", "annotations:\n    role: edge"},
	"resources":                          {"resources: {limits: {memory: 1Gi}}", "memory: 1Gi"},
	"podAnnotations":                     {"podAnnotations: {team: edge}", "annotations:\n        team: edge"},
	"podLabels":                          {"podLabels: {team: edge}", "        team: edge"},
	"nodeSelector":                       {"nodeSelector: {disk: ssd}", "nodeSelector:\n        disk: ssd"},
	"tolerations":                        {"tolerations: [{operator: Exists}]", "tolerations:\n        - operator: Exists"},
	"affinity":                           {"affinity: {nodeAffinity: {}}", "affinity:\n        nodeAffinity: {}"},
	"topologySpreadConstraints":          {"topologySpreadConstraints: [{maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]", "maxSkew: 2"},
	"priorityClassName":                  {"priorityClassName: high", "priorityClassName: high"},
	"nameOverride":                       {"nameOverride: edge", "app.kubernetes.io/name: edge"},
	"fullnameOverride":                   {"fullnameOverride: edge", "\n  name: edge\n"},
}

// namesOf lists the values of a schema: what has no properties itself.
func namesOf(schema map[string]any, path string) (names []string) {
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return []string{strings.TrimPrefix(path, ".")}
	}
	for name, inner := range properties {
		names = append(names, namesOf(inner.(map[string]any), path+"."+name)...)
	}
	return names
}

// Each value that the schema knows changes what comes, and what comes is what Kubernetes reads.
func TestEachValueDoesSomething(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "packaging", "helm", "throttle-gateway", "values.schema.json"))
	require.NoError(t, err)
	schema := map[string]any{}
	require.NoError(t, json.Unmarshal(text, &schema))
	names := slices.DeleteFunc(namesOf(schema, ""), func(name string) bool { return name == "global" }) // which Helm gives all charts
	assert.ElementsMatch(t, names, slices.Collect(maps.Keys(eachValue)))
	shown := func(given values) string {
		files, err := manifests(t, given)
		require.NoError(t, err)
		for path, text := range files {
			if filepath.Ext(path) == ".yaml" {
				decoded(t, text)
			}
		}
		return strings.Join(slices.Sorted(maps.Values(files)), "\n---\n")
	}
	before := shown("")
	for name, one := range eachValue {
		after := shown(one.given)
		if gone, ok := strings.CutPrefix(one.makes, "!"); ok {
			assert.Contains(t, before, gone, name)
			assert.NotContains(t, after, gone, name)
			continue
		}
		assert.NotContains(t, before, one.makes, name)
		assert.Contains(t, after, one.makes, name)
	}
}
