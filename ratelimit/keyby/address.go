package keyby

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// RemoteHost is the address of the peer of r. Of IPv6 addresses it is the network (/64), since a single host has
// all addresses of one. Peers at a Unix socket share the key "@". Behind a proxy the peer is the proxy: take Client.
func RemoteHost(r *http.Request) string { return Network{}.RemoteHost(r) }

// Network says which IPv6 addresses share a key. The zero Network is what RemoteHost and Client go by: those of a /64.
type Network struct{ bits int }

// IPv6 is a Network for addresses that begin with the same bits, 1 to 128. Where providers give each customer a /56 or
// a /48, that is what one client can use up:
//
//	Key: keyby.IPv6(56).RemoteHost
//	Key: keyby.IPv6(56).Client(proxies...)
//
// It panics for other numbers.
func IPv6(bits int) Network {
	if bits < 1 || bits > 128 {
		panic(fmt.Sprintf("keyby: IPv6 takes 1 to 128 bits, such as 56, not %d", bits))
	}
	return Network{bits}
}

// RemoteHost is the function RemoteHost, with IPv6 addresses of this Network.
func (n Network) RemoteHost(r *http.Request) string {
	if atUnixSocket(r.RemoteAddr) {
		return atSocket
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr // a handler before this one may have replaced it
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return n.of(plain(addr))
}

// Client is the address of the client, in the form of RemoteHost, behind proxies whose addresses are trusted:
//
//	keyby.Client(netip.MustParsePrefix("10.1.0.0/24"), netip.MustParsePrefix("2001:db8:1::/64"))
//
// A peer that is none of them is the client, whatever the request says. Otherwise X-Forwarded-For is read from its
// right end, where the nearest proxy wrote: the client is the first address there that is not trusted. What stands
// to the left of that is what the client made up. An entry that is no address ends the search, too, and the proxy
// that let it through is taken for the client; so is the outermost proxy when all are trusted.
//
// Trust the proxies alone, and no network that clients are in. Each proxy must append to X-Forwarded-For or replace
// it. A peer at a Unix socket is trusted, as only a proxy on this machine is there; without X-Forwarded-For its key is
// "@". Forwarded (RFC 7239) is not read: a proxy that writes one of the two fields passes the other on as the client
// wrote it. The entries may have ports, and IPv6 addresses brackets.
func Client(trusted ...netip.Prefix) Func { return Network{}.Client(trusted...) }

// Client is the function Client, with IPv6 addresses of this Network.
func (n Network) Client(trusted ...netip.Prefix) Func {
	proxies := trustedBy("Client", trusted)
	return func(r *http.Request) string {
		if atUnixSocket(r.RemoteAddr) {
			client, _ := behind(proxies, netip.Addr{}, r.Header["X-Forwarded-For"])
			return n.of(client)
		}
		peer, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil {
			return n.RemoteHost(r)
		}
		client, _ := behind(proxies, plain(peer.Addr()), r.Header["X-Forwarded-For"])
		return n.of(client)
	}
}

// From says which requests come from networks, for the Skip of httplimit.Options and others. An address alone is one,
// too:
//
//	Skip: keyby.From([]string{"10.0.0.0/8", "2001:db8::/32", "127.0.0.1"}, proxies...),
//
// Whose a request is, Client says, with the same proxies. A request is none of them where that is not certain: if its
// client passes on an X-Forwarded-For of others, as a proxy does that is not among the trusted, if an entry is no
// address, if there is no address, and if a handler before has replaced RemoteAddr. It panics for what is no network;
// 10.1.2.3/8 is written 10.0.0.0/8.
func From(networks []string, trusted ...netip.Prefix) func(r *http.Request) bool {
	proxies := trustedBy("From", trusted)
	inside := make([]netip.Prefix, len(networks))
	for i, text := range networks {
		inside[i] = networkOf(text)
	}
	return func(r *http.Request) bool {
		var peer netip.Addr
		if !atUnixSocket(r.RemoteAddr) {
			at, err := netip.ParseAddrPort(r.RemoteAddr)
			if err != nil {
				return false
			}
			peer = plain(at.Addr())
		}
		client, alone := behind(proxies, peer, r.Header["X-Forwarded-For"])
		return alone && client.IsValid() && within(inside, client)
	}
}

// networkOf panics for what is neither an address nor a network that is written by its first address.
func networkOf(text string) netip.Prefix {
	network, err := netip.ParsePrefix(text)
	if addr, ofAddr := netip.ParseAddr(text); ofAddr == nil && addr.Zone() == "" {
		network, err = netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	switch {
	case err != nil:
		panic(fmt.Sprintf("keyby: From: %q is neither an address nor a network, such as 10.0.0.0/8", text))
	case network.Masked() != network:
		panic(fmt.Sprintf("keyby: From: %q is no network: write %s, or the address %s", text, network.Masked(), network.Addr()))
	}
	return unmap(network)
}

// trustedBy panics for networks that are none.
func trustedBy(function string, trusted []netip.Prefix) []netip.Prefix {
	proxies := make([]netip.Prefix, len(trusted))
	for i, p := range trusted {
		if !p.IsValid() {
			panic("keyby: " + function + " needs networks of proxies, such as netip.MustParsePrefix(\"10.1.0.0/24\")")
		}
		proxies[i] = unmap(p)
	}
	return proxies
}

// unmap is the network of IPv4 where one is written as IPv6.
func unmap(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p
}

// atUnixSocket says whether a peer came over a Unix socket: net/http calls it by the path that it is bound to, most
// often none.
func atUnixSocket(peer string) bool { return peer == "" || peer[0] == '@' || peer[0] == '/' }

// behind walks from peer to the client. The zero Addr is a peer at a Unix socket. Several fields of a name are one
// list. The client is alone if it speaks for itself: nothing is left to read but perhaps its own address, which a
// server before this one has read.
func behind(proxies []netip.Prefix, peer netip.Addr, fields []string) (client netip.Addr, alone bool) {
	at := peer
	for i := len(fields) - 1; i >= 0; i-- {
		for rest, more := fields[i], true; more; {
			if at.IsValid() && !within(proxies, at) {
				said, ok := parseEntry(rest)
				return at, ok && i == 0 && said == at
			}
			entry := rest
			if comma := strings.LastIndexByte(rest, ','); comma >= 0 {
				rest, entry = rest[:comma], rest[comma+1:]
			} else {
				more = false
			}
			addr, ok := parseEntry(entry)
			if !ok {
				return at, false
			}
			at = addr
		}
	}
	return at, true
}

// parseEntry reads an address with or without a port: 203.0.113.7, 203.0.113.7:80, 2001:db8::1, [2001:db8::1],
// [2001:db8::1]:80.
func parseEntry(entry string) (netip.Addr, bool) {
	entry = strings.Trim(entry, " \t")
	if addr, err := netip.ParseAddr(entry); err == nil {
		return plain(addr), true
	}
	if port, err := netip.ParseAddrPort(entry); err == nil {
		return plain(port.Addr()), true
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			if addr, err := netip.ParseAddr(inner); err == nil && addr.Is6() {
				return plain(addr), true
			}
		}
	}
	return netip.Addr{}, false
}

func within(networks []netip.Prefix, addr netip.Addr) bool {
	for _, n := range networks {
		if n.Contains(addr) {
			return true
		}
	}
	return false
}

// plain is addr as it is compared: of IPv4 in IPv6 the IPv4 address, and without a zone.
func plain(addr netip.Addr) netip.Addr { return addr.Unmap().WithZone("") }

// atSocket is the key of all peers at a Unix socket. It is not "", which would not be limited.
const atSocket = "@"

// of is what an address counts as.
func (n Network) of(addr netip.Addr) string {
	if !addr.IsValid() {
		return atSocket
	}
	if addr.Is4() {
		return addr.String()
	}
	bits := n.bits
	if bits == 0 {
		bits = 64
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return addr.String()
	}
	return prefix.String()
}
