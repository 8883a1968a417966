package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/top"
)

// redisVersion is the version of Redis whose commands miniredis has, as it says itself.
const redisVersion = "8.4.0"

// runID tells this process from all others, as that of a server: 40 hexadecimal digits.
var runID = fmt.Sprintf("%016x%016x%08x", rand.Uint64(), rand.Uint64(), rand.Uint32())

// section is a part of INFO.
type section struct {
	name  string
	lines func(*call) string
}

var sections = []section{
	{"Server", func(c *call) string {
		return lines("redis_version", redisVersion, "server_name", "throttle-dev", "redis_mode", "standalone", "process_id", os.Getpid(), "run_id", runID,
			"tcp_port", c.port(), "uptime_in_seconds", int(time.Since(c.begun).Seconds()))
	}},
	{"Throttle-dev", func(c *call) string {
		return lines("throttle_dev_version", version, "throttle_dev_is", purpose, "throttle_dev_time", shown(c.now()), "throttle_dev_time_stands_still", number(c.clock.stopped))
	}},
	{"Clients", func(c *call) string {
		return lines("connected_clients", len(c.clients), "blocked_clients", len(c.waiting)+len(c.blocked))
	}},
	{"Persistence", func(*call) string {
		return lines("loading", 0, "rdb_bgsave_in_progress", 0, "aof_enabled", 0)
	}},
	{"Stats", func(c *call) string { return lines("total_connections_received", c.lastID) }},
	{"Replication", func(*call) string { return lines("role", "master", "connected_slaves", 0) }},
	{"Cluster", func(*call) string { return lines("cluster_enabled", 0) }},
	{"Modules", func(*call) string { return lines("module", "name=throttle,ver="+itoa(moduleVersion())+",api=1") }},
	{"throttle", throttleInfo},
	{"Commandstats", commandStats},
	{"Keyspace", keyspace},
}

// onRequest are sections that INFO shows only where they are asked for.
var onRequest = map[string]bool{"commandstats": true}

func (s *server) port() string {
	_, port, _ := net.SplitHostPort(s.listener.Addr().String()) // as a listener writes it
	return port
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// lines are names and values by turns, as INFO shows them.
func lines(values ...any) string {
	var all strings.Builder
	for i := 0; i < len(values); i += 2 {
		fmt.Fprintf(&all, "%v:%v\r\n", values[i], values[i+1])
	}
	return all.String()
}

func throttleInfo(c *call) string {
	zones := calendar.Current()
	values := []any{}
	for _, stat := range c.host.Stats() {
		values = append(values, "throttle_"+stat.Name, stat.Count)
	}
	return lines("throttle_version", version+" ("+runtime.Version()+", throttle-dev)",
		"throttle_zone_data", zones.Version(), "throttle_zone_data_source", "built-in", "throttle_zone_data_unix_time", max(0, zones.Time().Unix()),
		"throttle_zone_data_checksum", zones.Checksum(), "throttle_since_unix_time", c.begun.Unix()) +
		lines(values...) + lines("throttle_errors_internal", c.faults)
}

// usage is how often a command was run, and how long that took in all.
type usage struct {
	calls int
	took  time.Duration
}

func commandStats(c *call) (all string) {
	for _, name := range slices.Sorted(maps.Keys(c.used)) {
		u := c.used[name]
		us := u.took.Microseconds()
		all += lines("cmdstat_"+strings.ToLower(name), fmt.Sprintf("calls=%d,usec=%d,usec_per_call=%.2f", u.calls, us, float64(us)/float64(u.calls)))
	}
	return all
}

// count notes that a command was run, which began at an instant.
func (s *server) count(name string, began time.Time) {
	if s.used[name] == nil {
		s.used[name] = &usage{}
	}
	s.used[name].calls++
	s.used[name].took += time.Since(began)
}

func keyspace(c *call) (all string) {
	for db := range databases {
		if n := len(c.store.redis.DB(db).Keys()); n > 0 {
			all += lines("db"+itoa(db), fmt.Sprintf("keys=%d,expires=0,avg_ttl=0", n))
		}
	}
	return all
}

// INFO [section ...]
func info(c *call) {
	wanted := map[string]bool{}
	for i := range c.words[1:] {
		wanted[strings.ToLower(c.word(1+i))] = true
	}
	all := wanted["all"] || wanted["everything"]
	byDefault := len(wanted) == 0 || wanted["default"]
	var text strings.Builder
	for _, s := range sections {
		if name := strings.ToLower(s.name); all || wanted[name] || byDefault && !onRequest[name] {
			if text.Len() > 0 {
				text.WriteString("\r\n")
			}
			text.WriteString("# " + s.name + "\r\n" + s.lines(c))
		}
	}
	c.peer.WriteBulk(text.String())
}

func modules() []any {
	return []any{pairs{"name", "throttle", "ver", moduleVersion(), "path", "", "args", []any{}}}
}

// moduleVersion is the version as the module has it: major x 10000 + minor x 100 + patch; 0 for none.
func moduleVersion() int {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &major, &minor, &patch); err != nil {
		return 0
	}
	return 10000*major + 100*minor + patch
}

