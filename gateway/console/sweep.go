package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// sweep looks for bans, leases and lines, which no server lists: a few keys with each reading, and all of them again
// and again.
type sweep struct {
	cursors map[string]uint64 // by master
	bans    longest
	lines   longest
	count   int64 // keys in this round
	rounds  int64
}

const (
	// stride is how many keys a reading looks at. A function takes longer than a command.
	stride         = 250
	strideOfScript = 60
	mostFound      = 100
	mostLines      = 20 // keys whose leases are listed
	mostHolders    = 10
)

func newSweep() sweep {
	return sweep{cursors: map[string]uint64{}, bans: longest{sizes: map[string]int64{}}, lines: longest{sizes: map[string]int64{}}}
}

// Looked is how far the sweep has come.
type Looked struct {
	Keys   int64  `json:"keys"`
	Rounds int64  `json:"rounds"` // in which it has seen every key
	Why    string `json:"why,omitempty"`
}

// Found is a list of keys that the sweep has found, or why there is none.
type Found struct {
	Rows []FoundKey `json:"rows"`
	More int        `json:"more"`
	// AtLeast says that there are others beside More.
	AtLeast bool `json:"at_least"`
}

// FoundKey is a key that is banned, or that leases or callers in line have.
type FoundKey struct {
	name   string
	Key    Key      `json:"key"`
	State  *Inspect `json:"state"`
	Leases *Leases  `json:"leases,omitempty"`
}

// Inspect is the reply of CL.INSPECT.
type Inspect struct {
	Kind     string  `json:"kind"`
	NowMs    int64   `json:"now_ms"`
	Bytes    int64   `json:"bytes"`
	Expires  int64   `json:"expires_at_ms"`
	Banned   int64   `json:"banned_until_ms"`
	Held     int64   `json:"held"`
	LapsesMs int64   `json:"lapses_at_ms"`
	Waiting  int64   `json:"waiting"`
	Limits   []Limit `json:"limits"`
	Error    string  `json:"error,omitempty"`
}

// Limit is the state of one limit of a key.
type Limit struct {
	Kind     string `json:"kind"`
	PeriodMs int64  `json:"period_ms"`
	Used     int64  `json:"used"`
	Next     int64  `json:"next_at_ms"`
	Reset    int64  `json:"reset_at_ms"`
	QueueMs  int64  `json:"queue_ms"`
}

func inspectOf(v any) *Inspect {
	f := fieldsOf(v)
	s := &Inspect{
		Kind: f.text("kind"), NowMs: f.integer("now_ms"), Bytes: f.integer("bytes"), Expires: f.integer("expires_at_ms"), Banned: f.integer("banned_until_ms"),
		Held: f.integer("held"), LapsesMs: f.integer("lapses_at_ms"), Waiting: f.integer("waiting"), Limits: []Limit{},
	}
	for _, row := range f.rows("limits") {
		l := fieldsOf(row)
		s.Limits = append(s.Limits, Limit{l.text("kind"), l.integer("period_ms"), l.integer("used"), l.integer("next_at_ms"), l.integer("reset_at_ms"), l.integer("queue_ms")})
	}
	return s
}

// banned says whether a ban lasts.
func (s *Inspect) banned() bool { return s != nil && s.Banned > s.NowMs }

// inspectAll looks at keys in one round trip. why says that the server cannot tell. A key that no limiter wrote has no
// state.
func inspectAll(ctx context.Context, client redis.UniversalClient, door door, keys []string) (all map[string]*Inspect, why string, err error) {
	all = map[string]*Inspect{}
	if door == "" {
		return all, "this server has neither the module nor the function library", nil
	}
	p := client.Pipeline()
	cmds := make([]*redis.Cmd, len(keys))
	for i, key := range keys {
		cmds[i] = door.command(ctx, p, false, "CL.INSPECT", key)
	}
	if _, err := p.Exec(ctx); !isReply(err) {
		return nil, "", err
	}
	for i, cmd := range cmds {
		v, err := cmd.Result()
		switch {
		case err == nil:
			all[keys[i]] = inspectOf(v)
		case isUnknown(err):
			return all, "bans and leases are found by CL.INSPECT, which this server's version does not have", nil
		case !isReply(err):
			return nil, "", err
		}
	}
	return all, "", nil
}

