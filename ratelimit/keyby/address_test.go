package keyby_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit/keyby"
)

// table is spec/clients/addresses.json, which says what it holds.
type table struct {
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

func readTable(t testing.TB) (all table) {
	t.Helper()
	text, err := os.ReadFile("../../spec/clients/addresses.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all.Keys)
	require.NotEmpty(t, all.Clients)
	return all
}

// remoteAddrs are what net/http calls a peer: one without an address is at a Unix socket, most often of no name.
func remoteAddrs(address string) []string {
	if address == "" {
		return []string{"@", "", "/run/proxy.sock"}
	}
	return []string{net.JoinHostPort(address, "4711")}
}

func TestKeysOfAddressesInAllLanguages(t *testing.T) {
	t.Parallel()
	for _, c := range readTable(t).Keys {
		network := keyby.Network{}
		if c.IPv6 != 0 {
			network = keyby.IPv6(c.IPv6)
		}
		for _, peer := range remoteAddrs(c.Address) {
			r := &http.Request{RemoteAddr: peer}
			assert.Equal(t, c.Key, network.RemoteHost(r), "%s /%d", peer, c.IPv6)
			assert.Equal(t, c.Key, network.Client()(r), "%s /%d", peer, c.IPv6)
			if c.IPv6 == 0 {
				assert.Equal(t, c.Key, keyby.RemoteHost(r), peer)
			}
		}
	}
}

func TestClientsBehindTrustedProxiesInAllLanguages(t *testing.T) {
	t.Parallel()
	all := readTable(t)
	for _, c := range all.Clients {
		for _, peer := range remoteAddrs(c.Peer) {
			r := &http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": c.Forwarded, "Forwarded": {"for=198.51.100.99"}}}
			assert.Equal(t, c.Client, keyby.Client(all.Trusted...)(r), c.Rule)
		}
	}
}

// What only net/http has: peers of other networks, and handlers that replace the peer.
func TestPeersThatAreNoAddressAndPort(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]string{
		"name:80":            "name",
		"name":               "name",
		"203.0.113.7":        "203.0.113.7",
		"2001:db8:1:2:3::4":  "2001:db8:1:2::/64",
		"::ffff:203.0.113.7": "203.0.113.7",
	} {
		r := &http.Request{RemoteAddr: peer}
		assert.Equal(t, want, keyby.RemoteHost(r))
		assert.Equal(t, want, keyby.Client()(r))
	}
}

func TestNetworksThatCannotBeAreRefused(t *testing.T) {
	t.Parallel()
	for _, bits := range []int{-1, 0, 129} {
		assert.PanicsWithValue(t, fmt.Sprintf("keyby: IPv6 takes 1 to 128 bits, such as 56, not %d", bits), func() { keyby.IPv6(bits) })
	}
	assert.Panics(t, func() { keyby.Client(netip.Prefix{}) })
}

// Whatever a client sends, the entry of the proxy decides.
func FuzzNothingThatAClientSendsChangesItsAddress(f *testing.F) {
	for _, sent := range []string{"", ",", "198.51.100.1", "10.1.0.2", "10.1.0.2, 10.1.0.2,", "unknown", "for=\"[::1]\"", "\x00", "[", "::ffff:10.1.0.1", strings.Repeat("10.1.0.2,", 5000)} {
		f.Add(sent, "203.0.113.7")
		f.Add(sent, "2001:db8:7:8::1")
	}
	proxies := readTable(f).Trusted
	f.Fuzz(func(t *testing.T, sent, client string) {
		addr, err := netip.ParseAddr(client)
		if err != nil {
			return
		}
		addr = addr.Unmap().WithZone("")
		client = addr.String()
		for _, p := range append(proxies[:2:2], netip.MustParsePrefix("10.2.0.0/24")) {
			if p.Contains(addr) {
				return
			}
		}
		want := keyby.RemoteHost(&http.Request{RemoteAddr: netip.AddrPortFrom(addr, 1).String()})
		for _, fields := range [][]string{
			{sent + ", " + client}, {sent + "," + client}, {sent, client}, {sent, client + ", 10.1.0.2"}, {sent, client, "10.1.0.2"},
		} {
			r := &http.Request{RemoteAddr: "10.1.0.1:80", Header: http.Header{"X-Forwarded-For": fields}}
			assert.Equal(t, want, keyby.Client(proxies...)(r), "%q", fields)
		}
		// Without a proxy nothing that was sent counts.
		direct := &http.Request{RemoteAddr: netip.AddrPortFrom(addr, 1).String(), Header: http.Header{"X-Forwarded-For": {sent, "198.51.100.1"}}}
		assert.Equal(t, want, keyby.Client(proxies...)(direct))
	})
}
