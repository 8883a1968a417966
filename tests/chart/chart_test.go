package chart_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

func TestMain(m *testing.M) { kit.RunBuilt(m) }

// everything switches on what is off by default.
const everything values = `
replicas: 3
image: {tag: 1.2.3}
imagePullSecrets: [{name: pull}]
autoscaling: {enabled: true, minReplicas: 2, maxReplicas: 9}
redis:
  url: "mymaster,s1:26379,s2:26379"
  type: SENTINEL
  auth: {existingSecret: throttle}
  tls: {enabled: true, existingSecret: redis-tls, clientCertificate: true}
grpcTLS: {existingSecret: grpc-tls, clientCA: true}
httpTLS: {existingSecret: http-tls}
env: [{name: SHADOW_MODE, value: "true"}]
service: {type: LoadBalancer, annotations: {a: b}}
metrics:
  serviceMonitor: {enabled: true, labels: {release: prometheus}}
  dashboard: {enabled: true}
networkPolicy:
  from: [{namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: edge}}}]
  redisPorts: [6379, 26379]
  redisTo: [{podSelector: {matchLabels: {app: redis}}}]
  egress: [{ports: [{port: 4318, protocol: TCP}]}]
serviceAccount: {annotations: {a: b}}
podAnnotations: {a: b}
podLabels: {team: edge}
nodeSelector: {disk: ssd}
tolerations: [{key: edge, operator: Exists}]
affinity: {nodeAffinity: {}}
topologySpreadConstraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}]
priorityClassName: high
`

// Whatever names another part of the chart names one that is there.
func TestThePartsOfTheChartFitTogether(t *testing.T) {
	t.Parallel()
	for name, given := range map[string]values{"by default": "", "everything": everything} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := rendered(t, given)
			gateways := one[*appsv1.Deployment](t, objects)
			pod := gateways.Spec.Template
			selects := func(what string, selector map[string]string) {
				t.Helper()
				assert.NotEmpty(t, selector, what)
				assert.True(t, labels.SelectorFromSet(selector).Matches(labels.Set(pod.Labels)), what)
			}
			selects("the deployment", gateways.Spec.Selector.MatchLabels)
			selects("the budget", one[*policyv1.PodDisruptionBudget](t, objects).Spec.Selector.MatchLabels)
			policy := one[*networkingv1.NetworkPolicy](t, objects)
			selects("the network policy", policy.Spec.PodSelector.MatchLabels)

			require.Len(t, pod.Spec.Containers, 1)
			c := pod.Spec.Containers[0]
			ports := map[string]int32{}
			for _, p := range c.Ports {
				ports[p.Name] = p.ContainerPort
			}
			services := 0
			for _, object := range objects {
				if service, ok := object.(*corev1.Service); ok {
					services++
					selects(service.Name, service.Spec.Selector)
					for _, p := range service.Spec.Ports {
						assert.Contains(t, ports, p.TargetPort.StrVal, service.Name)
					}
				}
			}
			assert.Equal(t, 2, services)
			for _, p := range policy.Spec.Ingress[0].Ports {
				assert.Contains(t, ports, p.Port.StrVal, "the network policy")
			}
			assert.Contains(t, ports, c.ReadinessProbe.HTTPGet.Port.StrVal)
			assert.Equal(t, ":"+strconv.Itoa(int(ports["metrics"])), env(c)["PROMETHEUS_ADDR"])

			volumes, mounted := map[string]bool{}, map[string]bool{}
			for _, v := range pod.Spec.Volumes {
				volumes[v.Name] = true
				if v.ConfigMap != nil {
					assert.Equal(t, "throttle-gateway", v.ConfigMap.Name)
				}
			}
			var folders []string
			for _, m := range c.VolumeMounts {
				mounted[m.Name] = true
				folders = append(folders, m.MountPath)
			}
			assert.Equal(t, volumes, mounted)
			for name, value := range env(c) {
				if strings.HasPrefix(value, "/") {
					assert.Contains(t, folders, filepath.Dir(value), name)
				}
			}
			assert.Contains(t, folders, c.Args[0], "the gateway reads what is mounted")
			assert.Equal(t, pod.Spec.ServiceAccountName, one[*corev1.ServiceAccount](t, objects).Name)

			if monitor := one[*unstructured.Unstructured](t, objects); monitor != nil {
				found, _, err := unstructured.NestedStringMap(monitor.Object, "spec", "selector", "matchLabels")
				require.NoError(t, err)
				matched := 0
				for _, object := range objects {
					if service, ok := object.(*corev1.Service); ok && labels.SelectorFromSet(found).Matches(labels.Set(service.Labels)) {
						matched++
						assert.True(t, slices.ContainsFunc(service.Spec.Ports, func(p corev1.ServicePort) bool { return p.Name == "metrics" }))
					}
				}
				assert.Equal(t, 1, matched, "services that the monitor finds: each pod is to be scraped once")
			}
		})
	}
}

