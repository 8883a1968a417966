package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"redis-throttle/cmd/throttle-replay/replay"
	"redis-throttle/internal/quote"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/policies"
)

// source is one --policies: what a hash in Redis holds, or what a file would change in it.
type source struct {
	name    string
	isRedis bool
	changes []change
}

// change is a field that is set, or one that is deleted.
type change struct {
	field, value string
	isDeleted    bool
}

// stage is the hash after the changes of a source, and of those before it.
type stage struct {
	name  string
	hash  map[string]string
	rules *policies.Rules
}

// tryPolicies adds what --policies names to what is tried. It returns the commands that set it.
func (o *options) tryPolicies(ctx context.Context, asked *replay.Options, notes io.Writer) (commands []string, err error) {
	of, wrong := policies.ParseField(o.Policy)
	switch {
	case len(o.Policies) == 0 && o.Policy == "":
		return nil, nil
	case len(o.Policies) == 0:
		return nil, errors.New("--policy goes with --policies")
	case o.Policy == "" && len(o.Gateway) == 0:
		return nil, errors.New("--policies goes with --policy NAME and --limit, which is its default, or with --gateway")
	case o.Policy != "" && (wrong != nil || of.Keys != policies.Everybody):
		return nil, fmt.Errorf("--policy: %q is not the name of a policy", o.Policy)
	case o.Policy != "" && len(o.Limit) == 0:
		return nil, fmt.Errorf("--policy %s: say with --limit what its default is", o.Policy)
	}
	stages, commands, err := readPolicies(ctx, o.Policies, o.PoliciesHash, notes)
	if err != nil {
		return nil, err
	}
	known := map[string]bool{o.Policy: true}
	for i := range stages {
		s := &stages[i]
		if o.Policy != "" {
			keyed, err := s.keyed(o.Policy, strings.Join(o.Limit, " "))
			if err != nil {
				return nil, err
			}
			asked.Keyed = append(asked.Keyed, keyed)
		}
		if len(o.Gateway) > 0 {
			g, err := o.gateway()
			if err != nil {
				return nil, err
			}
			g.follow(s, notes)
			asked.Gateways = append(asked.Gateways, g)
			for _, name := range g.domain.Policies() {
				known[name] = true
			}
		}
	}
	for _, name := range names(stages) {
		if !known[name] {
			fmt.Fprintf(notes, "note: nothing that is tried has the policy %s\n", name)
		}
	}
	return commands, nil
}

