package keyby_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/ratelimit/keyby"
)

var proxies = []netip.Prefix{
	netip.MustParsePrefix("10.1.0.0/24"),
	netip.MustParsePrefix("2001:db8:1::/64"),
	netip.MustParsePrefix("::ffff:10.2.0.0/120"), // 10.2.0.0/24
}

func TestTheClientBehindTrustedProxies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule  string
		peer  string
		field []string
		want  string
	}{
		{"a proxy at a Unix socket", "@", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		{"a proxy at a Unix socket of a name", "/run/proxy.sock", []string{"203.0.113.7, 10.1.0.1"}, "203.0.113.7"},
		{"a proxy at a Unix socket, of another system", "", []string{"203.0.113.7"}, "203.0.113.7"},
		{"a proxy at a Unix socket that says nothing", "@", nil, "@"},
		{"a proxy at a Unix socket that says nothing, of another system", "", []string{"unknown"}, "@"},
		{"nobody in between", "203.0.113.7:80", nil, "203.0.113.7"},
		{"a stranger says what it likes", "203.0.113.7:80", []string{"198.51.100.1"}, "203.0.113.7"},
		{"one proxy", "10.1.0.1:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"what the client made up stands to the left", "10.1.0.1:80", []string{"198.51.100.1, 203.0.113.7"}, "203.0.113.7"},
		{"in a field of its own, too", "10.1.0.1:80", []string{"198.51.100.1", "203.0.113.7"}, "203.0.113.7"},
		{"even if it is the address of a proxy", "10.1.0.1:80", []string{"198.51.100.1, 10.1.0.2, 203.0.113.7"}, "203.0.113.7"},
		{"two proxies", "10.1.0.1:80", []string{"198.51.100.1, 203.0.113.7, 10.2.0.9"}, "203.0.113.7"},
		{"two proxies, two fields", "10.1.0.1:80", []string{"203.0.113.7", "10.1.0.2"}, "203.0.113.7"},
		{"all are trusted", "10.1.0.1:80", []string{"10.1.0.3, 10.1.0.2"}, "10.1.0.3"},
		{"a proxy that says nothing", "10.1.0.1:80", nil, "10.1.0.1"},
		{"a proxy that says nothing in particular", "10.1.0.1:80", []string{""}, "10.1.0.1"},
		{"no address", "10.1.0.1:80", []string{"203.0.113.7, unknown"}, "10.1.0.1"},
		{"no address behind the second proxy", "10.1.0.1:80", []string{"203.0.113.7, unknown, 10.1.0.2"}, "10.1.0.2"},
		{"an empty entry", "10.1.0.1:80", []string{"203.0.113.7,, 10.1.0.2"}, "10.1.0.2"},
		{"a leading comma", "10.1.0.1:80", []string{", 203.0.113.7"}, "203.0.113.7"},
		{"tabs and no blanks", "10.1.0.1:80", []string{"198.51.100.1,\t203.0.113.7\t"}, "203.0.113.7"},
		{"a port", "10.1.0.1:80", []string{"203.0.113.7:4711"}, "203.0.113.7"},
		{"IPv6", "[2001:db8:1::1]:80", []string{"2001:db8:7:8:9::1"}, "2001:db8:7:8::/64"},
		{"IPv6 in brackets", "10.1.0.1:80", []string{"[2001:db8:7:8:9::1]"}, "2001:db8:7:8::/64"},
		{"IPv6 with a port", "10.1.0.1:80", []string{"[2001:db8:7:8:9::1]:4711"}, "2001:db8:7:8::/64"},
		{"IPv6 with a zone", "10.1.0.1:80", []string{"fe80::1%eth0"}, "fe80::/64"},
		{"IPv4 in IPv6, the proxy", "[::ffff:10.1.0.1]:80", []string{"203.0.113.7"}, "203.0.113.7"},
		{"IPv4 in IPv6, the client", "10.1.0.1:80", []string{"::ffff:203.0.113.7"}, "203.0.113.7"},
		{"IPv4 in IPv6, a proxy on the way", "10.1.0.1:80", []string{"203.0.113.7, ::ffff:10.1.0.2"}, "203.0.113.7"},
		{"brackets around IPv4 are no address", "10.1.0.1:80", []string{"[203.0.113.7]"}, "10.1.0.1"},
		{"the fields of RFC 7239 are no addresses", "10.1.0.1:80", []string{"for=203.0.113.7"}, "10.1.0.1"},
		{"a name", "name:80", []string{"203.0.113.7"}, "name"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.field, "Forwarded": {"for=198.51.100.99"}}}
		assert.Equal(t, c.want, keyby.Client(proxies...)(r), c.rule)
	}
	assert.Panics(t, func() { keyby.Client(netip.Prefix{}) })
}

// Whatever a client sends, the entry of the proxy decides.
func FuzzNothingThatAClientSendsChangesItsAddress(f *testing.F) {
	for _, sent := range []string{"", ",", "198.51.100.1", "10.1.0.2", "10.1.0.2, 10.1.0.2,", "unknown", "for=\"[::1]\"", "\x00", "[", "::ffff:10.1.0.1", strings.Repeat("10.1.0.2,", 5000)} {
		f.Add(sent, "203.0.113.7")
		f.Add(sent, "2001:db8:7:8::1")
	}
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

func TestRemoteHostIsAnAddressOrTheNetworkOfAHost(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"203.0.113.7:4711":            "203.0.113.7",
		"[2001:db8:1:2:3:4:5:6]:4711": "2001:db8:1:2::/64",
		"[::ffff:203.0.113.7]:4711":   "203.0.113.7",
		"[fe80::1%eth0]:4711":         "fe80::/64",
		"@":                           "@", // a Unix socket
		"name:80":                     "name",
	} {
		assert.Equal(t, want, keyby.RemoteHost(&http.Request{RemoteAddr: remote}))
	}
}