// While Redis is out of reach, each gateway decides by its part of the limits. With an autoscaler that is the part of
// the most that may run.
func TestEachGatewayKnowsOfHowManyItIsOne(t *testing.T) {
	t.Parallel()
	alone := one[*appsv1.Deployment](t, rendered(t, "replicas: 5"))
	assert.Equal(t, int32(5), *alone.Spec.Replicas)
	assert.Equal(t, "5", env(alone.Spec.Template.Spec.Containers[0])["REPLICAS"])
	objects := rendered(t, everything)
	scaled := one[*appsv1.Deployment](t, objects)
	assert.Nil(t, scaled.Spec.Replicas, "the autoscaler says how many")
	assert.Equal(t, "9", env(scaled.Spec.Template.Spec.Containers[0])["REPLICAS"])
	assert.Equal(t, scaled.Name, one[*autoscalingv2.HorizontalPodAutoscaler](t, objects).Spec.ScaleTargetRef.Name)
}

func TestTheChartRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ given, says string }{
		{"replica: 3", "additional properties 'replica' not allowed"},
		{"replicas: 0", "minimum: got 0, want 1"},
		{"redis: {type: Cluster}", "value must be one of 'SINGLE', 'SENTINEL', 'CLUSTER'"},
		{"shutdownDelay: 5", "got number, want string"},
		{"config: {files: {web: x}}", "does not match pattern"},
		{"config: {files: null}", "config.files is empty"},
		{"redis: {url: 'redis.example:6380'}", "networkPolicy.redisPorts lacks 6380"},
		{"redis: {url: 'mymaster,s1:26379', type: SENTINEL}", "networkPolicy.redisPorts lacks 26379"},
		{"autoscaling: {enabled: true, minReplicas: 3, maxReplicas: 2}", "autoscaling.maxReplicas is less"},
		{"shutdownDelay: 45s", "terminationGracePeriodSeconds must be more than shutdownDelay"},
		{"shutdownDelay: 1m", "terminationGracePeriodSeconds must be more than shutdownDelay"},
		{"podDisruptionBudget: {maxUnavailable: half}", "does not match pattern"},
		{"redis: {url: 'redis://user:1234@redis.example:6380/0'}", "networkPolicy.redisPorts lacks 6380"},
		{"{httpTLS: {existingSecret: h, clientCA: true}, grpcTLS: {existingSecret: g}}", "httpTLS.clientCA beside grpcTLS"},
	} {
		_, err := render(t, values(tc.given))
		assert.ErrorContains(t, err, tc.says, tc.given)
	}
	for _, given := range []values{
		"config: {files: null, existingConfigMap: mine}", "{shutdownDelay: 45s, terminationGracePeriodSeconds: 70}", "shutdownDelay: 900ms",
		"redis: {url: '[2001:db8::1]:6379'}", "redis: {url: 'redis://user:1234@redis.example:6379/0'}",
	} {
		_, err := render(t, given)
		assert.NoError(t, err, given)
	}
}