// names are those of the policies in all stages.
func names(stages []stage) []string {
	all := map[string]bool{}
	for i := range stages {
		for field := range stages[i].hash {
			if of, err := policies.ParseField(field); err == nil {
				all[of.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// readPolicies reads sources, each on top of those before it. It returns the stages, and the commands that make the
// changes of files.
func readPolicies(ctx context.Context, paths []string, hash string, notes io.Writer) (stages []stage, commands []string, err error) {
	fields := map[string]string{}
	for _, path := range paths {
		s, err := readSource(ctx, path, hash)
		if err != nil {
			return nil, nil, err
		}
		for _, c := range s.changes {
			if c.isDeleted {
				delete(fields, c.field)
			} else {
				fields[c.field] = c.value
			}
		}
		rules, wrong := policies.Parse(fields)
		for _, field := range slices.Sorted(maps.Keys(wrong)) {
			if !s.isRedis && s.sets(field) {
				return nil, nil, fmt.Errorf("%s: %s %s: %w", path, word(field), quote.CLI(fields[field]), wrong[field])
			}
			if s.isRedis {
				fmt.Fprintf(notes, "note: %s in %s does not count: %v\n", word(field), hash, wrong[field])
			}
		}
		if !s.isRedis {
			commands = append(commands, s.commands(hash)...)
		}
		stages = append(stages, stage{s.name, maps.Clone(fields), rules})
	}
	return stages, commands, nil
}

func (s *source) sets(field string) bool {
	return slices.ContainsFunc(s.changes, func(c change) bool { return c.field == field && !c.isDeleted })
}

// commands make the changes in redis-cli.
func (s *source) commands(hash string) (all []string) {
	for i, c := range s.changes {
		isLast := !slices.ContainsFunc(s.changes[i+1:], func(o change) bool { return o.field == c.field })
		switch {
		case !isLast:
		case c.isDeleted:
			all = append(all, "HDEL "+word(hash)+" "+word(c.field))
		default:
			all = append(all, "HSET "+word(hash)+" "+word(c.field)+" "+quote.CLI(c.value))
		}
	}
	return all
}

func readSource(ctx context.Context, path, hash string) (*source, error) {
	if strings.HasPrefix(path, "redis://") || strings.HasPrefix(path, "rediss://") || strings.HasPrefix(path, "unix://") {
		return readHash(ctx, path, hash)
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--policies: %w", err)
	}
	defer file.Close()
	s := &source{name: filepath.Base(path)}
	lines := bufio.NewScanner(file)
	for n := 1; lines.Scan(); n++ {
		changes, err := changesOf(lines.Text(), hash)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		s.changes = append(s.changes, changes...)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// changesOf reads a line: a field and its value, or HSET and HDEL as redis-cli takes them.
func changesOf(line, hash string) (all []change, err error) {
	words, err := split(line)
	switch {
	case err != nil:
		return nil, err
	case len(words) == 0 || strings.HasPrefix(strings.TrimSpace(line), "#"):
		return nil, nil
	case len(words) == 1:
		return nil, fmt.Errorf("%s: expected a field and its value, such as api \"RATE 60/m\", or HDEL %s %s", words[0], hash, words[0])
	}
	command := strings.ToUpper(words[0])
	if command != "HSET" && command != "HDEL" {
		return []change{{field: words[0], value: strings.Join(words[1:], " ")}}, nil
	}
	switch {
	case words[1] != hash:
		return nil, fmt.Errorf("%s of %s: the hash is %s (--policies-hash)", command, words[1], hash)
	case command == "HSET" && (len(words) < 4 || len(words)%2 != 0):
		return nil, errors.New("HSET takes a hash, and fields with a value each: a value of several words is in quotation marks")
	case command == "HDEL" && len(words) < 3:
		return nil, errors.New("HDEL takes a hash and fields")
	}
	for i := 2; i < len(words); i++ {
		c := change{field: words[i], isDeleted: command == "HDEL"}
		if !c.isDeleted {
			i++
			c.value = words[i]
		}
		all = append(all, c)
	}
	return all, nil
}

// redisPatience bounds a reading of the hash.
const redisPatience = 10 * time.Second

// readHash reads the hash as it is in Redis.
func readHash(ctx context.Context, url, hash string) (*source, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, errors.New("--policies: expected a file, or a URL such as redis://host:6379, rediss:// or unix:///path") // it may hold a password
	}
	o.DialerRetries, o.MaxRetries, o.DisableIdentity = 1, -1, true
	client := redis.NewClient(o)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, redisPatience)
	defer cancel()
	fields, err := client.HGetAll(ctx, hash).Result()
	if err != nil {
		return nil, fmt.Errorf("--policies: HGETALL %s: %w", hash, err)
	}
	s := &source{name: "redis", isRedis: true}
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		s.changes = append(s.changes, change{field: field, value: fields[field]})
	}
	return s, nil
}

// keyed is the limits of a policy by a stage. words are its default.
func (s *stage) keyed(policy, words string) (replay.Keyed, error) {
	limits, rest, err := replay.Split(words)
	if err != nil {
		return replay.Keyed{}, err
	}
	own, err := ratelimit.ParseLimits(strings.Join(limits, ";"))
	if err != nil {
		return replay.Keyed{}, fmt.Errorf("--limit: %s", strings.TrimPrefix(err.Error(), "ratelimit: "))
	}
	call := ratelimit.Call{}
	if slices.ContainsFunc(rest, isMaxWait) {
		call.MaxWait = time.Millisecond // whatever the words say: it is for rates alone
	}
	return replay.Keyed{Name: s.name, Words: "policy " + policy, Of: func(key string) (replay.Choice, error) {
		rule := s.rules.Choose(policy, key)
		if rule == nil {
			return replay.Choice{Whose: "default", Words: words}, nil
		}
		if rule.None {
			return replay.Choice{Whose: rule.Field}, nil
		}
		asked := call
		asked.Keys = []ratelimit.Key{{Name: key, Limits: own}}
		forced, err := rule.Apply(asked)
		if err != nil { // as in a service, the default counts
			return replay.Choice{Whose: "default, since " + rule.Field + " is not for it", Words: words}, nil
		}
		var all []string
		for _, l := range forced.Keys[0].Limits {
			all = append(all, l.String())
		}
		if forced.Ban != 0 {
			return replay.Choice{Whose: rule.Field, Words: strings.Join(append(all, withBan(rest, forced.Ban, forced.BanAfter)...), " ")}, nil
		}
		return replay.Choice{Whose: rule.Field, Words: strings.Join(append(all, rest...), " ")}, nil
	}}, nil
}

// withBan is the words behind the limits of a set, with a ban in place of that among them.
func withBan(rest []string, ban time.Duration, after string) (words []string) {
	for i := 0; i < len(rest); i++ {
		if strings.EqualFold(rest[i], "BAN") || strings.EqualFold(rest[i], "AFTER") {
			i++
			continue
		}
		words = append(words, rest[i])
	}
	if words = append(words, "BAN", strconv.FormatInt(ban.Milliseconds(), 10)+"ms"); after != "" {
		words = append(words, "AFTER", after)
	}
	return words
}

func isMaxWait(word string) bool { return strings.EqualFold(word, "MAXWAIT") }
