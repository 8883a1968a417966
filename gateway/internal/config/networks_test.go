package config

import (
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestAValueMayBeANetwork(t *testing.T) {
	t.Parallel()
	d := domain(t, `descriptors:
- {key: ip, value: 10.0.0.0/8, rate_limit: {unlimited: true}}
- {key: ip, value: 10.1.0.0/16, limits: [FIXED 1/m]}
- {key: ip, value: 10.1.2.3, limits: [FIXED 2/m]}
- {key: ip, value: "2001:db8::/32", share_threshold: true, limits: [FIXED 3/m]}
- {key: ip, value: "10.*", limits: [FIXED 4/m]}
- {key: other, value: 10.0.0.0/8, limits: [FIXED 5/m]}
- {key: ip, limits: [FIXED 6/m]}
- {key: a_b, value: 192.168.0.0/16, descriptors: [{key: c, limits: [FIXED 7/m]}]}
`)
	for _, tc := range []struct{ entries, path, key string }{
		{"ip=10.2.0.1", "d.ip_10.0.0.0/8", "{d|ip=10.2.0.1}"},
		{"ip=10.1.0.1", "d.ip_10.1.0.0/16", "{d|ip=10.1.0.1}"},
		{"ip=10.1.2.3", "d.ip_10.1.2.3", "{d|ip=10.1.2.3}"},
		{"ip=::ffff:10.1.0.1", "d.ip_10.1.0.0/16", "{d|ip=::ffff:10.1.0.1}"},
		{"ip=10.1.0.0/24", "d.ip_10.1.0.0/16", "{d|ip=10.1.0.0/24}"}, // as Envoy's masked_remote_address says it
		{"ip=10.0.0.0/8", "d.ip_10.0.0.0/8", "{d|ip=10.0.0.0/8}"},
		{"ip=10.0.0.0/7", "d.ip_10.*", "{d|ip=10.0.0.0/7}"}, // holds more than the rule's network
		{"ip=2001:db8:1::1", "d.ip_2001:db8::/32", "{d|ip=2001:db8::/32}"},
		{"ip=2001:db8:2::/64", "d.ip_2001:db8::/32", "{d|ip=2001:db8::/32}"},
		{"ip=2001:db8:2::1%eth0", "d.ip_2001:db8::/32", "{d|ip=2001:db8::/32}"},
		{"ip=2001:db9::1", "d.ip", "{d|ip=2001:db9::1}"},
		{"ip=10.x", "d.ip_10.*", "{d|ip=10.x}"},
		{"ip=11.0.0.1", "d.ip", "{d|ip=11.0.0.1}"},
		{"ip=10.0.0.1:80", "d.ip_10.*", "{d|ip=10.0.0.1:80}"},
		{"other=10.0.0.1", "d.other_10.0.0.0/8", "{d|other=10.0.0.1}"},
		{"other=11.0.0.1", "", ""},
		{"a_b=192.168.7.7 c=1", "d.a_b_192.168.0.0/16.c", "{d|a_b=192.168.7.7}|c=1"},
		{"a=b_192.168.7.7 c=1", "", ""},
	} {
		m := d.Match(entries(tc.entries))
		if tc.path == "" {
			assert.Nil(t, m.Rule, tc.entries)
			continue
		}
		if assert.NotNil(t, m.Rule, tc.entries) {
			assert.Equal(t, tc.path, m.Rule.path, tc.entries)
			assert.Equal(t, tc.key, m.Key, tc.entries)
		}
	}
	trace := d.Trace(entries("ip=10.1.0.1"))
	assert.Equal(t, []Level{{Matched: "ip_10.1.0.0/16", By: "network", Instead: []string{"ip_10.0.0.0/8", "ip_10.*", "ip"}}}, trace.Levels)
}

func TestANetworkIsThereOnce(t *testing.T) {
	t.Parallel()
	for _, same := range []string{"10.0.0.0/8", "10.1.2.3/8", "::ffff:10.0.0.0/104"} {
		_, err := load(t, false, "domain: d\ndescriptors:\n- {key: ip, value: 10.0.0.0/8}\n- {key: ip, value: \""+same+"\"}\n")
		assert.ErrorContains(t, err, "is there twice", same)
	}
}

// A network that is mistyped would shut nobody out.
func TestWhatIsAlmostANetworkIsDoubted(t *testing.T) {
	t.Parallel()
	for value, doubted := range map[string]bool{
		"10.0.0.0/33": true, "10.0.0/8": true, "10.0.0.0/08": true, "010.0.0.0/8": true, "10.0.0.0/255.0.0.0": true, "fe80::/10%eth0": true, "fe80::%eth0/10": true, "[::1]": true,
		"[2001:db8::1]:80": true, "10.0.0.1:80": true, "10.0.0.0/8 ": true, "2001:db8::/129": true, "256.0.0.1": true, "10.0.0.0/": true,
		"10.0.0.0/8": false, "10.1.2.3/8": false, "10.1.2.3": false, "2001:DB8::/32": false, "fe80::1%eth0": false, "::ffff:10.0.0.0/104": false,
		"/v1.0.0/2": false, "v1.2.3": false, "10.*": false, "a:b": false, "1.2": false, "12:30": false, "GET": false, "": false, "1.2.3": false,
		"12:30:45": false, "aa:bb:cc:dd:ee:ff": false, "/": false, "%": false, "[": false, "acme.example/x": false,
	} {
		c, err := load(t, false, "domain: d\ndescriptors:\n- {key: ip, value: \""+value+"\", limits: [FIXED 1/m]}\n")
		if assert.NoError(t, err, value) {
			assert.Equal(t, doubted, len(c.Doubts) == 1, "%q %v", value, c.Doubts)
		}
	}
}

// The rule of an address is that of the smallest network that holds it, as whoever looks at all of them finds.
func TestTheSmallestNetworkCounts(t *testing.T) {
	t.Parallel()
	addresses := rapid.Custom(func(t *rapid.T) netip.Addr {
		if rapid.Bool().Draw(t, "IPv6") {
			return netip.AddrFrom16([16]byte{0: 0x20, 1: rapid.Byte().Draw(t, "high") & 3, 15: rapid.Byte().Draw(t, "low") & 7})
		}
		return netip.AddrFrom4([4]byte{10, rapid.Byte().Draw(t, "high") & 3, 0, rapid.Byte().Draw(t, "low") & 7})
	})
	prefixes := rapid.Custom(func(t *rapid.T) netip.Prefix {
		addr := addresses.Draw(t, "address")
		return netip.PrefixFrom(addr, rapid.IntRange(0, addr.BitLen()).Draw(t, "bits")).Masked()
	})
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfNDistinct(prefixes, 1, 12, rapid.ID[netip.Prefix]).Draw(t, "networks")
		var n networks
		for _, prefix := range all {
			n.add(network{"ip", prefix}, newNode(prefix.String()))
		}
		addr := addresses.Draw(t, "asked")
		want := ""
		bits := -1
		for _, prefix := range all {
			if prefix.Contains(addr) && prefix.Bits() > bits {
				want, bits = prefix.String(), prefix.Bits()
			}
		}
		got := ""
		if found := n.smallest(&Entry{Key: "ip", Value: addr.String()}); found != nil {
			got = found.key
		}
		assert.Equal(t, want, got, "%s of %v", addr, all)
	})
}

