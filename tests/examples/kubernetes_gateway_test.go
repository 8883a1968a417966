package examples

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

func TestTheManifestOfTheGatewayFitsTogether(t *testing.T) {
	t.Parallel()
	var config *corev1.ConfigMap
	var service *corev1.Service
	var gateways *appsv1.Deployment
	for _, object := range objects(t, "../../packaging/gateway/kubernetes.yaml") {
		switch o := object.(type) {
		case *corev1.ConfigMap:
			config = o
		case *corev1.Service:
			service = o
		case *appsv1.Deployment:
			gateways = o
		default:
			t.Fatalf("no test looks at this %T", o)
		}
	}
	pod := gateways.Spec.Template
	assert.Equal(t, gateways.Spec.Selector.MatchLabels, pod.Labels)
	assert.Equal(t, service.Spec.Selector, pod.Labels)
	require.Len(t, pod.Spec.Containers, 1)
	c := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range c.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for _, p := range service.Spec.Ports {
		assert.Equal(t, p.Port, ports[p.TargetPort.StrVal], p.Name)
	}
	assert.Contains(t, ports, c.ReadinessProbe.HTTPGet.Port.StrVal)
	assert.Equal(t, ports["grpc"], c.LivenessProbe.GRPC.Port)
	assert.Equal(t, strconv.Itoa(int(ports["metrics"])), pod.Annotations["prometheus.io/port"])
	assert.Equal(t, config.Name, pod.Spec.Volumes[0].ConfigMap.Name)
	assert.Equal(t, pod.Spec.Volumes[0].Name, c.VolumeMounts[0].Name)
	assert.Equal(t, []string{c.VolumeMounts[0].MountPath}, c.Args, "the gateway reads what is mounted")
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
	}
	assert.Equal(t, strconv.Itoa(int(*gateways.Spec.Replicas)), env["REPLICAS"])
	server := readKubernetes(t).service
	assert.Equal(t, server.Name+":"+strconv.Itoa(int(server.Spec.Ports[0].Port)), env["REDIS_URL"])
}
