package chart_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	route "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ratelimit/v3" // a type that the configuration names
	hcm "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/network/http_connection_manager/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	sigyaml "sigs.k8s.io/yaml"

	"redis-throttle/tests/server"
)

func example(t testing.TB, name string) string {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "packaging", "helm", "examples", name))
	require.NoError(t, err)
	return string(text)
}

// What the examples for proxies call is a port of a service of the chart.
func TestTheExamplesAskTheChart(t *testing.T) {
	t.Parallel()
	ports := map[string][]string{}
	for _, object := range rendered(t, "") {
		if service, ok := object.(*corev1.Service); ok {
			for _, p := range service.Spec.Ports {
				ports[p.Name] = append(ports[p.Name], service.Name+":"+strconv.Itoa(int(p.Port)))
			}
		}
	}
	for name, as := range map[string]struct{ pattern, port string }{
		"istio.yaml":   {`cluster_name: outbound\|(?P<port>\d+)\|\|(?P<name>[\w-]+)\.limits\.svc`, "grpc"},
		"contour.yaml": {`name: (?P<name>throttle-[\w-]+), port: (?P<port>\d+)`, "grpc"},
		"traefik.yaml": {`address: http://(?P<name>[\w-]+)\.limits\.svc\.cluster\.local:(?P<port>\d+)/forward\n`, "http"},
		"apisix.yaml":  {`uri: http://(?P<name>[\w-]+)\.limits\.svc\.cluster\.local:(?P<port>\d+)/forward\n`, "http"},
	} {
		text := example(t, name)
		for document := range strings.SplitSeq(text, "\n---\n") {
			var parsed struct{ APIVersion, Kind string }
			require.NoError(t, sigyaml.UnmarshalStrict([]byte(document), &map[string]any{}), name)
			require.NoError(t, sigyaml.Unmarshal([]byte(document), &parsed), name)
			assert.NotEmpty(t, parsed.APIVersion+parsed.Kind, name)
		}
		pattern := regexp.MustCompile(as.pattern)
		found := pattern.FindStringSubmatch(text)
		require.NotNil(t, found, name)
		at := found[pattern.SubexpIndex("name")] + ":" + found[pattern.SubexpIndex("port")]
		assert.True(t, slices.Contains(ports[as.port], at), "%s asks %s, which is not among %v", name, at, ports[as.port])
	}
}

// What the example for Istio has Envoy read, Envoy can read.
func TestTheExampleForIstioIsEnvoys(t *testing.T) {
	t.Parallel()
	var filter struct {
		Spec struct {
			ConfigPatches []struct {
				ApplyTo string
				Patch   struct{ Value json.RawMessage }
			}
		}
	}
	require.NoError(t, sigyaml.Unmarshal([]byte(example(t, "istio.yaml")), &filter))
	types := map[string]proto.Message{"HTTP_FILTER": &hcm.HttpFilter{}, "VIRTUAL_HOST": &route.VirtualHost{}}
	require.Len(t, filter.Spec.ConfigPatches, len(types))
	for _, patch := range filter.Spec.ConfigPatches {
		into := types[patch.ApplyTo]
		require.NotNil(t, into, patch.ApplyTo)
		assert.NoError(t, protojson.Unmarshal(patch.Patch.Value, into), patch.ApplyTo)
	}
}