// Ten thousand networks cost a request no more than their different lengths.
func BenchmarkNetworks(b *testing.B) {
	var n networks
	for i := range 10_000 {
		n.add(network{"ip", netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i / 256), byte(i), 0}), 24)}, newNode("x"))
	}
	e := &Entry{Key: "ip", Value: "10.3.7.9"}
	for b.Loop() {
		if n.smallest(e) == nil {
			b.Fatal("none")
		}
	}
}

// What a client counts as is the /64 of its IPv6 address, and rules are for the address itself.
func TestNetworksHoldTheWholeAddressOfAClient(t *testing.T) {
	t.Parallel()
	d := domain(t, `trusted_proxies: [127.0.0.0/8]
routes: [{match: /, descriptors: [[{key: ip, value: "{client}"}]]}]
descriptors:
- {key: ip, value: "2001:db8:bad::/96", limits: [FIXED 0/d]}
- {key: ip, value: "2001:db8:bad::/64", rate_limit: {unlimited: true}}
- {key: ip, value: "2001:db8:1:0:0::9", limits: [FIXED 1/d]}
- {key: ip, value: "2001:db8:1::/127", limits: [FIXED 2/d]}
- {key: ip, value: 2001:db8::/32, limits: [FIXED 3/d]}
- {key: ip, value: 10.1.2.3, limits: [FIXED 4/d]}
- {key: ip, limits: [FIXED 5/d]}
`)
	for client, want := range map[string]string{
		"2001:db8:bad::1":       "d.ip_2001:db8:bad::/96 {d|ip=2001:db8:bad::/96}",
		"2001:db8:bad::1:0:0:1": "d.ip_2001:db8:bad::/64 {d|ip=2001:db8:bad::/64}",
		"2001:db8:1::9":         "d.ip_2001:db8:1:0:0::9 {d|ip=2001:db8:1:0:0::9}",
		"2001:db8:1::1":         "d.ip_2001:db8:1::/127 {d|ip=2001:db8:1::/127}",
		"2001:db8:1::2":         "d.ip_2001:db8::/32 {d|ip=2001:db8:1::/64}",
		"2001:db9::1":           "d.ip {d|ip=2001:db9::/64}",
		"::ffff:10.1.2.3":       "d.ip_10.1.2.3 {d|ip=10.1.2.3}",
		"10.1.2.4":              "d.ip {d|ip=10.1.2.4}",
	} {
		q := httptest.NewRequest("GET", "/", nil)
		q.RemoteAddr, q.Header["X-Forwarded-For"] = "127.0.0.1:1", []string{client}
		for _, entries := range d.Routes.Of(q)[0].Descriptors(q) {
			m, trace := d.Match(entries), d.Trace(entries)
			assert.Equal(t, want, m.Rule.path+" "+m.Key, client)
			assert.Equal(t, m.Rule.path, "d."+trace.Levels[0].Matched, client)
			assert.NotContains(t, trace.Levels[0].Instead, trace.Levels[0].Matched, client)
		}
	}
}

