package console

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// State is what the page shows.
type State struct {
	Name   string `json:"name"`
	NowMs  int64  `json:"now_ms"` // when Redis was read last
	MayAct bool   `json:"may_act"`
	// HasToken says that the program was started with one.
	HasToken bool `json:"has_token"`
	Explains bool `json:"explains"`

	Redis    Redis     `json:"redis"`
	Pace     Pace      `json:"pace"`
	Top      List      `json:"top"`
	Shadows  List      `json:"shadows"`
	Bans     Found     `json:"bans"`
	Leases   Found     `json:"leases"`
	Looked   Looked    `json:"looked"`
	Policies Policies  `json:"policies"`
	Log      []Entry   `json:"log"`
	Gateway  *Gateways `json:"gateway,omitempty"`
}

// Redis is the state of the server, or of the masters of a cluster.
type Redis struct {
	Up      bool   `json:"up"`
	Error   string `json:"error,omitempty"`
	DownMs  int64  `json:"down_ms,omitempty"` // since when
	Address string `json:"address"`
	Server  string `json:"server"` // the name and version
	Role    string `json:"role"`
	Masters int    `json:"masters"`
	Door    string `json:"door"` // the module's version, or that of the function library
	Keys    int64  `json:"keys"`
	Clients int64  `json:"clients"`
	Waiting int64  `json:"waiting"` // callers in line
	Zones   string `json:"zones"`
	SinceMs int64  `json:"since_ms"` // when the module began to count
}

// List is a list of the keys that are limited most.
type List struct {
	Why  string `json:"why,omitempty"` // it is empty
	Rows []Row  `json:"rows"`
}

// Row is a key that is limited.
type Row struct {
	Key     Key      `json:"key"`
	DB      int64    `json:"db"`
	Here    bool     `json:"here"` // it is in the database of the client
	Count   int64    `json:"count"`
	Off     int64    `json:"off"`
	SinceMs int64    `json:"since_ms"` // when it was listed first
	State   *Inspect `json:"state,omitempty"`
}

// state is what the page shows now. Redis is read once a second at most, however many browsers ask.
func (c *Console) state(ctx context.Context, q *question) (any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.last == nil || time.Since(c.read) >= fresh {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience) // others wait for it, too
		defer cancel()
		c.last = c.refresh(ctx)
		c.read = time.Now()
	}
	own := *c.last
	own.Policies = c.rules.filtered(q.Filter, own.Policies)
	own.Gateway = own.Gateway.filtered(q.Filter)
	return &own, nil
}

// fresh is how old what browsers are told may be.
const fresh = 900 * time.Millisecond

// refresh reads Redis.
func (c *Console) refresh(ctx context.Context) *State {
	now := time.Now()
	s := &State{
		Name: c.o.Name, NowMs: now.UnixMilli(), HasToken: c.o.Token != "", Explains: c.o.Explain != nil, Log: []Entry{},
		Top: List{Rows: []Row{}}, Shadows: List{Rows: []Row{}}, Bans: Found{Rows: []FoundKey{}}, Leases: Found{Rows: []FoundKey{}},
	}
	if err := c.readInto(ctx, s, now); err != nil {
		old := c.last
		if old == nil {
			old = s
		}
		down := *old // what was read last is shown as such
		down.Redis.Up, down.Redis.Error = false, outage(err)
		if old.Redis.Up || old.Redis.DownMs == 0 {
			down.Redis.DownMs = now.UnixMilli()
		}
		s = &down
		if c.o.Gateway == nil { // one goes on deciding, and counting
			c.times.clear()
		}
	}
	c.gatewayInto(s, now)
	s.Pace = c.times.pace()
	return s
}

// outage is an error of Redis in a sentence.
func outage(err error) string {
	return "Redis cannot be read: " + said(err)
}

func (c *Console) readInto(ctx context.Context, s *State, now time.Time) error {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	if len(nodes) == 0 {
		return fmt.Errorf("the cluster has no master")
	}
	slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	for _, n := range nodes {
		if err := n.ask(ctx); err != nil {
			return err
		}
	}
	door, called := c.doorOf(ctx, nodes)
	c.doors.keep(door, now)
	s.Redis = redisOf(nodes, called)
	if c.o.Gateway == nil {
		c.times.add(now, countsOf(nodes))
	}
	s.Top, s.Shadows = listOf(nodes, func(n *node) ([]listed, string) { return n.top, n.topErr }),
		listOf(nodes, func(n *node) ([]listed, string) { return n.shadow, n.shadowErr })
	if err := c.rules.read(ctx, c.client, c.o.Hash, now); err != nil {
		return err
	}
	s.Policies = c.rules.shown(s.Shadows)
	if err := c.sweep.step(ctx, c.client, nodes, door); err != nil {
		return err
	}
	if err := c.detail(ctx, s, door, now); err != nil {
		return err
	}
	s.Log, err = c.readLog(ctx)
	return err
}

