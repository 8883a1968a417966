package process_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/runnable"
	"redis-throttle/tests/server"
)

// healthCheck runs the health check of the Docker image against a server, with environment
// variables that the container would have.
func healthCheck(t *testing.T, s *server.Server, env ...string) error {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	require.NoError(t, err)
	check := regexp.MustCompile(`(?s)\nHEALTHCHECK [^\n]*\\\n *CMD ([^\n]*)\n`).FindSubmatch(text)
	require.NotNil(t, check)
	cli, err := server.CLIPath()
	require.NoError(t, err)
	// In the image the server has the default port.
	bin := t.TempDir()
	wrapper := fmt.Sprintf("#!/bin/sh\nexec '%s' -p %d \"$@\"\n", cli, s.Port)
	runnable.Write(t, filepath.Join(bin, "valkey-cli"), wrapper)
	cmd := exec.Command("timeout", "10", "sh", "-c", string(check[1]))
	cmd.Env = append(os.Environ(), append(env, "PATH="+bin+":"+os.Getenv("PATH"))...)
	return cmd.Run()
}

func TestHealthCheckOfTheImageKnowsALivingServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		options []server.Option
		env     []string
		forbid  string
	}{
		{name: "without a password"},
		{name: "with an empty password", options: []server.Option{server.Config(`requirepass ""`)}, env: []string{"REDISCLI_AUTH="}},
		{name: "that wants a password", options: []server.Option{server.Password("secret")}},
		{name: "that is asked with its password", options: []server.Option{server.Password("secret")}, env: []string{"REDISCLI_AUTH=secret"}},
		{name: "that is asked with another password", options: []server.Option{server.Password("secret")}, env: []string{"REDISCLI_AUTH=other"}},
		{name: "whose default user may not PING", forbid: "-ping"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, tc.options...)
			if tc.forbid != "" {
				s.MustDo("ACL", "SETUSER", "default", tc.forbid)
			}
			assert.NoError(t, healthCheck(t, s, tc.env...))
		})
	}
}

func TestHealthCheckOfTheImageKnowsADeadServer(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	require.NoError(t, healthCheck(t, s))
	s.Stop()
	assert.Error(t, healthCheck(t, s))
}
