package policies

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client sends commands: any client that ratelimit.New takes.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// Options configure New and NewReader. The zero Options are a good default.
type Options struct {
	// Hash is the key of the hash; "throttle:policies" when it is empty.
	Hash string
	// Refresh is how old what was read may be before a call has it read again, in the background: 1 s when it is 0. Up
	// to a tenth of it is added or taken off at random, so that processes do not read together.
	Refresh time.Duration
	// Read reads the fields from elsewhere, such as from a file. The client is not asked then. A read that takes longer
	// than 5 s, or than the context of Reader.Read lasts, is given up, also if it does not return.
	Read func(ctx context.Context) (map[string]string, error)
	// Logger gets a line for each policy that changes, and for what cannot be read, once; slog.Default when nil.
	Logger *slog.Logger
}

const (
	// firstWait is how long the first call waits for the first read at most.
	firstWait = 200 * time.Millisecond
	// readTimeout bounds a read in the background, beside the timeouts of the client.
	readTimeout = 5 * time.Second
	// wholeAfter is how long a version spares reading the whole hash.
	wholeAfter = time.Minute
	// mostLeft is how many calls of Options.Read may be under way, of which all but one have taken too long.
	mostLeft = 10
	// mostLines bounds how many lines of a kind one read says.
	mostLines = 20

	versionField = "@version"
	prefix       = "redis-throttle: "
)

// Reader keeps the rules of a hash. It reads the hash when they are first asked for, and again when they are asked for
// and Refresh is over. Without calls it reads nothing, unless Watch does. It is safe for concurrent use.
type Reader struct {
	o      Options
	client Client
	epoch  time.Time // what the clock is counted from, so that nobody sets it

	rules   atomic.Pointer[Rules] // nil until the first read has ended
	due     atomic.Int64          // when the next read may begin, in ns since epoch
	reading atomic.Bool
	left    atomic.Int32 // calls of Options.Read that have not returned

	once  sync.Once
	first chan struct{} // closed when the first read has ended, or took too long

	mu   sync.Mutex // one read at a time
	last reading
}

// reading is what the last reads brought.
type reading struct {
	good    bool              // the hash was read once
	failing bool              // the last read failed, which was said
	hash    map[string]string // as it was read last
	counts  map[string]*Rule  // by field
	whole   time.Time         // when hash was read
}

// NewReader returns a Reader for programs that apply rules by themselves; New has one. It panics if it has nothing to
// read by.
func NewReader(client Client, o Options) *Reader {
	if o.Read == nil && (client == nil || reflect.ValueOf(client).Kind() == reflect.Pointer && reflect.ValueOf(client).IsNil()) {
		panic("policies: a Redis client is needed, not nil, or Options.Read")
	}
	if _, ok := client.(redis.Pipeliner); ok && o.Read == nil {
		panic("policies: a pipeline has no answer when a command returns")
	}
	if o.Hash == "" {
		o.Hash = "throttle:policies"
	}
	if o.Refresh <= 0 {
		o.Refresh = time.Second
	}
	return &Reader{o: o, client: client, epoch: time.Now(), first: make(chan struct{}), last: reading{counts: map[string]*Rule{}}}
}

// Rules are those that count now. Where nothing has been read yet it waits for that, as long as ctx lasts and 200 ms at
// most; a read that takes longer goes on in the background, and there are no rules until it ends. It never waits for a
// later read.
func (r *Reader) Rules(ctx context.Context) *Rules {
	rules := r.rules.Load()
	if rules == nil {
		return r.begin(ctx)
	}
	if int64(time.Since(r.epoch)) >= r.due.Load() && r.reading.CompareAndSwap(false, true) {
		go r.refresh(ctx)
	}
	return rules
}

var noRules = &Rules{}

// begin waits for the first read.
func (r *Reader) begin(ctx context.Context) *Rules {
	r.once.Do(func() {
		r.reading.Store(true)
		over := sync.OnceFunc(func() { close(r.first) })
		time.AfterFunc(firstWait, over)
		go func() {
			r.refresh(ctx)
			over()
		}()
	})
	select {
	case <-r.first:
	case <-ctx.Done():
	}
	if rules := r.rules.Load(); rules != nil {
		return rules
	}
	return noRules
}

// refresh reads the hash in the background.
func (r *Reader) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	_ = r.Read(ctx) // it says so
	r.reading.Store(false)
}