// MODULE LIST
func moduleCommand(c *call) {
	if c.word(1) != "LIST" {
		c.fail("ERR throttle-dev loads no modules: the CL.* commands are built in")
		return
	}
	c.write(modules())
}

func role(c *call) { c.write([]any{"master", 0, []any{}}) }

// CONFIG GET pattern ... | SET name value | RESETSTAT
func config(c *call) {
	switch sub := c.word(1); {
	case sub == "GET" && len(c.words) > 2:
		c.getConfig()
	case sub == "SET" && len(c.words) == 4:
		c.setConfig(strings.ToLower(string(c.words[2])), string(c.words[3]))
	case sub == "RESETSTAT" && len(c.words) == 2:
		clear(c.used)
		c.peer.WriteOK()
	default:
		c.fail("ERR throttle-dev knows CONFIG GET, SET and RESETSTAT")
	}
}

func (c *call) getConfig() {
	found := pairs{}
	for _, one := range [][2]string{
		{"throttle.top", itoa(c.top)}, {"throttle.max-waiting", itoa(c.maxWaiting)}, {"throttle.aliases", c.aliases}, {"port", c.port()}, {"databases", itoa(databases)}, {"maxmemory", "0"},
		{"save", ""}, {"appendonly", "no"}, {"cluster-enabled", "no"}, {"notify-keyspace-events", ""},
	} {
		for _, pattern := range c.words[2:] {
			if ok, err := path.Match(strings.ToLower(string(pattern)), one[0]); ok && err == nil {
				found = append(found, one[0], one[1])
				break
			}
		}
	}
	c.write(found)
}

func (c *call) setConfig(name, value string) {
	settings := map[string]struct {
		least, most int
		set         func(int)
	}{
		"throttle.top":         {0, top.MaxEntries, c.resizeTop},
		"throttle.max-waiting": {waitingByMemory, maxMaxWaiting, c.setMaxWaiting},
	}
	setting, ok := settings[name]
	if !ok {
		c.fail("ERR throttle-dev has no configuration '" + name + "' to set, only throttle.top and throttle.max-waiting")
		return
	}
	n, err := strconv.Atoi(value)
	if err != nil || strconv.Itoa(n) != value || n < setting.least || n > setting.most {
		wrong := "argument must be between " + itoa(setting.least) + " and " + itoa(setting.most) + " inclusive"
		if _, err := strconv.ParseInt(value, 10, 64); err != nil {
			wrong = "argument couldn't be parsed into an integer"
		}
		c.fail("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + wrong)
		return
	}
	setting.set(n)
	c.peer.WriteOK()
}

func checkTop(keys int) error {
	if keys < 0 || keys > top.MaxEntries {
		return fmt.Errorf("--top takes a number from 0 to %d", top.MaxEntries)
	}
	return nil
}

// waitingByMemory is a throttle.max-waiting by which maxmemory decides. There is none here, for which a server takes
// withoutMaxmemory.
const (
	waitingByMemory  = -1
	withoutMaxmemory = 10_000
	maxMaxWaiting    = 100_000_000
)

func checkMaxWaiting(callers int) error {
	if callers < waitingByMemory || callers > maxMaxWaiting {
		return fmt.Errorf("--max-waiting takes a number from %d to %d", waitingByMemory, maxMaxWaiting)
	}
	return nil
}

func (s *server) setMaxWaiting(callers int) {
	s.maxWaiting, s.host.MaxWaiting = callers, callers
	if callers == waitingByMemory {
		s.host.MaxWaiting = withoutMaxmemory
	}
}

func (s *server) resizeTop(keys int) {
	s.top = keys
	s.host.ResizeTop(keys)
}
