package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redis/go-redis/v9"
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
	if len(by) > longestBy || !utf8.ValidString(by) {
		return nil, fmt.Errorf("your name has at most %d bytes", longestBy)
	}
	var text string
	var err error
	if q.Act == "policy" {
		text, err = c.changePolicy(ctx, by, q)
	} else {
		text, err = c.actOnKey(ctx, by, q)
	}
	if err != nil {
		return nil, err
	}
	c.o.Logger.Info("console: an operator has acted", "act", q.Act)
	c.mu.Lock()
	c.read = time.Time{} // the next question sees it
	c.mu.Unlock()
	return Done{text}, nil
}

// actOnKey bans, lifts and resets.
func (c *Console) actOnKey(ctx context.Context, by string, q *question) (string, error) {
	if len(q.Key) == 0 {
		return "", errors.New("type a key")
	}
	name := string(q.Key)
	entry := []any{"by", by, "act", q.Act, "key", name}
	door, err := c.door(ctx)
	if err != nil {
		return "", err
	}
	var run func(p redis.Cmdable) *redis.Cmd
	var text string
	switch q.Act {
	case "ban":
		if q.For == "" || strings.Trim(q.For, "0.") == "" {
			return "", errors.New("a ban takes a length of time with a unit, such as 15m, 1h or 1d")
		}
		entry, text = append(entry, "for", q.For), "The key is banned."
		run = func(p redis.Cmdable) *redis.Cmd { return door.command(ctx, p, true, "CL.BAN", name, q.For) }
	case "lift":
		text = "The ban is lifted."
		run = func(p redis.Cmdable) *redis.Cmd { return door.command(ctx, p, true, "CL.BAN", name, "0") }
	case "reset":
		text = "The key is reset: its limits are full, and bans and leases on it have ended."
		run = func(p redis.Cmdable) *redis.Cmd {
			cmd := redis.NewCmd(ctx, "DEL", name)
			if pipe, ok := p.(redis.Pipeliner); ok {
				_ = pipe.Process(ctx, cmd)
			}
			return cmd
		}
	default:
		return "", errors.New("act is ban, lift, reset or policy")
	}
	if err := c.written(ctx, entry, run); err != nil {
		return "", err
	}
	if c.o.Gateway != nil {
		c.o.Gateway.Forget(name)
	}
	return text, nil
}

// written runs an act and writes its entry in the same transaction. In a cluster the key and the log are on two servers: the entry is written first
// there, so that nothing happens without one.
func (c *Console) written(ctx context.Context, entry []any, run func(redis.Cmdable) *redis.Cmd) (err error) {
	if _, ok := c.client.(*redis.ClusterClient); ok {
		if err := c.write(ctx, c.client, entry).Err(); err != nil {
			return err
		}
		p := c.client.Pipeline()
		did := run(p)
		_, _ = p.Exec(ctx)
		err = did.Err()
	} else {
		p := c.client.TxPipeline()
		did, wrote := run(p), c.write(ctx, p, entry)
		if _, failed := p.Exec(ctx); failed != nil && did.Err() == nil && wrote.Err() == nil {
			return failed
		}
		if err = did.Err(); err == nil {
			if wrote.Err() != nil {
				return fmt.Errorf("it was done, and could not be written down: %w", wrote.Err())
			}
			return nil
		}
		if wrote.Err() != nil {
			return err // neither happened
		}
	}
	if err != nil { // the entry is there, and the act did not happen
		_ = c.write(ctx, c.client, append(entry, "failed", said(err))).Err()
	}
	return err
}

// write adds an entry to the log.
func (c *Console) write(ctx context.Context, p redis.Cmdable, entry []any) *redis.StringCmd {
	return p.XAdd(ctx, &redis.XAddArgs{Stream: c.logKey(), MaxLen: longestLog, Approx: true, Values: entry})
}

// changePolicy writes, or removes, a field of the hash, if it still is what the operator saw.
func (c *Console) changePolicy(ctx context.Context, by string, q *question) (string, error) {
	if q.Value != "" {
		if _, err := parse(q.Field, q.Value); err != nil {
			return "", err
		}
	}
	hash := c.o.Hash
	change := func(tx *redis.Tx) error {
		was, err := tx.HGet(ctx, hash, q.Field).Result()
		switch {
		case err != nil && !errors.Is(err, redis.Nil):
			return err
		case was != q.Was:
			return fmt.Errorf("somebody else has changed it meanwhile: it is %s now", quoted(was))
		case q.Value == "" && errors.Is(err, redis.Nil):
			return errors.New("there is no such policy")
		}
		versioned, err := tx.HExists(ctx, hash, "@version").Result()
		if err != nil {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			if q.Value == "" {
				p.HDel(ctx, hash, q.Field)
			} else {
				p.HSet(ctx, hash, q.Field, q.Value)
			}
			if versioned { // programs read the whole hash only when it changes
				p.HIncrBy(ctx, hash, "@version", 1)
			}
			c.write(ctx, p, []any{"by", by, q.Field, q.Value})
			return nil
		})
		return err
	}
	switch err := c.client.Watch(ctx, change, hash); {
	case errors.Is(err, redis.TxFailedErr):
		return "", errors.New("somebody else has changed the policies at the same moment: look, and try again")
	case err != nil:
		return "", err
	case q.Value == "":
		return "The policy is removed. Programs go by their own limits within a second.", nil
	}
	return "The policy is written. Programs go by it within a second.", nil
}
