package config

import (
	"cmp"
	"net/netip"
	"regexp"
	"slices"
	"strings"
)

// networks are the nodes whose values are networks, such as 10.0.0.0/8, or addresses. However many there are, an
// address is looked up once for each length.
type networks struct {
	nodes   map[network]*node
	lengths []int // of prefixes, the longest first
}

type network struct {
	key    string
	prefix netip.Prefix
}

var notInAddresses = regexp.MustCompile(`[^\da-fA-F:.\[\]]`)

// almostNetwork says whether a value that is no network looks like one, or like an address. Versions and times do not.
func almostNetwork(value string) bool {
	head, _, isNetwork := strings.Cut(strings.TrimSpace(value), "/")
	head, _, _ = strings.Cut(head, "%")
	dots, colons := strings.Count(head, "."), strings.Count(head, ":")
	switch {
	case notInAddresses.MatchString(head):
		return false
	case colons > 1:
		return isNetwork || strings.Contains(head, "::") || head[0] == '['
	}
	return strings.Trim(head, "0123456789.:") == "" && (dots == 3 || (isNetwork && dots == 2))
}

// networkOf is the network that a value of the file or of a request names: an address alone is one, too. IPv4 in IPv6
// is IPv4.
func networkOf(value string) (netip.Prefix, bool) {
	if !strings.Contains(value, "/") {
		addr, err := netip.ParseAddr(value)
		if err != nil {
			return netip.Prefix{}, false
		}
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(value)
	if err != nil {
		return netip.Prefix{}, false
	}
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		prefix = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), true
}

// add makes the node that of a network, and returns the one that was, if any. Of an address and a network of it alone,
// the network counts.
func (all *networks) add(n network, child *node) (before *node) {
	before = all.nodes[n]
	if before != nil && (before.inNetwork || child.isAddress) {
		return before
	}
	if all.nodes == nil {
		all.nodes = map[network]*node{}
	}
	all.nodes[n] = child
	if at, found := slices.BinarySearchFunc(all.lengths, n.prefix.Bits(), func(a, b int) int { return cmp.Compare(b, a) }); !found {
		all.lengths = slices.Insert(all.lengths, at, n.prefix.Bits())
	}
	return nil
}

// holding calls yield with the nodes whose networks hold all of the value, the smallest first, until it returns false.
func (all *networks) holding(e *Entry, yield func(*node) bool) {
	if all.nodes == nil {
		return
	}
	value, ok := e.network()
	if !ok {
		return
	}
	for _, length := range all.lengths {
		if length > value.Bits() {
			continue
		}
		prefix := netip.PrefixFrom(value.Addr(), length).Masked()
		if child := all.nodes[network{e.Key, prefix}]; child != nil && !yield(child) {
			return
		}
	}
}

// network is what an entry is in networks: the address of a client, or what its value names.
func (e *Entry) network() (netip.Prefix, bool) {
	if e.address.IsValid() {
		return netip.PrefixFrom(e.address, e.address.BitLen()), true
	}
	return networkOf(e.Value)
}

// smallest is the node of the smallest network that holds the value, nil if none does.
func (all *networks) smallest(e *Entry) (found *node) {
	all.holding(e, func(child *node) bool { found = child; return false })
	return found
}