// Watch reads the hash whenever Refresh is over, also while no calls come, until ctx ends. It begins when rules are
// first asked for: what nobody needs is not read. The first call after an idle time then goes by what the hash says,
// not by what it said before.
func (r *Reader) Watch(ctx context.Context) {
	select {
	case <-r.first:
	case <-ctx.Done():
	}
	for {
		wait := time.Duration(r.due.Load()) - time.Since(r.epoch)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(wait, r.o.Refresh/20)): // another read may be under way
		}
		if int64(time.Since(r.epoch)) >= r.due.Load() && r.reading.CompareAndSwap(false, true) {
			r.refresh(ctx)
		}
	}
}

// Read reads the hash now, such as before a program starts to serve.
func (r *Reader) Read(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	hash, err := r.fetch(ctx)
	if err != nil {
		r.failed(err)
	} else {
		if r.last.failing {
			r.logger().Info(prefix + r.o.Hash + " is read again")
			r.last.failing = false
		}
		if hash != nil {
			r.take(hash)
		}
	}
	jitter := time.Duration((rand.Float64() - 0.5) / 5 * float64(r.o.Refresh))
	r.due.Store(int64(time.Since(r.epoch) + r.o.Refresh + jitter))
	if r.rules.Load() == nil {
		r.rules.Store(noRules)
	}
	return err
}

func (r *Reader) logger() *slog.Logger {
	if r.o.Logger == nil {
		return slog.Default()
	}
	return r.o.Logger
}

// failed says once that the hash could not be read.
func (r *Reader) failed(err error) {
	if r.last.failing {
		return
	}
	r.last.failing = true
	what := "the defaults of the code count"
	if r.last.good {
		what = "what was read last counts"
	}
	attrs := []any{"error", err}
	if redis.HasErrorPrefix(err, "NOPERM") {
		attrs = append(attrs, "missing", "+hgetall +hget %R~"+r.o.Hash)
	}
	r.logger().Error(prefix+r.o.Hash+" could not be read, "+what, attrs...)
}

// fetch is the hash, or nil if its version says that it is as it was.
func (r *Reader) fetch(ctx context.Context) (map[string]string, error) {
	version, versioned := r.last.hash[versionField]
	versioned = versioned && time.Since(r.last.whole) < wholeAfter
	if r.o.Read != nil {
		hash, err := r.readElsewhere(ctx)
		if err != nil {
			return nil, err
		}
		if now, ok := hash[versionField]; versioned && ok && now == version {
			return nil, nil
		}
		if hash == nil {
			hash = map[string]string{}
		}
		return hash, nil
	}
	if versioned {
		now, err := r.ask(ctx, "HGET", r.o.Hash, versionField)
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			return nil, err
		case now == version:
			return nil, nil
		}
	}
	reply, err := r.ask(ctx, "HGETALL", r.o.Hash)
	if err != nil {
		return nil, err
	}
	return hashOf(reply)
}

// readElsewhere is Options.Read for as long as ctx lasts. What does not return then is left behind.
func (r *Reader) readElsewhere(ctx context.Context) (map[string]string, error) {
	if r.left.Load() >= mostLeft {
		return nil, fmt.Errorf("policies: Options.Read has not returned %d times", mostLeft)
	}
	type brought struct {
		hash map[string]string
		err  error
	}
	done := make(chan brought, 1)
	r.left.Add(1)
	go func() {
		defer r.left.Add(-1)
		hash, err := r.o.Read(ctx)
		done <- brought{hash, err}
	}()
	select {
	case b := <-done:
		return b.hash, b.err
	case <-ctx.Done():
		return nil, fmt.Errorf("policies: Options.Read has not returned: %w", ctx.Err())
	}
}

func (r *Reader) ask(ctx context.Context, words ...any) (any, error) {
	cmd := redis.NewCmd(ctx, words...)
	cmd.SetFirstKeyPos(1)
	_ = r.client.Process(ctx, cmd) // cmd holds the error as well
	return cmd.Result()
}

// hashOf reads the reply of HGETALL in either protocol.
func hashOf(reply any) (map[string]string, error) {
	hash := map[string]string{}
	add := func(field, value any) (ok bool) {
		f, isText := field.(string)
		v, are := value.(string)
		hash[f] = v
		return isText && are
	}
	ok := true
	switch reply := reply.(type) {
	case map[any]any:
		for field, value := range reply {
			ok = ok && add(field, value)
		}
	case map[string]any:
		for field, value := range reply {
			ok = ok && add(field, value)
		}
	case []any:
		ok = len(reply)%2 == 0
		for i := 0; ok && i < len(reply); i += 2 {
			ok = add(reply[i], reply[i+1])
		}
	default:
		ok = false
	}
	if !ok {
		return nil, fmt.Errorf("policies: the reply to HGETALL is %T, not a hash of texts", reply)
	}
	return hash, nil
}

