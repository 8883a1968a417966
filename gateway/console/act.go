package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"

	"redis-throttle/limiter/command/words"
)

// Entry is an entry of the log of who changed what.
type Entry struct {
	AtMs int64  `json:"at_ms"`
	By   string `json:"by"`
	What string `json:"what"`
}

// Done is the answer to an act.
type Done struct {
	Text string `json:"text"`
}

const (
	shownLog   = 15
	longestLog = 10_000 // entries that are kept, about
	longestBy  = 64
)

// logKey is the stream in which changes are written down, in the slot of the hash.
func (c *Console) logKey() string {
	if begin := strings.IndexByte(c.o.Hash, '{'); begin >= 0 && strings.IndexByte(c.o.Hash[begin:], '}') > 1 {
		return c.o.Hash + ":log"
	}
	return "{" + c.o.Hash + "}:log"
}

// readLog reads the newest entries.
func (c *Console) readLog(ctx context.Context) ([]Entry, error) {
	all := []Entry{}
	v, err := c.client.Do(ctx, "XREVRANGE", c.logKey(), "+", "-", "COUNT", shownLog).Slice()
	if err != nil {
		if isReply(err) { // such as a missing right: the page is of use without it
			return all, nil
		}
		return nil, err
	}
	for _, row := range v {
		pair, _ := row.([]any)
		if len(pair) != 2 {
			continue
		}
		id, _ := pair[0].(string)
		words, _ := pair[1].([]any)
		e := Entry{}
		_, _ = fmt.Sscanf(id, "%d-", &e.AtMs)
		var what []string
		for i := 0; i+1 < len(words); i += 2 {
			name, value := fmt.Sprint(words[i]), fmt.Sprint(words[i+1])
			if i == 0 && name == "by" {
				e.By = shown(value, longestBy)
				continue
			}
			what = append(what, shown(name, shownKey), quoted(value))
		}
		e.What = strings.Join(what, " ")
		all = append(all, e)
	}
	return all, nil
}

// quoted is a value of the log, in quotation marks if it would not be read as one word.
func quoted(value string) string {
	text := shown(value, shownKey)
	if text == "" || strings.ContainsAny(text, " \"") {
		return `"` + text + `"`
	}
	return text
}

// act does what somebody has confirmed, and writes it down.
func (c *Console) act(ctx context.Context, q *question) (any, error) {
	by := strings.TrimSpace(q.By)
	if by == "" {
		by = "console"
	}
	if len(by) > longestBy || !utf8.ValidString(by) || strings.ContainsFunc(by, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return nil, fmt.Errorf("your name has at most %d bytes, all of them printed: no line ends, tabs or escapes", longestBy)
	}
	var text string
	var err error
	if q.Act == "policy" {
		text, err = c.changePolicy(ctx, by, q)
	} else {
		text, err = c.actOnKey(ctx, by, q)
	}
	c.mu.Lock()
	c.read = time.Time{} // the next question sees it, also if nobody knows whether it happened
	c.mu.Unlock()
	var most *partly
	if errors.As(err, &most) {
		text, err = "It was done, and "+most.Error(), nil
	}
	if err != nil {
		return nil, err
	}
	c.o.Logger.Info("console: an operator has acted", "act", q.Act)
	return Done{text}, nil
}

// shortestBan is what servers count in.
const shortestBan = time.Millisecond

// actOnKey bans, lifts and resets.
func (c *Console) actOnKey(ctx context.Context, by string, q *question) (string, error) {
	if len(q.Key) == 0 {
		return "", errors.New("type a key")
	}
	name := string(q.Key)
	entry := []any{"by", by, "act", q.Act, "key", name}
	if q.Act == "ban" {
		ns, err := words.ParseDuration([]byte(q.For))
		if err != nil || time.Duration(ns) < shortestBan {
			return "", errors.New("a ban takes a length of time with a unit, such as 15m, 1h or 1d, of at least 1ms and at most 100 years")
		}
		entry = append(entry, "for", q.For)
	}
	door, err := c.door(ctx)
	if err != nil {
		return "", err
	}
	ban := func(duration string) func(p redis.Cmdable) redis.Cmder {
		return func(p redis.Cmdable) redis.Cmder { return door.command(ctx, p, true, "CL.BAN", name, duration) }
	}
	var text string
	switch q.Act {
	case "ban":
		text, err = "The key is banned.", c.written(ctx, c.client, entry, ban(q.For))
	case "lift":
		text, err = "The ban is lifted.", c.written(ctx, c.client, entry, ban("0"))
	case "reset":
		text, err = "The key is reset: its limits are full, and bans and leases on it have ended.", c.reset(ctx, door, name, entry)
	default:
		return "", errors.New("act is ban, lift, reset or policy")
	}
	if c.o.Gateway != nil {
		c.o.Gateway.Forget(name)
	}
	return text, err
}

// reset deletes a key, if a limiter wrote it.
func (c *Console) reset(ctx context.Context, door door, name string, entry []any) error {
	if name == c.o.Hash || name == c.logKey() {
		return fmt.Errorf("%s is no key of a limiter: the console keeps it", name)
	}
	const changed = "somebody has used the key at the same moment: try again"
	return c.watched(ctx, name, changed, func(tx *redis.Tx) error {
		switch err := door.command(ctx, tx, false, "CL.INSPECT", name).Err(); {
		case err == nil:
			return nil
		case isUnknown(err):
			return errors.New("this server's version has no CL.INSPECT, which tells whether a limiter wrote the key: DEL deletes it")
		case strings.HasPrefix(err.Error(), "WRONGTYPE"):
			return errors.New("the key holds something that no limiter wrote: it stays")
		default:
			return unsent(err)
		}
	}, func(tx *redis.Tx) error {
		return c.written(ctx, tx, entry, func(p redis.Cmdable) redis.Cmder { return p.Del(ctx, name) })
	})
}

// changePolicy writes, or removes, a field of the hash, if it still is what the operator saw.
func (c *Console) changePolicy(ctx context.Context, by string, q *question) (string, error) {
	if q.Value != "" {
		if _, err := parse(q.Field, q.Value); err != nil {
			return "", err
		}
	}
	hash, versioned := c.o.Hash, false
	const changed = "somebody else has changed the policies at the same moment: look, and try again"
	err := c.watched(ctx, hash, changed, func(tx *redis.Tx) error {
		was, err := tx.HGet(ctx, hash, q.Field).Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return unsent(err)
		case was != q.Was:
			return fmt.Errorf("somebody else has changed it meanwhile: it is %s now", quoted(was))
		case q.Value == "" && errors.Is(err, redis.Nil):
			return errors.New("there is no such policy")
		}
		versioned, err = tx.HExists(ctx, hash, "@version").Result()
		return unsent(err)
	}, func(tx *redis.Tx) error {
		p, t := tx.TxPipeline(), transaction{}
		if q.Value == "" {
			t.act = p.HDel(ctx, hash, q.Field)
		} else {
			t.act = p.HSet(ctx, hash, q.Field, q.Value)
		}
		if versioned { // programs read the whole hash only when it changes
			t.version = p.HIncrBy(ctx, hash, "@version", 1)
		}
		t.entry = c.write(ctx, p, []any{"by", by, q.Field, q.Value})
		_, err := p.Exec(ctx)
		return t.outcome(err)
	})
	if q.Value == "" {
		return "The policy is removed. Programs go by their own limits within a second.", err
	}
	return "The policy is written. Programs go by it within a second.", err
}
