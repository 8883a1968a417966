package replay_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// browser is a Chromium without a window, which is asked by the DevTools protocol over two pipes.
type browser struct {
	t       testing.TB
	in      *os.File
	session string // of its only page

	mu       sync.Mutex
	next     int
	waiting  map[int]chan message
	problems []string // exceptions, messages of the console, and requests for anything but the page
	gone     bool
}

// message is what goes through the pipes: a command, its answer, or an event.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   json.RawMessage `json:"error,omitempty"`
}

// chromium is the path of a browser that knows the protocol.
func chromium(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	size.Lacks(t, "there is no chromium on PATH")
	return ""
}

// open shows a file.
func open(t testing.TB, path string) *browser {
	t.Helper()
	program := chromium(t)
	toRead, in, err := os.Pipe()
	require.NoError(t, err)
	out, toWrite, err := os.Pipe()
	require.NoError(t, err)
	cmd := exec.Command(program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--remote-debugging-pipe", "--user-data-dir="+t.TempDir(), "about:blank")
	cmd.ExtraFiles = []*os.File{toRead, toWrite} // descriptors 3 and 4
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	require.NoError(t, cmd.Start())
	_, _ = toRead.Close(), toWrite.Close()
	b := &browser{t: t, in: in, waiting: map[int]chan message{}}
	ended := make(chan struct{})
	go func() {
		b.listen(out)
		close(ended)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		<-ended
		_ = in.Close()
		_ = out.Close()
	})
	var created struct{ TargetID string }
	b.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &created)
	var attached struct{ SessionID string }
	b.ask("Target.attachToTarget", map[string]any{"targetId": created.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.ask(domain+".enable", nil, nil)
	}
	b.ask("Browser.grantPermissions", map[string]any{"permissions": []string{"clipboardReadWrite", "clipboardSanitizedWrite"}}, nil)
	b.size(1200, 1000)
	b.ask("Page.navigate", map[string]any{"url": "file://" + path}, nil)
	await(t, "the page is there", func() bool {
		return b.text(`String(document.readyState === "complete" && location.protocol === "file:")`) == "true"
	})
	return b
}

// listen reads what the browser says.
func (b *browser) listen(out *os.File) {
	var rest []byte
	buffer := make([]byte, 1<<16)
	for {
		n, err := out.Read(buffer)
		rest = append(rest, buffer[:n]...)
		for {
			text, after, found := bytes.Cut(rest, []byte{0})
			if !found {
				break
			}
			rest = after
			var m message
			if json.Unmarshal(text, &m) == nil {
				b.hear(m)
			}
		}
		if err != nil {
			b.mu.Lock()
			b.gone = true
			for _, answer := range b.waiting {
				close(answer)
			}
			b.waiting = nil
			b.mu.Unlock()
			return
		}
	}
}

func (b *browser) hear(m message) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case m.ID > 0:
		if answer := b.waiting[m.ID]; answer != nil {
			answer <- m
			delete(b.waiting, m.ID)
		}
	case m.Method == "Runtime.exceptionThrown", m.Method == "Runtime.consoleAPICalled", m.Method == "Log.entryAdded":
		b.problems = append(b.problems, m.Method+" "+string(m.Params))
	case m.Method == "Network.requestWillBeSent":
		var sent struct{ Request struct{ URL string } }
		if json.Unmarshal(m.Params, &sent) == nil && !strings.HasPrefix(sent.Request.URL, "file:///") || strings.Contains(sent.Request.URL, "owned") {
			b.problems = append(b.problems, "asks for "+sent.Request.URL)
		}
	}
}

// ask sends a command and reads its result.
func (b *browser) ask(method string, params, result any) {
	b.t.Helper()
	b.mu.Lock()
	require.False(b.t, b.gone, "the browser has ended")
	b.next++
	id, answer := b.next, make(chan message, 1)
	b.waiting[id] = answer
	b.mu.Unlock()
	encoded, err := json.Marshal(params)
	require.NoError(b.t, err)
	if params == nil {
		encoded = []byte("{}")
	}
	m := message{ID: id, Method: method, Params: encoded}
	if !strings.HasPrefix(method, "Target.") && !strings.HasPrefix(method, "Browser.") {
		m.Session = b.session
	}
	text, err := json.Marshal(m)
	require.NoError(b.t, err)
	_, err = b.in.Write(append(text, 0))
	require.NoError(b.t, err)
	select {
	case got, ok := <-answer:
		require.True(b.t, ok, "the browser has ended")
		require.Empty(b.t, string(got.Error), method)
		if result != nil {
			require.NoError(b.t, json.Unmarshal(got.Result, result))
		}
	case <-time.After(patience):
		require.Fail(b.t, "no answer to "+method)
	}
}

// read evaluates an expression on the page.
func (b *browser) read(expression string, to any) {
	b.t.Helper()
	var result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.ask("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &result)
	require.Empty(b.t, string(result.ExceptionDetails), expression)
	if to != nil {
		require.NoError(b.t, json.Unmarshal(result.Result.Value, to), "%s: %s", expression, result.Result.Value)
	}
}

func (b *browser) text(expression string) (text string) {
	b.t.Helper()
	b.read(expression, &text)
	return text
}

// size makes the window as large as that of some device.
func (b *browser) size(width, height int) {
	b.t.Helper()
	b.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.frame()
}

// scheme asks for light or dark.
func (b *browser) scheme(name string) {
	b.t.Helper()
	b.ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}}, nil)
	b.frame()
}

// frame waits until the page was drawn again.
func (b *browser) frame() {
	b.t.Helper()
	b.read(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`, nil)
}

// click presses the mouse where the middle of an element is, or at an offset from it.
func (b *browser) click(selector string, dx, dy float64) {
	b.t.Helper()
	var at struct{ X, Y float64 }
	b.read(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 } })()`, selector), &at)
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.ask("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": at.X + dx, "y": at.Y + dy, "button": "left", "clickCount": 1}, nil)
	}
	b.frame()
}

// press presses a key.
func (b *browser) press(key string, code int) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.ask("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
	}
	b.frame()
}

// done checks that nothing went wrong, and nobody was asked for anything.
func (b *browser) done() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(b.t, b.problems)
}

// pageOf makes the page of a log, and the report that it shows.
func pageOf(t testing.TB, log string, args ...string) (path string, r curveReport) {
	t.Helper()
	dir := t.TempDir()
	path = filepath.Join(dir, "report.html")
	out, err := exec.Command(built(t), append(args, log, "--html", path, "--json", filepath.Join(dir, "report.json"))...).CombinedOutput()
	require.NoError(t, err, string(out))
	text, err := os.ReadFile(filepath.Join(dir, "report.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return path, r
}