// A list that shuts out or lets through holds for addresses alone: all else goes on to the rule for everybody.
func TestWhatIsNoAddressIsInNoNetwork(t *testing.T) {
	t.Parallel()
	d := domain(t, `descriptors:
- {key: ip, value: 10.0.0.0/8, rate_limit: {unlimited: true}}
- {key: ip, value: 10.66.1.2/16, limits: [FIXED 0/d]}
- {key: ip, value: 0.0.0.0/0, limits: [FIXED 1/d]}
- {key: ip, value: "::/0", limits: [FIXED 2/d]}
- {key: ip, value: "fe80::/10", limits: [FIXED 0/d]}
- {key: ip, limits: [FIXED 3/d]}
`)
	for value, want := range map[string]string{
		"10.66.0.1": "d.ip_10.66.1.2/16", "::ffff:10.66.0.1": "d.ip_10.66.1.2/16",
		"::FFFF:0A42:0001": "d.ip_10.66.1.2/16", "0:0:0:0:0:ffff:10.66.0.1": "d.ip_10.66.1.2/16",
		"10.65.255.255": "d.ip_10.0.0.0/8", "10.67.0.0": "d.ip_10.0.0.0/8",
		"::ffff:10.1.2.3%eth0": "d.ip_10.0.0.0/8", "9.255.255.255": "d.ip_0.0.0.0/0", "11.0.0.0": "d.ip_0.0.0.0/0",
		"::ffff:203.0.113.7": "d.ip_0.0.0.0/0", "10.0.0.0/0": "d.ip_0.0.0.0/0", "fe80::1%eth0": "d.ip_fe80::/10",
		"febf::1": "d.ip_fe80::/10", "fec0::1": "d.ip_::/0", "64:ff9b::10.66.0.1": "d.ip_::/0",
		"::10.66.0.1": "d.ip_::/0", "010.1.2.3": "d.ip", "10.1.2.3.": "d.ip", "10.1.2.3:80": "d.ip",
		"[fe80::1]:80": "d.ip", "[fe80::1]": "d.ip", " 10.1.2.3": "d.ip", "10.1.2.3 ": "d.ip",
		"10.1.2.3, 203.0.113.7": "d.ip", "203.0.113.7, 10.1.2.3": "d.ip", "167903747": "d.ip",
		"0x0a010203": "d.ip", "10.1.515": "d.ip", "10.1.2.3/33": "d.ip", "10.1.2.3/+8": "d.ip",
		"10.1.2.3/08": "d.ip", "10.1.2.3/": "d.ip", "/8": "d.ip", "unknown": "d.ip", "@": "d.ip",
		"1.2.3.4%0": "d.ip", "fe80::1%": "d.ip", "10.1.2.3\x00": "d.ip",
	} {
		m := d.Match([]Entry{{Key: "ip", Value: value}})
		if assert.NotNil(t, m.Rule, value) {
			assert.Equal(t, want, m.Rule.path, value)
		}
	}
}