// take makes rules of a hash. A value that cannot be read leaves its field what it was.
func (r *Reader) take(hash map[string]string) {
	last := r.last
	r.last = reading{good: true, hash: hash, counts: last.counts, whole: time.Now()}
	if last.good && equal(last.hash, hash) {
		return
	}
	var (
		counts     = make(map[string]*Rule, len(hash))
		rules      = &Rules{policies: map[string]*policy{}}
		unreadable []string
		errs       = map[string]error{}
	)
	for field, text := range hash {
		if isMeta(field) {
			continue
		}
		before := last.counts[field]
		said, known := last.hash[field]
		of, err := ParseField(field)
		if err != nil {
			if !known {
				unreadable, errs[field] = append(unreadable, field), nil
			}
			continue
		}
		rule := before
		if before == nil || before.Text != text {
			value, err := ParseValue(of.Name, text)
			if err == nil {
				rule = newRule(of.Name, field, value)
			} else if !known || said != text {
				unreadable, errs[field] = append(unreadable, field), err
			}
		}
		if rule != nil {
			counts[field] = rule
			rules.add(of, rule)
		}
	}
	r.last.counts = counts
	r.rules.Store(rules)
	r.tellUnreadable(unreadable, errs, hash)
	if last.good {
		r.tellChanges(last.counts, counts)
	} else if n := len(counts); n > 0 {
		policies := "policies"
		if n == 1 {
			policies = "policy"
		}
		r.logger().Info(fmt.Sprintf("%s%s: %d %s", prefix, r.o.Hash, n, policies))
	}
}

func equal(a, b map[string]string) bool {
	if len(a) != len(b) {
		return false
	}
	for field, text := range a {
		if other, ok := b[field]; !ok || other != text {
			return false
		}
	}
	return true
}

// longestSaid is how many bytes of a field, a value or an error stand in a line of the log: a value may be of any
// length.
const longestSaid = 300

// cut is the beginning of a long text.
func cut(text string) string {
	if len(text) <= longestSaid {
		return text
	}
	return text[:longestSaid] + "…"
}

func quoted(text string) string { return strconv.Quote(cut(text)) }

// shown is a field as part of one line: a key may hold whatever bytes.
func shown(field string) string {
	quoted := quoted(field)
	return quoted[1 : len(quoted)-1]
}

func (r *Reader) tellUnreadable(fields []string, errs map[string]error, hash map[string]string) {
	slices.Sort(fields)
	for i, field := range fields {
		if i == mostLines {
			r.logger().Error(fmt.Sprintf("%s%s: %d more fields cannot be read", prefix, r.o.Hash, len(fields)-i))
			return
		}
		if errs[field] == nil {
			r.logger().Error(prefix + quoted(field) + " is not the name of a policy")
			continue
		}
		still := "it does not count"
		if rule := r.last.counts[field]; rule != nil {
			still = quoted(rule.Text) + " still counts"
		}
		r.logger().Error(fmt.Sprintf("%spolicy %s: %s cannot be read, %s", prefix, shown(field), quoted(hash[field]), still), "error", cut(errs[field].Error()))
	}
}

func (r *Reader) tellChanges(before, now map[string]*Rule) {
	lines := map[string]string{}
	for field, rule := range now {
		switch was := before[field]; {
		case was == nil:
			lines[field] = quoted(rule.Text) + " now, it was not set"
		case was.Text != rule.Text:
			lines[field] = quoted(rule.Text) + " now, it was " + quoted(was.Text)
		}
	}
	for field, was := range before {
		if now[field] == nil {
			lines[field] = "not set any more, it was " + quoted(was.Text)
		}
	}
	fields := make([]string, 0, len(lines))
	for field := range lines {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	for i, field := range fields {
		if i == mostLines {
			r.logger().Info(fmt.Sprintf("%s%s: %d more policies have changed", prefix, r.o.Hash, len(fields)-i))
			return
		}
		r.logger().Info(prefix + "policy " + shown(field) + " is " + lines[field])
	}
}