// The dashboard of the chart is that of the docs.
func TestTheChartHasTheDashboard(t *testing.T) {
	t.Parallel()
	for _, object := range rendered(t, everything) {
		if m, ok := object.(*corev1.ConfigMap); ok && m.Labels["grafana_dashboard"] == "1" {
			var dashboard struct{ UID string }
			require.NoError(t, json.Unmarshal([]byte(m.Data["throttle-gateway.json"]), &dashboard))
			assert.Equal(t, "throttle-gateway", dashboard.UID)
			return
		}
	}
	t.Fatal("no dashboard")
}

// A gateway that is started with the arguments, the variables and the files of the chart is ready and alive as its
// probes ask, and serves on after SIGTERM, no longer ready, until proxies have heard of it.
func TestAGatewayRunsAsTheChartStartsIt(t *testing.T) {
	t.Parallel()
	objects := rendered(t, "shutdownDelay: 2s")
	pod := one[*appsv1.Deployment](t, objects).Spec.Template.Spec
	c := pod.Containers[0]
	folder := t.TempDir()
	config := one[*corev1.ConfigMap](t, objects)
	require.Equal(t, pod.Volumes[0].ConfigMap.Name, config.Name)
	for name, text := range config.Data {
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644))
	}

	s := server.Start(t)
	cmd := kit.GatewayCommand(t, s.Addr(), folder)
	variables := env(c)
	for _, here := range []string{"REDIS_URL", "PROMETHEUS_ADDR"} { // the test's server, and a free port
		assert.Contains(t, variables, here)
		delete(variables, here)
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		cmd.Env = append(cmd.Env, name+"="+variables[name])
	}
	g := kit.StartGateway(t, cmd)
	ready := func() int {
		response, err := http.Get("http://" + g.At["http"] + c.ReadinessProbe.HTTPGet.Path)
		if err != nil {
			return 0
		}
		_ = response.Body.Close()
		return response.StatusCode
	}
	assert.Equal(t, http.StatusOK, ready())
	assert.Equal(t, "live", *c.LivenessProbe.GRPC.Service)

	delay, err := time.ParseDuration(variables["SHUTDOWN_DELAY"])
	require.NoError(t, err)
	began := time.Now()
	require.True(t, g.Ends())
	assert.GreaterOrEqual(t, time.Since(began), delay)
}

// The values of the page are right, and so are the limits in them, and those by default.
func TestTheValuesOfThePageAreRight(t *testing.T) {
	t.Parallel()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "gateway.md"))
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(page), "\n### Kubernetes\n")
	_, block, _ := strings.Cut(section, "```yaml\n")
	block, _, found := strings.Cut(block, "```\n")
	require.True(t, found)
	for name, given := range map[string]values{"the page": values(block), "by default": ""} {
		path := filepath.Join(t.TempDir(), "web.yaml")
		require.NoError(t, os.WriteFile(path, []byte(one[*corev1.ConfigMap](t, rendered(t, given)).Data["web.yaml"]), 0o644))
		printed, err := kit.GatewayCommand(t, "", "check", path).CombinedOutput()
		assert.NoError(t, err, name)
		assert.Equal(t, "ok: 1 domains\n", string(printed), name)
	}
}

// The time that the chart gives to end is enough for what the gateway does in it, also by default.
func TestTheChartLetsTheGatewayEnd(t *testing.T) {
	t.Parallel()
	pod := one[*appsv1.Deployment](t, rendered(t, "")).Spec.Template.Spec
	delay, err := time.ParseDuration(env(pod.Containers[0])["SHUTDOWN_DELAY"])
	require.NoError(t, err)
	const shutdownTimeout = 20 * time.Second // the gateway's default
	assert.Less(t, delay+shutdownTimeout, time.Duration(*pod.TerminationGracePeriodSeconds)*time.Second)
}
