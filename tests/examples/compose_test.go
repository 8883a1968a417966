package examples

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// A server that found the files of another in its volume would not start: "Can't handle RDB format version".
func TestEachServerOfTheComposeFileHasAnImageAndVolumesOfItsOwn(t *testing.T) {
	t.Parallel()
	const name = "${SERVER_NAME:-${SERVER:-redis}}"
	text, err := os.ReadFile("../../docker-compose.yml")
	require.NoError(t, err)
	var file struct {
		Services map[string]struct {
			Image   string
			Volumes []string
		}
		Volumes map[string]struct{ Name string }
	}
	require.NoError(t, yaml.Unmarshal(text, &file))
	for service, s := range file.Services {
		assert.Contains(t, s.Image, name, service)
	}
	require.NotEmpty(t, file.Volumes)
	names := map[string]bool{}
	for volume, v := range file.Volumes {
		assert.Contains(t, v.Name, name, volume)
		assert.False(t, names[v.Name], "two volumes with one name: %s", v.Name)
		names[v.Name] = true
	}
}