// An address is one, however it is spelled. What stands in the file counts as it stands there first.
func TestAnAddressMatchesInEachSpelling(t *testing.T) {
	t.Parallel()
	d := domain(t, `descriptors:
- {key: ip, value: "2001:db8:0:0::9", limits: [FIXED 1/d]}
- {key: ip, value: "::ffff:10.1.2.3", limits: [FIXED 2/d]}
- {key: ip, value: 10.1.2.3, limits: [FIXED 3/d]}
- {key: ip, value: 10.1.2.4, limits: [FIXED 4/d]}
- {key: ip, value: 10.1.2.4/32, limits: [FIXED 5/d]}
- {key: ip, value: 10.0.0.0/8, limits: [FIXED 6/d]}
- {key: "v*", value: 10.1.2.3, limits: [FIXED 7/d]}
`)
	for entry, want := range map[string]string{
		"ip=2001:db8::9":     "d.ip_2001:db8:0:0::9 {d|ip=2001:db8:0:0::9}",
		"ip=2001:db8:0:0::9": "d.ip_2001:db8:0:0::9 {d|ip=2001:db8:0:0::9}",
		"ip=::ffff:10.1.2.3": "d.ip_::ffff:10.1.2.3 {d|ip=::ffff:10.1.2.3}",
		"ip=10.1.2.3":        "d.ip_10.1.2.3 {d|ip=10.1.2.3}",
		"ip=::ffff:a01:203":  "d.ip_::ffff:10.1.2.3 {d|ip=::ffff:10.1.2.3}",
		"ip=10.1.2.4":        "d.ip_10.1.2.4 {d|ip=10.1.2.4}",
		"ip=::ffff:10.1.2.4": "d.ip_10.1.2.4/32 {d|ip=::ffff:10.1.2.4}",
		"ip=10.1.2.3/32":     "d.ip_::ffff:10.1.2.3 {d|ip=::ffff:10.1.2.3}",
		"ip=10.1.2.0/24":     "d.ip_10.0.0.0/8 {d|ip=10.1.2.0/24}",
		"version=x_10.1.2.3": "d.v*_10.1.2.3 {d|version=x_10.1.2.3}",
	} {
		m := d.Match(entries(entry))
		if assert.NotNil(t, m.Rule, entry) {
			assert.Equal(t, want, m.Rule.path+" "+m.Key, entry)
		}
	}
}
