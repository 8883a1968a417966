package console

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/functions"
)

// door is how a server takes the commands of the limiter.
type door string

const (
	module  door = "module"
	library door = "functions"
	scripts door = "scripts"
)

// doors keeps how the server takes commands: whoever asks about many keys asks for it once.
type doors struct {
	mu    sync.Mutex
	door  door
	until time.Time
}

// doorFor is how long what is known of a server holds.
const doorFor = 2 * time.Second

func (d *doors) keep(door door, now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.door, d.until = door, now.Add(doorFor)
}

// script is the function library as one script.
var script = redis.NewScript(functions.Script())

// command is a command of the limiter on a key, such as CL.LEASES, as the server takes it. It is queued in p, or sent.
func (d door) command(ctx context.Context, p redis.Cmdable, writes bool, name, key string, words ...any) *redis.Cmd {
	function := strings.ReplaceAll(strings.ToLower(name), ".", "_")
	switch {
	case d == library && writes:
		return p.FCall(ctx, function, []string{key}, words...)
	case d == library:
		return p.FCallRO(ctx, function, []string{key}, words...)
	case d == scripts && writes:
		return script.EvalSha(ctx, p, []string{key}, append([]any{function}, words...)...)
	case d == scripts:
		return script.EvalShaRO(ctx, p, []string{key}, append([]any{function}, words...)...)
	}
	cmd := redis.NewCmd(ctx, append([]any{name, key}, words...)...)
	cmd.SetFirstKeyPos(1)
	if pipe, ok := p.(redis.Pipeliner); ok {
		_ = pipe.Process(ctx, cmd)
	} else if client, ok := p.(interface {
		Process(context.Context, redis.Cmder) error
	}); ok {
		_ = client.Process(ctx, cmd) // cmd holds the error as well
	}
	return cmd
}

// node is a master, and what it said in the last reading.
type node struct {
	client            *redis.Client
	addr              string
	info              map[string]string
	top               []listed
	shadow            []listed
	topErr, shadowErr string
}

// nodes are the masters, in the order of their addresses.
func (c *Console) nodes(ctx context.Context) (all []*node, err error) {
	cluster, ok := c.client.(*redis.ClusterClient)
	if !ok {
		single, ok := c.client.(*redis.Client)
		if !ok {
			return nil, fmt.Errorf("the console reads one server or a cluster, not %T", c.client)
		}
		return []*node{{client: single, addr: single.Options().Addr}}, nil
	}
	var mu sync.Mutex
	err = cluster.ForEachMaster(ctx, func(_ context.Context, client *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, &node{client: client, addr: client.Options().Addr})
		return nil
	})
	return all, err
}

// mostListed is how many keys of CL.TOP the page shows.
const mostListed = 20

// listed is a row of CL.TOP.
type listed struct {
	key   string
	db    int64
	count int64
	off   int64 // by how much count may be too high
}

// ask reads what n says of itself, in one round trip.
func (n *node) ask(ctx context.Context) error {
	p := n.client.Pipeline()
	sections := []*redis.StringCmd{p.Info(ctx, "server"), p.Info(ctx, "replication"), p.Info(ctx, "keyspace"), p.Info(ctx, "cluster"), p.Info(ctx, "throttle"), p.Info(ctx, "clients")}
	top, shadow := p.Do(ctx, "CL.TOP", mostListed), p.Do(ctx, "CL.TOP", mostListed, "SHADOW")
	_, err := p.Exec(ctx)
	if !isReply(err) {
		return err
	}
	n.info = map[string]string{}
	for _, section := range sections {
		text, err := section.Result()
		if err != nil {
			return err
		}
		for line := range strings.Lines(text) {
			if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
				n.info[name] = value
			}
		}
	}
	n.top, n.topErr = topOf(top)
	n.shadow, n.shadowErr = topOf(shadow)
	if strings.Contains(n.shadowErr, "wrong number of arguments") || strings.Contains(n.shadowErr, "count must be") {
		n.shadowErr = "This server's version does not count shadows by key: CL.TOP SHADOW needs a newer module."
	}
	return nil
}

// isReply says whether err, if there is one, came from the server: it can be reached.
func isReply(err error) bool {
	var reply redis.Error
	return err == nil || errors.Is(err, redis.Nil) || errors.As(err, &reply)
}

func topOf(cmd *redis.Cmd) (all []listed, why string) {
	rows, err := cmd.Slice()
	if err != nil {
		switch text := said(err); {
		case strings.Contains(text, "CL.TOP is off"):
			return nil, "CL.TOP is off: CONFIG SET throttle.top 1000 switches it on."
		case strings.HasPrefix(text, "ERR unknown command"):
			return nil, "CL.TOP needs the module."
		default:
			return nil, text
		}
	}
	for _, row := range rows {
		f := fieldsOf(row)
		all = append(all, listed{f.text("key"), f.integer("db"), f.integer("limited"), f.integer("error")})
	}
	return all, ""
}

// reply is a reply with names, in either protocol.
type reply map[string]any

func fieldsOf(v any) reply {
	all := reply{}
	switch v := v.(type) {
	case map[any]any:
		for name, value := range v {
			if name, ok := name.(string); ok {
				all[name] = value
			}
		}
	case []any:
		for i := 0; i+1 < len(v); i += 2 {
			if name, ok := v[i].(string); ok {
				all[name] = v[i+1]
			}
		}
	}
	return all
}

func (r reply) text(name string) string   { text, _ := r[name].(string); return text }
func (r reply) integer(name string) int64 { n, _ := r[name].(int64); return n }
func (r reply) rows(name string) []any    { rows, _ := r[name].([]any); return rows }

// number is a field of INFO, 0 if it is none.
func (n *node) number(name string) float64 {
	value, _ := strconv.ParseFloat(n.info[name], 64)
	return value
}

// doorOf finds out how servers take commands; "" says that they take them in no way.
func (c *Console) doorOf(ctx context.Context, nodes []*node) (door, string) {
	if version := nodes[0].info["throttle_version"]; version != "" {
		return module, "module " + strings.Fields(version)[0]
	}
	keys := []string{c.o.Hash} // managed services refuse calls without keys
	if len(nodes) > 1 {
		keys = nil // which master has the key does not matter
	}
	version, err := nodes[0].client.FCallRO(ctx, "cl_version", keys).Int64()
	if err == nil {
		return library, fmt.Sprintf("function library %d.%d.%d", version/10000, version/100%100, version%100)
	}
	for _, n := range nodes {
		if script.RunRO(ctx, n.client, keys, "cl_version").Err() != nil { // from then on the server has it
			return "", "neither the module nor the function library"
		}
	}
	return scripts, "scripts"
}
