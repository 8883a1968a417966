package keyby_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/ratelimit/keyby"
)

// networks is spec/clients/networks.json, which says what it holds.
type networks struct {
	Networks []string
	Trusted  []netip.Prefix
	Refused  []string
	Requests []struct {
		Rule, Peer string
		Networks   *[]string
		Trusted    *[]netip.Prefix
		Forwarded  []string
		Skipped    bool
	}
}

func readNetworks(t testing.TB) (all networks) {
	t.Helper()
	text, err := os.ReadFile("../../spec/clients/networks.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all.Refused)
	require.NotEmpty(t, all.Requests)
	return all
}

func TestRequestsFromNetworksInAllLanguages(t *testing.T) {
	t.Parallel()
	all := readNetworks(t)
	for _, c := range all.Requests {
		inside, trusted := all.Networks, all.Trusted
		if c.Networks != nil {
			inside = *c.Networks
		}
		if c.Trusted != nil {
			trusted = *c.Trusted
		}
		for _, peer := range remoteAddrs(c.Peer) {
			header := http.Header{"Forwarded": {"for=10.2.3.4"}, "X-Real-Ip": {"10.2.3.4"}}
			if c.Forwarded != nil {
				header["X-Forwarded-For"] = c.Forwarded
			}
			assert.Equal(t, c.Skipped, keyby.From(inside, trusted...)(&http.Request{RemoteAddr: peer, Header: header}), c.Rule)
		}
	}
}

func TestEntriesThatAreNoNetworksAreRefused(t *testing.T) {
	t.Parallel()
	for _, entry := range readNetworks(t).Refused {
		err := panicOf(func() { keyby.From([]string{"127.0.0.1", entry}) })
		assert.ErrorContains(t, err, "keyby: From: "+fmt.Sprintf("%q", entry), entry)
	}
	assert.ErrorContains(t, panicOf(func() { keyby.From([]string{"10.1.2.3/8"}) }), "write 10.0.0.0/8, or the address 10.1.2.3")
	assert.ErrorContains(t, panicOf(func() { keyby.From(nil, netip.Prefix{}) }), "keyby: From needs networks of proxies")
}

func panicOf(f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%v", r)
		}
	}()
	f()
	return nil
}

// What only net/http has: a handler that puts what a client wrote in the place of the peer, most often without a port.
func TestAPeerThatAHandlerHasReplacedIsFromNowhere(t *testing.T) {
	t.Parallel()
	for _, peer := range []string{"10.2.3.4", "::1", "name:80", "bufconn"} {
		assert.False(t, keyby.From([]string{"0.0.0.0/0", "::/0"})(&http.Request{RemoteAddr: peer}), peer)
	}
}

// Whatever a stranger sends, the entry of the proxy decides.
func FuzzNothingThatAStrangerSendsLetsItThrough(f *testing.F) {
	for _, sent := range []string{"", ",", "10.2.3.4", "203.0.113.7", "10.1.0.2, 10.2.3.4", "unknown", "for=\"[::1]\"", "\x00", "::ffff:10.2.3.4"} {
		f.Add(sent)
	}
	all := readNetworks(f)
	from := keyby.From(all.Networks, all.Trusted...)
	f.Fuzz(func(t *testing.T, sent string) {
		for peer, fields := range map[string][]string{
			"203.0.113.7:80": {sent}, "10.1.0.1:80": {sent + ", 203.0.113.7"}, "10.1.0.2:80": {sent, "203.0.113.7"}, "@": {sent, "203.0.113.7, 10.1.0.2"},
		} {
			assert.False(t, from(&http.Request{RemoteAddr: peer, Header: http.Header{"X-Forwarded-For": fields}}), "%q", fields)
		}
	})
}
