package examples

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"

	"redis-throttle/internal/runnable"
	"redis-throttle/tests/server"
)

const kubernetes = "../../packaging/kubernetes/throttle.yaml"

// decode reads a manifest as strictly as kubectl --validate=strict does: a field that the type does not
// have, or that is there twice, is an error.
func decode(t *testing.T, manifest []byte) (runtime.Object, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, appsv1.AddToScheme(scheme))
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	object, _, err := decoder.Decode(manifest, nil, nil)
	return object, err
}

type deployment struct {
	config  *corev1.ConfigMap
	service *corev1.Service
	set     *appsv1.StatefulSet
}

// objects decodes all documents of a file.
func objects(t *testing.T, path string) (all []runtime.Object) {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all
		}
		require.NoError(t, err)
		object, err := decode(t, document)
		require.NoError(t, err, "%s", document)
		all = append(all, object)
	}
}

func readKubernetes(t *testing.T) (e deployment) {
	t.Helper()
	for _, object := range objects(t, kubernetes) {
		switch o := object.(type) {
		case *corev1.ConfigMap:
			e.config = o
		case *corev1.Service:
			e.service = o
		case *appsv1.StatefulSet:
			e.set = o
		default:
			t.Fatalf("no test looks at this %T", o)
		}
	}
	require.NotNil(t, e.config)
	require.NotNil(t, e.service)
	require.NotNil(t, e.set)
	return e
}

func TestTheExampleFitsTogether(t *testing.T) {
	t.Parallel()
	e := readKubernetes(t)
	pod := e.set.Spec.Template
	assert.Equal(t, e.set.Spec.Selector.MatchLabels, pod.Labels)
	assert.Equal(t, e.service.Spec.Selector, pod.Labels)
	assert.Equal(t, e.service.Name, e.set.Spec.ServiceName)
	require.Len(t, pod.Spec.Containers, 1)
	c := pod.Spec.Containers[0]
	require.Len(t, c.Ports, 1)
	assert.Equal(t, c.Ports[0].Name, e.service.Spec.Ports[0].TargetPort.StrVal)

	mounted := map[string]string{}
	for _, m := range c.VolumeMounts {
		mounted[m.Name] = m.MountPath
	}
	assert.Equal(t, "/data", mounted[e.set.Spec.VolumeClaimTemplates[0].Name])
	assert.Equal(t, e.config.Name, pod.Spec.Volumes[0].ConfigMap.Name)
	file := filepath.Join(mounted[pod.Spec.Volumes[0].Name], "server.conf")
	assert.Equal(t, []string{file, "--requirepass", "$(" + c.Env[0].Name + ")"}, c.Args)
	assert.Contains(t, e.config.Data, "server.conf")

	dockerfile, err := os.ReadFile("../../Dockerfile")
	require.NoError(t, err)
	module := strings.Fields(e.config.Data["server.conf"])[1]
	assert.Contains(t, string(dockerfile), fmt.Sprintf(`CMD ["--loadmodule", %q]`, module), "where the image has the module")
	assert.True(t, c.Resources.Limits.Memory().Equal(*c.Resources.Requests.Memory()))
}

// A real server starts with the example's configuration, and its readiness is told apart.
func TestAServerRunsWithTheConfigurationOfTheExample(t *testing.T) {
	t.Parallel()
	e := readKubernetes(t)
	var lines []string
	for line := range strings.Lines(e.config.Data["server.conf"]) {
		// The test's server has the module and the folder in other places.
		if !strings.HasPrefix(line, "loadmodule ") && !strings.HasPrefix(line, "dir ") {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	s := server.Start(t, server.Config(lines...), server.Password("secret"))
	assert.Equal(t, "noeviction", s.MustDo("CONFIG", "GET", "maxmemory-policy").Elems[1].Text)

	cli, err := server.CLIPath()
	require.NoError(t, err)
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec '%s' -p %d \"$@\"\n", cli, s.Port)
	runnable.Write(t, filepath.Join(bin, "valkey-cli"), wrapper)
	ready := func(password string) error {
		probe := e.set.Spec.Template.Spec.Containers[0].ReadinessProbe.Exec.Command
		cmd := exec.Command(probe[0], probe[1:]...)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), e.set.Spec.Template.Spec.Containers[0].Env[0].Name+"="+password)
		return cmd.Run()
	}
	assert.NoError(t, ready("secret"))
	assert.Error(t, ready("another"), "the probe would not know whether the server still loads")
	s.Stop()
	assert.Error(t, ready("secret"))
}
