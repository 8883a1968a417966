// Package console is a page that shows operators what a limiter does, and lets those with a token act: who is limited,
// the policies and what they would deny, bans, leases and callers in line. It is an http.Handler over a Redis client.
// What only a gateway knows comes through Options.
package console

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed page
var files embed.FS

// Options configure New.
type Options struct {
	// Name is the program's, in the title of the page.
	Name string
	// Token lets those act who send it. Without one the page only reads, and is off on addresses other than loopback.
	Token string
	// Hosts are names by which browsers reach the page, beside those of loopback and the address itself.
	Hosts []string
	// Hash is the key of the policies; "throttle:policies" when it is empty.
	Hash string
	// Gateway is nil where there is none; those parts of the page are left out then.
	Gateway Gateway
	// Explain answers the box that tells which rule a request meets; nil leaves the box out.
	Explain func(ctx context.Context, question json.RawMessage) (any, error)
	// Logger gets a line for each act, without its key; slog.Default when nil.
	Logger *slog.Logger
}

// shortestToken keeps tokens from being guessed.
const shortestToken = 16

// CheckToken says what is wrong with a token.
func CheckToken(token string) error {
	if token == "" || len(token) >= shortestToken {
		return nil
	}
	return fmt.Errorf("a token has at least %d characters, so that nobody guesses it: openssl rand -hex 16 makes one", shortestToken)
}

// Console serves the page. It is safe for concurrent use.
type Console struct {
	o      Options
	client redis.UniversalClient
	page   http.Handler

	mu    sync.Mutex // one reading of Redis at a time, whatever the number of browsers
	last  *State
	read  time.Time
	times times
	sweep sweep
	seen  map[string]time.Time // since when keys are listed by CL.TOP
	rules policies
	lines []sample // of Options.Gateway

	doors doors
}

// New returns a Console on a client. It panics if client is nil or the token is too short.
func New(client redis.UniversalClient, o Options) *Console {
	if client == nil {
		panic("console: New needs a Redis client, not nil")
	}
	if err := CheckToken(o.Token); err != nil {
		panic("console: " + err.Error())
	}
	if o.Hash == "" {
		o.Hash = "throttle:policies"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	page, _ := fs.Sub(files, "page")
	return &Console{o: o, client: client, page: http.FileServerFS(page), seen: map[string]time.Time{}, sweep: newSweep()}
}

// Path is where a Console is served.
const Path = "/console/"

// Handle has mux serve c at Path, and lead there from /.
func (c *Console) Handle(mux *http.ServeMux) {
	mux.Handle(Path, http.StripPrefix(Path[:len(Path)-1], c))
	mux.Handle("GET /{$}", http.RedirectHandler(Path, http.StatusFound))
}

// ServeHTTP serves the page, and what it asks for.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	protect(w.Header())
	if why := c.refuses(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	ask, isAPI := asks[r.URL.Path]
	switch {
	case !isAPI && types[r.URL.Path] != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead):
		w.Header().Set("Content-Type", types[r.URL.Path])
		c.page.ServeHTTP(w, r)
		return
	case !isAPI:
		http.NotFound(w, r)
		return
	}
	if code, why := c.refusesAsk(r, ask); why != "" {
		answer(w, code, failure{why})
		return
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, longestBody))
	var q question
	if err := body.Decode(&q); err != nil {
		answer(w, http.StatusBadRequest, failure{"the body is not the JSON that is expected here, of at most 64 KB"})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	reply, err := ask.run(c, ctx, &q)
	if err != nil {
		answer(w, http.StatusUnprocessableEntity, failure{said(err)})
		return
	}
	if state, ok := reply.(*State); ok {
		own := *state
		own.MayAct = c.o.Token != "" && c.knows(r)
		reply = &own
	}
	answer(w, http.StatusOK, reply)
}

// types are those of the files of the page. Those that a system knows may be others.
var types = map[string]string{
	"/":           "text/html; charset=utf-8",
	"/style.css":  "text/css; charset=utf-8",
	"/console.js": "text/javascript; charset=utf-8",
	"/acts.js":    "text/javascript; charset=utf-8",
	"/dom.js":     "text/javascript; charset=utf-8",
	"/icon.svg":   "image/svg+xml",
}

// patience is how long Redis has to answer.
const patience = 3 * time.Second

// longestBody bounds what a browser may send: a key may be long.
const longestBody = 64 << 10

// question is the body of whatever the page asks.
type question struct {
	Filter string `json:"filter"` // of rules and policies

	Act   string `json:"act"`
	By    string `json:"by"`
	Key   []byte `json:"key"`
	For   string `json:"for"`
	Field string `json:"field"`
	Value string `json:"value"`
	Was   string `json:"was"`

	Explain json.RawMessage `json:"explain"`
}

// ask is something that the page asks for.
type ask struct {
	acts bool // needs the token wherever it comes from
	run  func(c *Console, ctx context.Context, q *question) (any, error)
}

var asks = map[string]ask{
	"/api/state":   {run: (*Console).state},
	"/api/key":     {run: (*Console).oneKey},
	"/api/check":   {run: (*Console).check},
	"/api/explain": {run: (*Console).explain},
	"/api/act":     {acts: true, run: (*Console).act},
}

type failure struct {
	Error string `json:"error"`
}

func answer(w http.ResponseWriter, code int, reply any) {
	text, err := json.Marshal(reply)
	if err != nil {
		code, text = http.StatusInternalServerError, []byte(`{"error":"the reply cannot be written as JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = w.Write(text)
}

func (c *Console) explain(ctx context.Context, q *question) (any, error) {
	if c.o.Explain == nil {
		return nil, fmt.Errorf("only a gateway explains which rule a request meets")
	}
	if len(q.Explain) == 0 {
		return nil, errors.New("type a request, such as POST /login")
	}
	return c.o.Explain(ctx, q.Explain)
}