// isUnknown says that a server does not have the command or function.
func isUnknown(err error) bool {
	text := err.Error()
	return strings.HasPrefix(text, "ERR unknown command") || strings.HasPrefix(text, "ERR Function not found") || strings.HasPrefix(text, "ERR unknown function")
}

// step looks at some more keys.
func (s *sweep) step(ctx context.Context, client redis.UniversalClient, nodes []*node, door door) error {
	if door == "" {
		return nil
	}
	count := stride
	if door != module {
		count = strideOfScript
	}
	ended := true
	for _, n := range nodes {
		cursor, begun := s.cursors[n.addr]
		if begun && cursor == 0 && s.count > 0 && len(nodes) > 1 {
			continue // this master waits for the others
		}
		keys, next, err := n.client.Scan(ctx, cursor, "", int64(max(1, count/len(nodes)))).Result()
		if err != nil {
			return err
		}
		s.cursors[n.addr] = next
		ended = ended && next == 0
		s.count += int64(len(keys))
		states, _, err := inspectAll(ctx, client, door, keys[:min(len(keys), 2*count)])
		if err != nil {
			return err
		}
		for name, state := range states {
			s.note(name, state)
		}
	}
	if ended {
		s.rounds++
		s.count = 0
		clear(s.cursors)
		s.bans.roundEnds()
		s.lines.roundEnds()
	}
	return nil
}

// note keeps what is worth showing, and forgets what is over.
func (s *sweep) note(name string, state *Inspect) {
	var banned, line int64
	if state.banned() {
		banned = state.Banned
	}
	if state != nil {
		line = state.Held + state.Waiting
	}
	s.bans.note(name, banned)
	s.lines.note(name, line)
}

// longest are the keys with the longest bans or lines.
type longest struct {
	sizes map[string]int64
	left  bool // a key of this round was left out
	more  bool // and one of this round or the last
}

// note keeps a key that has a size, unless mostFound others have larger ones.
func (l *longest) note(name string, size int64) {
	if size == 0 {
		delete(l.sizes, name)
		return
	}
	l.sizes[name] = size
	if len(l.sizes) <= mostFound {
		return
	}
	least := name
	for other, size := range l.sizes {
		if size < l.sizes[least] {
			least = other
		}
	}
	delete(l.sizes, least)
	l.left, l.more = true, true
}

func (l *longest) roundEnds() { l.more, l.left = l.left, false }

func (s *sweep) looked(why string) Looked {
	if why != "" {
		why = strings.ToUpper(why[:1]) + why[1:] + "."
	}
	return Looked{s.count, s.rounds, why}
}

// listBans lists the bans that end last, first.
func (s *sweep) listBans(states map[string]*Inspect) Found {
	return listFound(&s.bans, states, mostListed, func(a, b *Inspect) int { return cmp.Compare(b.Banned, a.Banned) })
}

func listFound(names *longest, states map[string]*Inspect, most int, order func(a, b *Inspect) int) Found {
	found := Found{Rows: []FoundKey{}, AtLeast: names.more}
	for name := range names.sizes {
		if state := states[name]; state != nil {
			found.Rows = append(found.Rows, FoundKey{name: name, Key: keyOf(name), State: state})
		}
	}
	slices.SortFunc(found.Rows, func(a, b FoundKey) int {
		return cmp.Or(order(a.State, b.State), strings.Compare(a.Key.Text, b.Key.Text))
	})
	if len(found.Rows) > most {
		found.Rows, found.More = found.Rows[:most], len(found.Rows)-most
	}
	return found
}

// Leases is the reply of CL.LEASES.
type Leases struct {
	Held    int64   `json:"held"`
	Waiting int64   `json:"waiting"`
	Holders []Held  `json:"holders"`
	Groups  []Group `json:"groups"`
	More    int64   `json:"more_groups"`
}

// Held is a lease.
type Held struct {
	ID      string `json:"id"`
	LeaseMs int64  `json:"lease_ms"`
}

