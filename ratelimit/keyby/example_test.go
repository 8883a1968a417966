package keyby_test

import (
	"fmt"
	"net/http"
	"net/netip"

	"redis-throttle/ratelimit/keyby"
)

// A client with an API key is limited by it, any other by its address; two proxies stand in front.
func Example() {
	key := keyby.First(
		keyby.Prefixed("key:", keyby.SHA256(keyby.Header("X-Api-Key"))),
		keyby.Prefixed("ip:", keyby.Client(netip.MustParsePrefix("10.1.0.0/24"))),
	)
	r := &http.Request{RemoteAddr: "10.1.0.1:4711", Header: http.Header{}}
	r.Header.Set("X-Forwarded-For", "192.0.2.1, 203.0.113.7, 10.1.0.2") // the client has made up the first
	fmt.Println(key(r))
	r.Header.Set("X-Api-Key", "abc")
	fmt.Println(key(r)[:12])
	// Output:
	// ip:203.0.113.7
	// key:ba7816bf
}
