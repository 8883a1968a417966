package fields_test

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/cmd/throttle-replay/logs"
)

// record is a line with fields, and the layout that has read it.
func record(t testing.TB, values map[string]string, bind func(logs.Layout)) *logs.Record {
	t.Helper()
	l, err := logs.New(logs.Options{Format: logs.JSON}, nil)
	require.NoError(t, err)
	bind(l)
	all := map[string]any{"time": 1}
	for name, value := range values {
		all[name] = value
	}
	line, err := json.Marshal(all)
	require.NoError(t, err)
	var r logs.Record
	require.NoError(t, l.Parse(line, &r))
	return &r
}

// keyOf is the key of a request, "none" for a request that no limit applies to.
func keyOf(t testing.TB, template string, trusted []netip.Prefix, values map[string]string) string {
	t.Helper()
	k, err := fields.ParseKey(template, trusted)
	require.NoError(t, err)
	var bound *fields.BoundKey
	r := record(t, values, func(l logs.Layout) { bound, err = k.Bind(l) })
	require.NoError(t, err)
	key, ok := bound.Append(nil, r)
	if !ok {
		return "none"
	}
	return string(key)
}

// Addresses make the keys that they make in every client.
func TestAddressesMakeTheKeysOfAllClients(t *testing.T) {
	t.Parallel()
	var table struct {
		Trusted []netip.Prefix
		Keys    []struct {
			Address, Key string
			IPv6         int
		}
		Clients []struct {
			Rule, Peer, Client string
			Forwarded          []string
		}
	}
	text, err := os.ReadFile("../../../spec/clients/addresses.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &table))
	require.NotEmpty(t, table.Keys)
	require.NotEmpty(t, table.Clients)
	for _, c := range table.Keys {
		templates := []string{"{remote_addr/64}", "{remote_addr}", "{other/64}", "{client}"}
		if c.IPv6 != 0 {
			templates = []string{fmt.Sprintf("{remote_addr/%d}", c.IPv6), fmt.Sprintf("{client/%d}", c.IPv6)}
		}
		for _, template := range templates {
			for _, address := range addresses(c.Address) {
				assert.Equal(t, c.Key, keyOf(t, template, nil, map[string]string{"remote_addr": address, "other": address}), "%s of %s", template, address)
			}
		}
	}
	for _, c := range table.Clients {
		for _, address := range addresses(c.Peer) {
			values := map[string]string{"remote_addr": address, "x_forwarded_for": strings.Join(c.Forwarded, ", ")}
			assert.Equal(t, c.Client, keyOf(t, "{client}", table.Trusted, values), "%s: %s", c.Rule, address)
		}
	}
}

// addresses are how logs write an address: alone, or with the port. nginx calls a peer at a Unix socket "unix:".
func addresses(address string) []string {
	if address == "" {
		return []string{"", "-", "unix:"}
	}
	if addr, err := netip.ParseAddr(address); err == nil {
		return []string{address, netip.AddrPortFrom(addr, 4711).String()}
	}
	return []string{address}
}

func TestKeysAreMadeOfTextsAndFields(t *testing.T) {
	t.Parallel()
	values := map[string]string{"remote_addr": "203.0.113.9", "tenant": "acme", "method": "GET", "empty": "", "dash": "-"}
	for template, want := range map[string]string{
		"everybody":                    "everybody", // together
		"{tenant}":                     "acme",
		"t:{tenant}:{method}":          "t:acme:GET",
		"{remote_addr}|{tenant}":       "203.0.113.9|acme",
		"{tenant}{empty}":              "none",
		"{dash}":                       "none",
		"{nothing}":                    "none",
		"{remote_addr/128}-{method} x": "203.0.113.9-GET x",
	} {
		assert.Equal(t, want, keyOf(t, template, nil, values), template)
	}
	for _, template := range []string{"", "{", "{}", "}", "{a", "a}b{c}", "{remote_addr/0}", "{remote_addr/129}", "{remote_addr/x}", "{a{b}}"} {
		_, err := fields.ParseKey(template, nil)
		assert.ErrorContains(t, err, "--key", template)
	}
}

func TestConditionsHold(t *testing.T) {
	t.Parallel()
	values := map[string]string{"path": "/api/x", "method": "GET", "status": "503", "remote_addr": "10.1.2.3", "peer": "[2001:db8::7]:443", "d": "0.25"}
	for text, want := range map[string]bool{
		"path ~ ^/api/":  true,
		"path !~ ^/api/": false,
		"path~x$":        true,
		"method = GET":   true,
		"method != GET":  false,
		"method = get":   false,
		"status >= 500":  true,
		"status < 500":   false,
		"status <= 503":  true,
		"status>502.5":   true,
		"d < 0.3":        true,
		"method > 1":     false, // no number
		"nothing = ":     true,
		"remote_addr in 10.0.0.0/8, 192.168.0.0/16": true,
		"remote_addr !in 10.1.2.3":                  false,
		"remote_addr in 10.1.2.4":                   false,
		"peer in 2001:db8::/32":                     true,
		"method in 10.0.0.0/8":                      false,
	} {
		w, err := fields.ParseWhere([]string{text})
		require.NoError(t, err, text)
		var bound fields.BoundWhere
		r := record(t, values, func(l logs.Layout) { bound, err = w.Bind(l) })
		require.NoError(t, err)
		assert.Equal(t, want, bound.Holds(r), text)
	}
	w, err := fields.ParseWhere([]string{"method = GET", "status = 200"})
	require.NoError(t, err)
	var bound fields.BoundWhere
	r := record(t, values, func(l logs.Layout) { bound, err = w.Bind(l) })
	require.NoError(t, err)
	assert.False(t, bound.Holds(r), "all have to hold")
	for _, text := range []string{"", "path", "path ~ (", "status < x", "remote_addr in here", "= x"} {
		_, err := fields.ParseWhere([]string{text})
		assert.ErrorContains(t, err, "--where", text)
	}
}

func TestCostsAreWholeUnits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, value string
		units       int64 // -1 for none
	}{
		{"", "", 1}, {"bytes", "0", 0}, {"bytes", "17", 17}, {"bytes", "1.2", 2}, {"bytes/1024", "1024", 1}, {"bytes/1024", "1025", 2}, {"bytes/0.5", "3", 6},
		{"bytes", "-", -1}, {"bytes", "", -1}, {"bytes", "-3", -1}, {"bytes", "NaN", -1}, {"bytes", "1e300", -1}, {"bytes", "x", -1},
	} {
		parsed, err := fields.ParseCost(c.text)
		require.NoError(t, err)
		assert.Equal(t, c.text == "", parsed.IsOne())
		var bound fields.BoundCost
		r := record(t, map[string]string{"body_bytes_sent": c.value}, func(l logs.Layout) { bound, err = parsed.Bind(l) })
		require.NoError(t, err)
		units, ok := bound.Of(r)
		if !ok {
			units = -1
		}
		assert.Equal(t, c.units, units, "%s of %q", c.text, c.value)
	}
	for _, text := range []string{"/2", "bytes/0", "bytes/-1", "bytes/x", "bytes/"} {
		_, err := fields.ParseCost(text)
		assert.ErrorContains(t, err, "--cost", text)
	}
}
