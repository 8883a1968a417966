// Package browser drives a Chromium without a window, which is asked by the DevTools protocol over two pipes.
package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
)

// patience only ends a hang.
const patience = 60 * time.Second

// Browser shows one page.
type Browser struct {
	t       testing.TB
	site    string // what the page may ask for
	in      *os.File
	session string // of its only page

	mu       sync.Mutex
	next     int
	waiting  map[int]chan message
	problems []string // exceptions, messages of the console, and requests for anything but the page
	asked    []string // URLs
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

// Needed skips a test where no browser is installed, and returns the path of one.
func Needed(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	size.Lacks(t, "there is no chromium on PATH")
	return ""
}

// Open shows a page, which may ask for what begins with site alone.
func Open(t testing.TB, url, site string) *Browser {
	t.Helper()
	program := Needed(t)
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
	b := &Browser{t: t, site: site, in: in, waiting: map[int]chan message{}}
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
	b.Ask("Target.createTarget", map[string]any{"url": "about:blank"}, &created)
	var attached struct{ SessionID string }
	b.Ask("Target.attachToTarget", map[string]any{"targetId": created.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.Ask(domain+".enable", nil, nil)
	}
	b.Size(1200, 1000)
	b.Ask("Page.navigate", map[string]any{"url": url}, nil)
	b.Await("the page is there", `document.readyState === "complete" && location.protocol !== "about:"`)
	return b
}

// listen reads what the browser says.
func (b *Browser) listen(out *os.File) {
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

func (b *Browser) hear(m message) {
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
		if json.Unmarshal(m.Params, &sent) != nil {
			return
		}
		if b.asked = append(b.asked, sent.Request.URL); !strings.HasPrefix(sent.Request.URL, b.site) || strings.Contains(sent.Request.URL, "owned") {
			b.problems = append(b.problems, "asks for "+sent.Request.URL)
		}
	}
}

// Ask sends a command and reads its result.
func (b *Browser) Ask(method string, params, result any) {
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

// Read evaluates an expression on the page.
func (b *Browser) Read(expression string, to any) {
	b.t.Helper()
	var result struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails json.RawMessage
	}
	b.Ask("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &result)
	require.Empty(b.t, string(result.ExceptionDetails), expression)
	if to != nil {
		require.NoError(b.t, json.Unmarshal(result.Result.Value, to), "%s: %s", expression, result.Result.Value)
	}
}

// Text evaluates an expression that is a text.
func (b *Browser) Text(expression string) (text string) {
	b.t.Helper()
	b.Read(expression, &text)
	return text
}

// Await waits until an expression is true.
func (b *Browser) Await(what, expression string) {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.Text("String(Boolean("+expression+"))") == "true" }, patience, 20*time.Millisecond, what)
}

// Asked are the URLs that were asked for.
func (b *Browser) Asked() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.asked)
}

// Picture is what the window shows, as a PNG.
func (b *Browser) Picture() []byte {
	b.t.Helper()
	var picture struct{ Data []byte }
	b.Ask("Page.captureScreenshot", map[string]any{"format": "png"}, &picture)
	return picture.Data
}

// Size makes the window as large as that of some device.
func (b *Browser) Size(width, height int) {
	b.t.Helper()
	b.Ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}, nil)
	b.Frame()
}

// Scheme asks for light or dark.
func (b *Browser) Scheme(name string) {
	b.t.Helper()
	b.Ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": name}}}, nil)
	b.Frame()
}

// Frame waits until the page was drawn again.
func (b *Browser) Frame() {
	b.t.Helper()
	b.Read(`new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))`, nil)
}

// Click presses the mouse where the middle of an element is, or at an offset from it.
func (b *Browser) Click(selector string, dx, dy float64) {
	b.t.Helper()
	var at struct{ X, Y float64 }
	b.Read(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 } })()`, selector), &at)
	b.ClickAt(at.X+dx, at.Y+dy)
}

// ClickAt presses the mouse at a place of the window.
func (b *Browser) ClickAt(x, y float64) {
	b.t.Helper()
	for _, kind := range []string{"mousePressed", "mouseReleased"} {
		b.Ask("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1}, nil)
	}
	b.Frame()
}

// Press presses a key.
func (b *Browser) Press(key string, code int) {
	b.t.Helper()
	for _, kind := range []string{"keyDown", "keyUp"} {
		b.Ask("Input.dispatchKeyEvent", map[string]any{"type": kind, "key": key, "code": key, "windowsVirtualKeyCode": code}, nil)
	}
	b.Frame()
}

// Done checks that nothing went wrong, and nobody was asked for anything.
func (b *Browser) Done() {
	b.t.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	assert.Empty(b.t, b.problems)
}

// Contrasts returns the texts on the page that are too pale to be read: WCAG 2 asks for a contrast of 4.5 to 1.
const Contrasts = `(() => {
	const parse = (color) => color.match(/[\d.]+/g).map(Number)
	const over = (top, under) => top.slice(0, 3).map((c, i) => c * (top[3] ?? 1) + under[i] * (1 - (top[3] ?? 1)))
	const luminance = (rgb) => rgb.map((c) => c / 255).map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)).reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0)
	const ground = (element) => {
		if (!element) return [255, 255, 255]
		return over(parse(getComputedStyle(element).backgroundColor), element.parentElement ? ground(element.parentElement) : parse(getComputedStyle(document.body).backgroundColor))
	}
	const pale = []
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
	while (walker.nextNode()) {
		const element = walker.currentNode.parentElement
		if (!walker.currentNode.textContent.trim() || element.closest('script, style, noscript, title') || !element.getClientRects().length) continue
		const style = getComputedStyle(element)
		const ink = over(parse(element.closest('svg') ? style.fill : style.color), ground(element))
		const [a, b] = [luminance(ink), luminance(ground(element))].sort((x, y) => y - x)
		if ((a + 0.05) / (b + 0.05) < 4.5) pale.push(((a + 0.05) / (b + 0.05)).toFixed(2) + ' ' + walker.currentNode.textContent.trim())
	}
	return pale
})()`