func redisOf(nodes []*node, called string) Redis {
	first := nodes[0]
	r := Redis{Up: true, Address: first.addr, Masters: len(nodes), Door: called, Role: first.info["role"]}
	name, version := "Redis", first.info["redis_version"]
	switch {
	case first.info["valkey_version"] != "":
		name, version = "Valkey", first.info["valkey_version"]
	case first.info["server_name"] == "throttle-dev":
		name, version, _ = strings.Cut("throttle-dev "+first.info["throttle_version"], " ")
		version, _, _ = strings.Cut(version, " ")
	}
	r.Server = name + " " + version
	if zones := first.info["throttle_zone_data"]; zones != "" {
		r.Zones = zones + " (" + first.info["throttle_zone_data_source"] + ")"
		for _, n := range nodes {
			if n.info["throttle_zone_data_checksum"] != first.info["throttle_zone_data_checksum"] {
				r.Zones = "servers differ: " + n.addr + " has " + n.info["throttle_zone_data"]
			}
		}
	}
	r.SinceMs = int64(first.number("throttle_since_unix_time")) * 1000
	for _, n := range nodes {
		r.Clients += int64(n.number("connected_clients"))
		r.Waiting += int64(n.number("throttle_waiting") + n.number("throttle_leases_waiting"))
		for name, value := range n.info {
			var keys int64
			if strings.HasPrefix(name, "db") {
				_, _ = fmt.Sscanf(value, "keys=%d,", &keys)
			}
			r.Keys += keys
		}
	}
	return r
}

func countsOf(nodes []*node) (all Count) {
	for _, n := range nodes {
		allowed, limited := n.number("throttle_allowed"), n.number("throttle_limited")
		all.Total += allowed + limited
		all.Denied += limited
		all.Shadowed += n.number("throttle_shadowed")
	}
	return all
}

// listOf merges what masters list.
func listOf(nodes []*node, of func(*node) ([]listed, string)) (list List) {
	var all []listed
	for _, n := range nodes {
		rows, why := of(n)
		all = append(all, rows...)
		list.Why = cmp.Or(why, list.Why)
	}
	slices.SortStableFunc(all, func(a, b listed) int { return cmp.Compare(b.count, a.count) })
	list.Rows = []Row{}
	for _, l := range all[:min(len(all), mostListed)] {
		list.Rows = append(list.Rows, Row{Key: keyOfTop(l.key), DB: l.db, Count: l.count, Off: l.off})
	}
	return list
}

// detail looks at the keys that are listed, in one round trip for their state and one for leases.
func (c *Console) detail(ctx context.Context, s *State, door door, now time.Time) error {
	db := int64(0)
	if single, ok := c.client.(*redis.Client); ok {
		db = int64(single.Options().DB)
	}
	names := map[string]*Inspect{}
	seen := map[string]time.Time{}
	for _, rows := range [][]Row{s.Top.Rows, s.Shadows.Rows} {
		for i := range rows {
			row := &rows[i]
			name := string(row.Key.Raw)
			since, ok := c.seen[row.Key.Text]
			if !ok {
				since = now
			}
			seen[row.Key.Text] = since
			row.SinceMs, row.Here = since.UnixMilli(), row.DB == db && row.Key.Raw != nil
			if row.Here {
				names[name] = nil
			}
		}
	}
	c.seen = seen
	for _, found := range []*longest{&c.sweep.bans, &c.sweep.lines} {
		for name := range found.sizes {
			names[name] = nil
		}
	}
	inspects, why, err := inspectAll(ctx, c.client, door, slices.Sorted(maps.Keys(names)))
	if err != nil {
		return err
	}
	s.Looked = c.sweep.looked(why)
	for _, rows := range [][]Row{s.Top.Rows, s.Shadows.Rows} {
		for i := range rows {
			if rows[i].Here {
				rows[i].State = inspects[string(rows[i].Key.Raw)]
			}
		}
	}
	for name, state := range inspects {
		c.sweep.note(name, state)
	}
	s.Bans = c.sweep.listBans(inspects)
	s.Leases, err = c.sweep.listLines(ctx, c.client, door, inspects)
	return err
}