// Group are callers in line.
type Group struct {
	Name     string `json:"name"`
	Priority int64  `json:"priority"`
	Waiting  int64  `json:"waiting"`
	Weight   int64  `json:"weight"`
}

// listLines lists the keys with the longest lines, and of these their leases and groups.
func (s *sweep) listLines(ctx context.Context, client redis.UniversalClient, door door, states map[string]*Inspect) (Found, error) {
	found := listFound(&s.lines, states, mostLines, func(a, b *Inspect) int { return cmp.Or(cmp.Compare(b.Waiting, a.Waiting), cmp.Compare(b.Held, a.Held)) })
	p := client.Pipeline()
	cmds := make([]*redis.Cmd, len(found.Rows))
	for i := range found.Rows {
		cmds[i] = door.command(ctx, p, false, "CL.LEASES", found.Rows[i].name, "COUNT", mostHolders)
	}
	if _, err := p.Exec(ctx); len(cmds) > 0 && !isReply(err) {
		return found, err
	}
	for i, cmd := range cmds {
		if v, err := cmd.Result(); err == nil {
			found.Rows[i].Leases = leasesOf(v)
		}
	}
	return found, nil
}

func leasesOf(v any) *Leases {
	f := fieldsOf(v)
	l := &Leases{Held: f.integer("held"), Waiting: f.integer("waiting"), Holders: []Held{}, Groups: []Group{}}
	for _, row := range f.rows("leases") {
		h := fieldsOf(row)
		l.Holders = append(l.Holders, Held{shown(h.text("id"), shownKey), h.integer("lease_ms")})
	}
	for _, row := range f.rows("groups") {
		g := fieldsOf(row)
		l.Groups = append(l.Groups, Group{shown(g.text("group"), shownKey), g.integer("priority"), g.integer("waiting"), g.integer("weight")})
	}
	l.More = f.integer("waiting_groups") - int64(len(l.Groups))
	return l
}

// KeyState is what a key holds.
type KeyState struct {
	Key     Key      `json:"key"`
	State   *Inspect `json:"state,omitempty"`
	Leases  *Leases  `json:"leases,omitempty"`
	ReadMs  int64    `json:"read_ms"`
	Nothing string   `json:"nothing,omitempty"`
}

// oneKey looks at the key that somebody asks about.
func (c *Console) oneKey(ctx context.Context, q *question) (any, error) {
	if len(q.Key) == 0 {
		return nil, errors.New("type a key")
	}
	door, err := c.door(ctx)
	if err != nil {
		return nil, err
	}
	name := string(q.Key)
	k := KeyState{Key: keyOf(name), ReadMs: time.Now().UnixMilli()}
	k.Key.Raw = q.Key
	v, err := door.command(ctx, c.client, false, "CL.INSPECT", name).Result()
	if err != nil {
		if isReply(err) && strings.HasPrefix(err.Error(), "WRONGTYPE") {
			k.Nothing = "It holds something that no limiter wrote."
			return k, nil
		}
		return nil, unsent(err)
	}
	k.State = inspectOf(v)
	if k.State.Held > 0 || k.State.Waiting > 0 {
		if v, err := door.command(ctx, c.client, false, "CL.LEASES", name, "COUNT", mostHolders).Result(); err == nil {
			k.Leases = leasesOf(v)
		}
	}
	return k, nil
}

// door is how the server takes commands now.
func (c *Console) door(ctx context.Context) (door, error) {
	c.doors.mu.Lock()
	defer c.doors.mu.Unlock()
	if c.doors.door != "" && time.Now().Before(c.doors.until) {
		return c.doors.door, nil
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return "", unsent(err)
	}
	if len(nodes) == 0 {
		return "", errors.New("the cluster has no master")
	}
	if err := nodes[0].ask(ctx); err != nil {
		return "", unsent(err)
	}
	door, called := c.doorOf(ctx, nodes)
	if door == "" {
		return "", errors.New("the server has " + called)
	}
	c.doors.door, c.doors.until = door, time.Now().Add(doorFor)
	return door, nil
}
