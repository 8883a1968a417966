package config

import (
	"encoding/json"
	"net"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// {client} is the key that the table of all languages has for an address, and the client that it has for what proxies
// say.
func TestClientsAreThoseOfAllLanguages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../spec/clients/addresses.json")
	require.NoError(t, err)
	var table struct {
		Trusted json.RawMessage // also a list in YAML
		Keys    []struct {
			Address, Key string
			IPv6         int
		}
		Clients []struct {
			Rule, Peer, Client string
			Forwarded          []string
		}
	}
	require.NoError(t, json.Unmarshal(text, &table))
	require.NotEmpty(t, table.Clients)
	d := domain(t, "trusted_proxies: "+string(table.Trusted)+`
routes: [{match: /, descriptors: [[{key: a, value: "{client}"}]]}]
descriptors: [{key: a, limits: [RATE 5/s]}]
`)
	client := func(peer string, forwarded []string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "@"
		if peer != "" {
			r.RemoteAddr = net.JoinHostPort(peer, "4711")
		}
		r.Header["X-Forwarded-For"] = forwarded
		return strings.TrimPrefix(strings.Join(d.routed(r), " "), "a=")
	}
	for _, c := range table.Keys {
		if c.IPv6 == 0 { // the gateway has no other length
			assert.Equal(t, c.Key, client(c.Address, nil), c.Address)
		}
	}
	for _, c := range table.Clients {
		assert.Equal(t, c.Client, client(c.Peer, c.Forwarded), c.Rule)
	}
}
