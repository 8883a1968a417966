package replay

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"net/netip"
	"strings"

	"redis-throttle/cmd/throttle-replay/fields"
	"redis-throttle/cmd/throttle-replay/logs"
)

// Groups are clients that somebody may not want to hit: addresses that many people share, search engines, and those
// that the user names. Each result says which of them it would have denied something.

// Known is a group that the user names: the clients with a request for which all of Where holds.
type Known struct {
	Name  string
	Where fields.Where
}

// ParseKnown reads NAME=CONDITION.
func ParseKnown(texts []string) (all []Known, err error) {
	for _, text := range texts {
		name, condition, ok := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return nil, fmt.Errorf("--known %q: expected NAME=CONDITION, such as office='remote_addr in 198.51.100.0/24'", text)
		}
		where, err := fields.ParseWhere([]string{condition})
		if err != nil {
			return nil, fmt.Errorf("--known %s: %w", name, err)
		}
		all = append(all, Known{name, where})
	}
	if len(all) > 16-ownGroups {
		return nil, fmt.Errorf("--known: there are at most %d groups", 16-ownGroups)
	}
	return all, nil
}

// The groups that every report has, by their bits in client.groups. Those of the user follow.
const (
	sharedGroup = iota
	engineGroup
	ownGroups
)

var namesOfOwnGroups = [ownGroups]string{"addresses that several people share", "search engines, by what they call themselves"}

// sharedAgents is how many user agents make an address one that several people share.
const sharedAgents = 10

// agentsOf estimates how many different ones have set so many of 64 bits.
var agentsOf = func() (all [65]int64) {
	for n := range 64 {
		all[n] = int64(math.Round(-64 * math.Log(1-float64(n)/64)))
	}
	all[64] = all[63] + 64
	return all
}()

// engines are what the user agents of search engines have in them.
var engines = [][]byte{[]byte("Googlebot"), []byte("bingbot"), []byte("YandexBot"), []byte("Baiduspider"), []byte("DuckDuckBot"), []byte("Applebot"), []byte("Slurp")}

// marks notes what requests say of their clients, for one stream.
type marks struct {
	seed  maphash.Seed
	agent int // index of the field; -1 for none
	known []fields.BoundWhere
	seen  [256]struct {
		hash     uint64
		isEngine bool
	}
}

func (r *run) newMarks(l logs.Layout) (*marks, error) {
	m := &marks{seed: r.clients.seed, agent: -1}
	if at, err := l.Want("user_agent"); err == nil {
		m.agent = at
	}
	for _, k := range r.Known {
		bound, err := k.Where.Bind(l)
		if err != nil {
			return nil, fmt.Errorf("--known %s: %w", k.Name, err)
		}
		m.known = append(m.known, bound)
	}
	return m, nil
}

// note notes a request of a client.
func (m *marks) note(c *client, r *logs.Record) {
	for i := range m.known {
		if bit := uint16(1) << (ownGroups + i); c.groups&bit == 0 && m.known[i].Holds(r) {
			c.groups |= bit
		}
	}
	if m.agent < 0 || len(r.Fields[m.agent]) < 2 {
		return
	}
	agent := r.Fields[m.agent]
	hash := maphash.Bytes(m.seed, agent)
	c.agents |= 1 << (hash >> 58)
	known := &m.seen[hash&0xff]
	if known.hash != hash {
		known.hash, known.isEngine = hash, false
		for _, engine := range engines {
			known.isEngine = known.isEngine || bytes.Contains(agent, engine)
		}
	}
	if known.isEngine {
		c.groups |= 1 << engineGroup
	}
}

// groupsOf are the groups of a client, as bits.
func groupsOf(c *client) uint16 {
	if c.isShared() {
		return c.groups | 1<<sharedGroup
	}
	return c.groups
}

// networkOf names the network of a key that begins with an address, 0 for another: /24 of IPv4, /48 of IPv6.
func networkOf(key []byte) uint32 {
	end := bytes.IndexFunc(key, func(c rune) bool { return !strings.ContainsRune("0123456789abcdefABCDEF.:", c) })
	if end < 0 {
		end = len(key)
	}
	addr, err := netip.ParseAddr(string(key[:end]))
	if err != nil {
		return 0
	}
	n := 48
	if addr.Is4() {
		n = 24
	}
	prefix, _ := addr.Prefix(n)
	bytes := prefix.Addr().As16()
	return binary.BigEndian.Uint32(bytes[12:])<<8 ^ binary.BigEndian.Uint32(bytes[2:]) ^ uint32(n)
}

// Group is clients that belong together, and what a result did to them.
type Group struct {
	Name          string `json:"name"`
	Clients       int64  `json:"clients"`
	Requests      int64  `json:"requests"`
	DeniedClients int64  `json:"deniedClients"`
	Denied        int64  `json:"denied"` // requests
}

// groupTally counts by group.
type groupTally [16]Group

func (g *groupTally) add(c *client, denied, weight int64) {
	for bits, i := groupsOf(c), 0; bits != 0; bits, i = bits>>1, i+1 {
		if bits&1 == 0 {
			continue
		}
		g[i].Clients += weight
		g[i].Requests += c.lines * weight
		if denied > 0 {
			g[i].DeniedClients += weight
			g[i].Denied += denied * weight
		}
	}
}

func (g *groupTally) merge(o *groupTally) {
	for i := range g {
		g[i].Clients += o[i].Clients
		g[i].Requests += o[i].Requests
		g[i].DeniedClients += o[i].DeniedClients
		g[i].Denied += o[i].Denied
	}
}

// groups names those that have clients.
func (r *run) groups(g *groupTally) (all []Group) {
	for i := range g {
		one := g[i]
		if one.Clients == 0 {
			continue
		}
		if i < ownGroups {
			one.Name = namesOfOwnGroups[i]
		} else {
			one.Name = r.Known[i-ownGroups].Name
		}
		all = append(all, one)
	}
	return all
}
