package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"github.com/redis/go-redis/v9/logging"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/gateway/internal/explain"
	"redis-throttle/gateway/internal/settings"
	"redis-throttle/ratelimit/policies"
)

const explainUsage = `usage: throttle-gateway explain [FILE ...] 'METHOD TARGET' [--from ADDRESS] [-H 'NAME: VALUE'] ...
       throttle-gateway explain [FILE ...] --descriptors JSON

Says which route, rule, limits and key a request has, and why no others. It charges nothing.

METHOD TARGET    the request, such as 'POST /login?x=1'. A URL names a host, too
--from ADDRESS   where it comes from; 127.0.0.1 without it. X-Forwarded-For counts if that is one of trusted_proxies
-H 'NAME: VALUE' a header field, as often as you like
--domain NAME    the domain, if several have routes
--descriptors X  instead of a request of HTTP: a RateLimitRequest as JSON, the name of a file with one, or - for the standard input
--redis URL      ask this Redis what is left, as REDIS_URL has it. Other variables of the gateway count, too
--json           for programs

Without a FILE those count that the environment names.`

// request is what the arguments of explain say.
type request struct {
	files []string
	explain.Request
	redis  string
	isJSON bool
}

// list is an option that may be there several times.
type list []string

func (l *list) String() string { return "" }

func (l *list) Set(text string) error {
	*l = append(*l, text)
	return nil
}

// readExplain reads the arguments of explain. Options may stand anywhere.
func readExplain(args []string, in io.Reader) (q request, err error) {
	var from, domain, descriptors string
	var headers list
	options := flag.NewFlagSet("explain", flag.ContinueOnError)
	options.SetOutput(io.Discard)
	options.StringVar(&from, "from", "", "")
	options.Var(&headers, "H", "")
	options.StringVar(&domain, "domain", "", "")
	options.StringVar(&descriptors, "descriptors", "", "")
	options.StringVar(&q.redis, "redis", "", "")
	options.BoolVar(&q.isJSON, "json", false, "")
	for {
		if err := options.Parse(args); err != nil {
			return q, err
		}
		if options.NArg() == 0 {
			break
		}
		q.files, args = append(q.files, options.Arg(0)), options.Args()[1:]
	}
	if descriptors != "" {
		if from != "" || len(headers) > 0 {
			return q, errors.New("--from and -H are for a request of HTTP, and --descriptors is another one")
		}
		q.Domain = domain
		q.RateLimit, err = readDescriptors(descriptors, in)
		return q, err
	}
	if len(q.files) == 0 {
		return q, errors.New("the request is missing, such as 'POST /login'")
	}
	last := len(q.files) - 1
	text := q.files[last]
	if _, err := os.Stat(text); err == nil && (last == 0 || text != "/") {
		return q, fmt.Errorf("the last argument is the request, such as 'POST /login', and %s is a file", text)
	}
	q.files = q.files[:last]
	q.Request, err = explain.Typed(text, from, headers)
	q.Domain = domain
	return q, err
}

// readDescriptors reads a RateLimitRequest from an argument, a file or the standard input.
func readDescriptors(from string, in io.Reader) ([]byte, error) {
	switch {
	case from == "-":
		return io.ReadAll(in)
	case strings.HasPrefix(strings.TrimSpace(from), "{"):
		return []byte(from), nil
	}
	return os.ReadFile(from)
}

// explainTo is the command explain.
func explainTo(args []string, in io.Reader, out io.Writer) error {
	q, err := readExplain(args, in)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(out, explainUsage)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w\n%s", err, explainUsage)
	}
	logging.Disable()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the answer says what goes wrong
	s, err := settings.Read()
	if err != nil {
		return err
	}
	switch {
	case len(q.files) > 0:
	case s.ByXds():
		return errors.New("with CONFIG_TYPE=GRPC_XDS_SOTW the configuration comes from the management server: ask a running gateway at its debug address, or name a FILE")
	default:
		q.files = []string{s.Folder()}
	}
	c, err := config.ReadOnce(q.files...).Parse(s.MergeDomains)
	if err != nil {
		return err
	}
	e := explainer(s, func() *config.Config { return c })
	var unread unreadable
	if os.Getenv("REDIS_URL") != "" || q.redis != "" {
		if q.redis != "" {
			s.Redis.URL = q.redis
		}
		client, err := s.Redis.Client(&settings.Certificates{})
		if err != nil {
			return err
		}
		defer client.Close()
		chain := decide.NewChain(client, s)
		e.Redis, e.Cluster = chain.Server(), chain.Cluster()
		if hash := s.Redis.Policies; hash != "" {
			reader := policies.NewReader(client, policies.Options{Hash: hash, Logger: slog.New(&unread)})
			e.Policies = policiesOf(reader)
		}
	}
	answer, err := e.Explain(context.Background(), q.Request)
	if err != nil {
		return err
	}
	answer.Notes = append(answer.Notes, unread.notes...)
	if !q.isJSON {
		fmt.Fprint(out, answer.Text())
		return nil
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(answer)
}

// unreadable makes notes of what a reader of policies says of fields that it cannot read. A gateway that runs says so
// in its log.
type unreadable struct {
	slog.Handler
	notes []string
}

// Enabled is asked by slog.
func (u *unreadable) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle is what slog does with a line of the log.
func (u *unreadable) Handle(_ context.Context, line slog.Record) error {
	text := strings.TrimPrefix(line.Message, "redis-throttle: ")
	if !strings.Contains(text, " cannot be read, ") {
		return nil // the answer has the others
	}
	line.Attrs(func(a slog.Attr) bool {
		text += ": " + a.Value.String()
		return true
	})
	u.notes = append(u.notes, text+" (a gateway that runs keeps what it read before)")
	return nil
}

// policiesOf reads the hash before it says what counts. One who asks and leaves is no outage.
func policiesOf(reader *policies.Reader) func(context.Context) (*policies.Rules, error) {
	return func(ctx context.Context) (*policies.Rules, error) {
		ctx = context.WithoutCancel(ctx)
		err := reader.Read(ctx)
		return reader.Rules(ctx), err
	}
}

// explainer explains by a configuration, with the modes of the gateway.
func explainer(s *settings.Settings, config func() *config.Config) *explain.Explainer {
	return &explain.Explainer{Config: config, Prefix: s.CacheKeyPrefix, Shadow: s.ShadowMode, Quota: s.QuotaMode, MaxDescriptors: s.MaxDescriptors,
		HasToken: s.ExplainToken != ""}
}
