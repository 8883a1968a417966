package keyby_test

import (
	"fmt"
	"net/http"
	"net/netip"

	"redis-throttle/ratelimit/keyby"
)

// accounts are the owners of API keys, by the hash of the key.
var accounts = map[string]string{
	"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad": "acme",
}

// accountOf is the account whose API key a request has, "" without a key that exists.
func accountOf(r *http.Request) string {
	return accounts[keyby.SHA256(keyby.Header("X-Api-Key"))(r)]
}

// A client with an API key that exists is limited by its account, any other by its address: who invents keys gets no
// new limits. Two proxies stand in front.
func Example() {
	key := keyby.First(
		keyby.Prefixed("account:", accountOf),
		keyby.Prefixed("ip:", keyby.Client(netip.MustParsePrefix("10.1.0.0/24"))),
	)
	r := &http.Request{RemoteAddr: "10.1.0.1:4711", Header: http.Header{}}
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 203.0.113.7, 10.1.0.2") // the client has made up the first
	fmt.Println(key(r))
	r.Header.Set("X-Api-Key", "abc")
	fmt.Println(key(r))
	r.Header.Set("X-Api-Key", "made up")
	fmt.Println(key(r))
	// Output:
	// ip:203.0.113.7
	// account:acme
	// ip:203.0.113.7
}
