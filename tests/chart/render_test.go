// Package chart_test renders the Helm chart of throttle-gateway with Helm's own engine, reads what comes as strictly as
// Kubernetes does, and runs a gateway as the chart would.
package chart_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigyaml "sigs.k8s.io/yaml"

	"redis-throttle/tests/server"
)

// values are what somebody gives in a file, as YAML.
type values string

// manifests are the files that the chart makes of values, by path, or why it refuses them.
func manifests(t testing.TB, given values) (map[string]string, error) {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	chart, err := loader.Load(filepath.Join(root, "packaging", "helm", "throttle-gateway"))
	require.NoError(t, err)
	parsed := map[string]any{}
	require.NoError(t, sigyaml.Unmarshal([]byte(given), &parsed))
	all, err := util.ToRenderValues(chart, parsed, common.ReleaseOptions{Name: "throttle-gateway", Namespace: "limits", IsInstall: true, Revision: 1}, nil)
	if err != nil {
		return nil, err
	}
	return engine.Render(chart, all)
}

// render is what the chart makes of values, or why it refuses them.
func render(t testing.TB, given values) ([]runtime.Object, error) {
	t.Helper()
	files, err := manifests(t, given)
	if err != nil {
		return nil, err
	}
	var objects []runtime.Object
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(path) == ".yaml" {
			objects = append(objects, decoded(t, files[path])...)
		}
	}
	return objects, nil
}

// decoded reads a file as kubectl --validate=strict does: a field that a type does not have, or that is there twice, is
// an error. The type of a ServiceMonitor is not Kubernetes' own.
func decoded(t testing.TB, file string) (objects []runtime.Object) {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, networkingv1.AddToScheme, policyv1.AddToScheme, autoscalingv2.AddToScheme,
	} {
		require.NoError(t, add(scheme))
	}
	strict := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true, Strict: true})
	documents := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader([]byte(file))))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects
		}
		require.NoError(t, err)
		if strings.TrimSpace(string(document)) == "" {
			continue
		}
		if bytes.Contains(document, []byte("\nkind: ServiceMonitor\n")) {
			monitor := &unstructured.Unstructured{}
			require.NoError(t, sigyaml.Unmarshal(document, &monitor.Object))
			objects = append(objects, monitor)
			continue
		}
		object, _, err := strict.Decode(document, nil, nil)
		require.NoError(t, err, "%s", document)
		objects = append(objects, object)
	}
}

// one is the only object of its type, and nil if there is none.
func one[T runtime.Object](t testing.TB, objects []runtime.Object) (found T) {
	t.Helper()
	n := 0
	for _, object := range objects {
		if o, ok := object.(T); ok {
			found = o
			n++
		}
	}
	require.LessOrEqual(t, n, 1)
	return found
}

// rendered is render of values that are right.
func rendered(t testing.TB, given values) []runtime.Object {
	t.Helper()
	objects, err := render(t, given)
	require.NoError(t, err)
	return objects
}

func env(c corev1.Container) map[string]string {
	all := map[string]string{}
	for _, e := range c.Env {
		all[e.Name] = e.Value
	}
	return all
}
