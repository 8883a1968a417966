// Package console_test opens the console of throttle-dev and of throttle-gateway, by requests as its page sends them,
// and in a browser.
package console_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
)

// patience only ends a hang.
const patience = 60 * time.Second

func TestMain(m *testing.M) { kit.RunBuilt(m) }

// token lets the tests act.
const token = "0123456789abcdef"

// page is a console that is served somewhere.
type page struct {
	t     testing.TB
	url   string
	token string
	log   func() string
	done  string // the answer to the last act that was done
}

// show starts throttle-dev with a console on another server.
func show(t testing.TB, redis string, args ...string) *page {
	t.Helper()
	return started(t, append([]string{"--console", "127.0.0.1:0", "--console-token", token, "--redis", redis}, args...)...)
}

// started starts throttle-dev with a console.
func started(t testing.TB, args ...string) *page {
	t.Helper()
	cmd := exec.Command(kit.Built(t, "cmd/throttle-dev"), args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	log := &kit.Log{}
	cmd.Stderr = log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if url, ok := strings.CutPrefix(lines.Text(), "console on "); ok {
			return &page{t: t, url: url, token: token, log: log.String}
		}
	}
	require.Fail(t, "the console does not start", log.String())
	return nil
}

// key is a key as the page shows it.
type key struct {
	Text  string
	Bytes int
	Raw   []byte
}

type inspected struct {
	Kind          string
	BannedUntilMs int64 `json:"banned_until_ms"`
	Held, Waiting int64
	Limits        []struct{ Kind string }
}

type row struct {
	Key   key
	Here  bool
	Count int64
	State *inspected
	// Leases are those of a key that has any.
	Leases struct {
		Held, Waiting int64
		Groups        []struct {
			Name            string
			Waiting, Weight int64
		}
	}
}

type rows struct {
	Why  string
	Rows []row
}

type count struct{ Total, Denied, Shadowed float64 }

type policy struct {
	Field, Value, Error string
	Shadow              bool
	Lately              *count
	Keys                int
	Would               int64
}

// state is what these tests read of the state.
type state struct {
	MayAct bool `json:"may_act"`
	Redis  struct {
		Up                                 bool
		Error, Server, Role, Door, Address string
		Masters                            int
		Keys, Waiting                      int64
	}
	Pace struct {
		Now   count
		Lines []count
	}
	Top, Shadows, Bans, Leases rows
	Looked                     struct{ Why string }
	Policies                   struct {
		Rows        []policy
		Count, More int
	}
	Log []struct{ By, What string }

	Gateway *struct {
		BreakerOpen bool `json:"breaker_open"`
		Loaded      bool
		Error       string
		Rules       []struct {
			Domain, Name string
			count
		}
		Count, More int
	}
}

// ask asks as the page does, and reads the answer if there is one to read it into.
func (p *page) ask(what string, question map[string]any, answer any) (code int, text string) {
	p.t.Helper()
	body, err := json.Marshal(question)
	require.NoError(p.t, err)
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"api/"+what, bytes.NewReader(body))
	require.NoError(p.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Throttle-Console", "1")
	if p.token != "" {
		r.Header.Set("Authorization", "Bearer "+p.token)
	}
	reply, err := http.DefaultClient.Do(r)
	require.NoError(p.t, err)
	defer reply.Body.Close()
	all, err := io.ReadAll(reply.Body)
	require.NoError(p.t, err)
	if answer != nil {
		require.Equal(p.t, 200, reply.StatusCode, string(all))
		require.NoError(p.t, json.Unmarshal(all, answer))
	}
	return reply.StatusCode, string(all)
}

func (p *page) state() (s state) {
	p.t.Helper()
	p.ask("state", map[string]any{}, &s)
	return s
}

// await asks until the state is what a test waits for.
func (p *page) await(what string, is func(s state) bool) (s state) {
	p.t.Helper()
	require.Eventually(p.t, func() bool {
		s = p.state()
		return is(s)
	}, patience, 100*time.Millisecond, what)
	return s
}

// act acts, and returns what went wrong.
func (p *page) act(question map[string]any) string {
	p.t.Helper()
	code, text := p.ask("act", question, nil)
	if code == 200 {
		var done struct{ Text string }
		require.NoError(p.t, json.Unmarshal([]byte(text), &done))
		p.done = done.Text
		return ""
	}
	var failure struct{ Error string }
	require.NoError(p.t, json.Unmarshal([]byte(text), &failure), "%d %s", code, text)
	return failure.Error
}
