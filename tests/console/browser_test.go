package console_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/browser"
	"redis-throttle/tests/server"
)

// window is a console in a browser.
type window struct {
	*browser.Browser
	t testing.TB
	p *page
}

// open shows a console, once it has read Redis.
func open(t testing.TB, p *page) *window {
	t.Helper()
	w := &window{browser.Open(t, p.url, p.url), t, p}
	w.Await("Redis was read", `document.querySelector('#status').dataset.is === 'up'`)
	return w
}

// write types into a field, in place of what is there.
func (w *window) write(selector, text string) {
	w.t.Helper()
	w.Read(fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.select() })()`, selector), nil)
	w.Ask("Input.insertText", map[string]any{"text": text}, nil)
	w.Frame()
}

// signIn types the token.
func (w *window) signIn() {
	w.t.Helper()
	w.Click("#sign", 0, 0)
	w.write("#token", token)
	w.Click("#signing .act", 0, 0)
	w.Await("it may act", `document.body.classList.contains('acts') && !document.querySelector('#signing').open`)
}

// ask clicks on a button of the editor until the page asks whether to: the page may move it just then.
func (w *window) ask(button string) {
	w.t.Helper()
	const asks = `document.querySelector('#confirm').open`
	require.Eventually(w.t, func() bool {
		w.Click(button, 0, 0)
		for began := time.Now(); time.Since(began) < 5*time.Second; w.Frame() {
			if w.Text("String("+asks+")") == "true" {
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "it asks after a click on %s", button)
}

// confirm confirms an act, and waits until it has happened.
func (w *window) confirm() {
	w.t.Helper()
	w.Await("it asks", `document.querySelector('#confirm').open`)
	w.Click("#confirm-do", 0, 0)
	w.Await("it was done", `!document.querySelector('#confirm').open && !document.querySelector('#said').hidden`)
}

// act clicks on the button of a row that has a text, until a dialog is there: the page may make the row anew just then.
func (w *window) act(table, text, act string) {
	w.t.Helper()
	button := fmt.Sprintf(`[...document.querySelectorAll('#%s [data-id]')].find((e) => e.textContent.includes(%q))?.querySelector('[data-act=%s]')`, table, text, act)
	require.Eventually(w.t, func() bool {
		var at *struct{ X, Y float64 }
		w.Read(`(() => { const e = `+button+`; if (!e) return null; e.scrollIntoView({ block: 'center' }); const r = e.getBoundingClientRect(); return { x: r.x + r.width / 2, y: r.y + r.height / 2 } })()`, &at)
		if at == nil {
			return false
		}
		w.ClickAt(at.X, at.Y)
		return w.Text(`String(document.querySelector('dialog[open]') !== null)`) == "true"
	}, patience, 50*time.Millisecond, "the button %s of %s", act, text)
}

// picture writes what the window shows into the folder PICTURES, for those who want to look.
func (w *window) picture(name string) {
	if dir := os.Getenv("PICTURES"); dir != "" {
		require.NoError(w.t, os.WriteFile(filepath.Join(dir, name+".png"), w.Picture(), 0o644))
	}
}

// The page fits a telephone, a tablet and a desk, and is legible in light and dark.
func TestThePageFitsItsReader(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := limited(t)
	s.MustDo("HSET", "throttle:policies", "api", "RATE 60/m RATE 5/m SHADOW", "api/premium:*", "RATE 600/m")
	s.MustDo("CL.LIMIT", "{user}:"+strings.Repeat("long", 60), "RATE", "0/m")
	w := open(t, show(t, "redis://"+s.Addr()))
	w.signIn()
	for _, scheme := range []string{"light", "dark"} {
		w.Scheme(scheme)
		for _, width := range []int{320, 360, 768, 1280} {
			w.Size(width, 900)
			w.picture(fmt.Sprintf("%s-%d", scheme, width))
			var wide int
			w.Read(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wide)
			assert.LessOrEqual(t, wide, 0, "the page is wider than %d", width)
			var pale, outside []string
			w.Read(browser.Contrasts, &pale)
			assert.Empty(t, pale, "%s at %d", scheme, width)
			w.Read(`[...document.querySelectorAll('button, input, textarea')].filter((e) => e.getClientRects().length).filter((e) => { const r = e.getBoundingClientRect(); return r.right > innerWidth || r.left < 0 }).map((e) => e.outerHTML)`, &outside)
			assert.Empty(t, outside, "what is pressed is within %d", width)
		}
	}
	var unnamed []string
	w.Read(`[...document.querySelectorAll('button, input, textarea, svg[role=img], section, dialog')].filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || e.labels?.length)).map((e) => e.outerHTML)`, &unnamed)
	assert.Empty(t, unnamed, "a screen reader has a name for everything")
	w.Done()
}

// A ban takes two clicks, or the keyboard alone, at any width.
func TestAKeyIsBannedByClick(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := limited(t)
	w := open(t, show(t, "redis://"+s.Addr()))
	var shown bool
	w.Read(`[...document.querySelectorAll('.acts')].some((e) => e.getClientRects().length)`, &shown)
	assert.False(t, shown, "nothing to press without the token")
	w.signIn()
	for _, width := range []int{360, 768, 1280} {
		w.Size(width, 900)
		w.act("top", "user:42", "ban")
		w.write("#confirm-for input", "2h")
		w.write("#by", "anna")
		w.picture(fmt.Sprintf("ban-%d", width))
		w.confirm()
		assert.EqualValues(t, 0, s.MustDo("CL.LIMIT", "user:42", "RATE", "5/s", "COMPACT").Elems[1].Int, "banned: no rule decides")
		s.MustDo("CL.BAN", "user:42", "0")
	}
	w.act("top", "user:42", "reset")
	w.Press("Escape", 27)
	w.Await("nothing happens", `!document.querySelector('#confirm').open`)
	assert.EqualValues(t, 1, s.MustDo("EXISTS", "user:42").Int)

	w.act("top", "user:42", "reset")
	w.Await("it asks", `document.querySelector('#confirm').open`)
	w.Read(`document.querySelector('#confirm-do').focus()`, nil)
	w.Ask("Input.dispatchKeyEvent", map[string]any{"type": "keyDown", "key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}, nil)
	w.Await("it was done", `!document.querySelector('#confirm').open`)
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "user:42").Int)
	w.Await("who did what", `document.querySelector('#log').textContent.includes('act ban key user:42 for 2h') && document.querySelector('#log').textContent.includes('by anna')`)
	for _, url := range w.Asked() {
		assert.NotContains(t, url, "user", "no key is in a URL")
	}
	assert.NotContains(t, w.p.log(), "user:42")
	w.Done()
}

// Keys whose shown part is the same are rows of their own, and no reading adds to them.
func TestKeysThatLookTheSameAreTwo(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := server.Start(t, server.ModuleArgs("top", "100"))
	for _, end := range []string{"a", "b"} {
		name := strings.Repeat("k", 200) + end
		s.MustDo("CL.LIMIT", name, "RATE", "0/m")
		s.MustDo("CL.BAN", name, "1h")
		s.MustDo("HSET", "throttle:policies", "api/"+strings.Repeat("k", 5000)+end, "RATE 1/h")
	}
	w := open(t, show(t, "redis://"+s.Addr()))
	const rows = `['#top tbody', '#bans', '#policies tbody'].map((id) => document.querySelector(id).children.length).join()`
	w.Await("all of them", rows+` === '2,2,2'`)
	const asked = `performance.getEntriesByType('resource').filter((e) => e.name.endsWith('api/state')).length`
	var before int
	w.Read(asked, &before)
	w.Await("some readings", `(document.querySelector('#filter').dispatchEvent(new Event('input')), `+asked+fmt.Sprintf(` > %d)`, before+5))
	assert.Equal(t, "2,2,2", w.Text(rows))
	w.Done()
}

// After an act the focus is where it was, on what the row offers now, and the answer is in view wherever the reader is.
func TestTheReaderKeepsTheirPlace(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := limited(t)
	w := open(t, show(t, "redis://"+s.Addr()))
	w.signIn()
	w.Size(360, 500)
	w.Read(`document.querySelector('#said').hidden = true`, nil)
	w.act("top", "user:42", "ban")
	w.confirm()
	w.Await("the row offers the end of the ban, to those who hear as well", `document.activeElement.ariaLabel === 'Lift user:42'`)
	assert.Equal(t, "true", w.Text(`String(document.documentElement.scrollTop > 200)`))
	assert.Equal(t, "true", w.Text(`(() => { const r = document.querySelector('#said').getBoundingClientRect(); return String(r.top >= 0 && r.bottom <= innerHeight && r.height > 0) })()`))
	w.act("bans", "user:42", "lift")
	w.confirm()
	w.Await("the row is gone", `document.querySelector('#bans').children.length === 0 && document.activeElement.id === 'bans-h'`)
	w.Done()
}

// A wrong token stays out, and is not kept.
func TestAWrongTokenIsSaidSo(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	w := open(t, show(t, "redis://"+server.Start(t).Addr()))
	w.Click("#sign", 0, 0)
	w.write("#token", "a wrong one")
	w.Click("#signing .act", 0, 0)
	w.Await("it says so", `document.querySelector('#signing-error').textContent === 'the token is wrong'`)
	assert.Equal(t, "0", w.Text(`String(sessionStorage.length)`))
	w.Done()
}

// Under load, a stricter policy is rehearsed, denies nobody, is enforced, denies, and is removed.
func TestAPolicyIsChangedUnderLoad(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := server.Start(t, server.ModuleArgs("top", "100"))
	g := gate(t, s, "domain: web\ndescriptors:\n  - {key: user, policy: api, limits: [FIXED 1000000/h]}\n")
	stop, stopped := make(chan struct{}), make(chan struct{})
	denied := make(chan int, 1<<20)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			default:
			}
			select {
			case denied <- g.hit("user", "anna"):
			default:
			}
		}
	}()
	t.Cleanup(func() { close(stop); <-stopped })
	last := func() (status int) {
		for range len(denied) + 1 {
			status = <-denied
		}
		return status
	}
	w := open(t, g.page)
	w.signIn()
	w.Click("#new-policy", 0, 0)
	w.write("#field", "api")
	w.write("#now", "FIXED 1000000/h")
	w.write("#value", "FIXED 3")
	w.Await("a mistake is said", `document.querySelector('#editor-error').textContent.includes('count/period') && document.querySelector('#enforce').disabled`)
	w.write("#value", "FIXED 3/h")
	w.Await("what will be", `document.querySelector('#rehearsal').textContent === 'FIXED 1000000/h FIXED 3/h SHADOW'`)
	w.picture("policy")
	w.ask("#rehearse")
	w.confirm()
	assert.Equal(t, "FIXED 1000000/h FIXED 3/h SHADOW", s.MustDo("HGET", "throttle:policies", "api").Text)
	w.Await("the page says what it would deny", `Number(document.querySelector('#policies [data-label^=Denied]')?.textContent.match(/, ([0-9,]+) of/)?.[1].replaceAll(',', '')) > 0`)
	require.Equal(t, 200, last(), "nobody is denied")
	w.act("policies", "rehearsed", "enforce")
	w.Await("the shadow as a limit", `document.querySelector('#value').value === 'FIXED 3/h' && !document.querySelector('#enforce').disabled`)
	w.ask("#enforce")
	w.confirm()
	require.Eventually(t, func() bool { return last() == 429 }, patience, 1)
	w.Await("the page knows it", `!document.querySelector('#policies').textContent.includes('rehearsed')`) // or somebody else would have changed it meanwhile
	w.act("policies", "api", "remove")
	w.confirm()
	require.Eventually(t, func() bool { return last() == 200 }, patience, 1)
	assert.Equal(t, 3, len(w.p.state().Log))
	w.Done()
}

// What clients have sent is shown as text on one line, whatever it is, and can be acted on.
func TestHostileKeysAreText(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := server.Start(t, server.ModuleArgs("top", "100"))
	keys := []string{
		`</script><script>window.owned=1</script>`, `"><img src=owned onerror=window.owned=1>`, `' onmouseover='window.owned=1`, "javascript:window.owned=1", "${window.owned=1}{{.}}",
		"\u202egnp.exe", "a\x00b\r\nc\x1b[31m", "\xff\xfe\x80", "שלום", strings.Repeat("Z͑ͫ̓", 10), strings.Repeat("x", 10_000),
	}
	for _, name := range keys {
		for range 2 {
			s.MustDo("CL.LIMIT", name, "RATE", "1/h")
		}
		s.MustDo("HSET", "throttle:policies", "api/"+name, "RATE 1/h NAME "+name)
	}
	w := open(t, show(t, "redis://"+s.Addr(), "--console-host", "unused.example"))
	w.signIn()
	w.Await("all of them", fmt.Sprintf(`document.querySelectorAll('#top tbody tr').length === %d`, len(keys)))
	for _, width := range []int{360, 1280} {
		w.Size(width, 900)
		var wide int
		w.Read(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &wide)
		assert.LessOrEqual(t, wide, 0, "the page is wider than %d", width)
		w.picture(fmt.Sprintf("hostile-%d", width))
	}
	for _, name := range []string{keys[1], "gnp.exe", "[31m", `\xfe`} {
		w.act("top", name, "ban")
		w.confirm()
	}
	for _, name := range []string{keys[1], keys[5], keys[6], keys[7]} {
		assert.EqualValues(t, 0, s.MustDo("CL.LIMIT", name, "RATE", "1/h", "COMPACT").Elems[1].Int, "%q is banned", name)
	}
	assert.Equal(t, "undefined", w.Text(`typeof window.owned`))
	assert.Equal(t, "1", w.Text(`String(document.images.length)`), "no picture but its own")
	w.Done()
}

func TestTenThousandRulesAreNoTroubleForTheBrowser(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := server.Start(t)
	config := strings.Builder{}
	config.WriteString("domain: web\ndescriptors:\n")
	words := []string{"HSET", "throttle:policies"}
	for i := range 10_000 {
		fmt.Fprintf(&config, "  - {key: rule%d, limits: [FIXED 1/h]}\n", i)
		words = append(words, fmt.Sprintf("api/user:%d", i), "RATE 60/m")
	}
	s.MustDo(words...)
	g := gate(t, s, config.String())
	w := open(t, g.page)
	for i := range 200 {
		g.hit(fmt.Sprintf("rule%d", i), "x")
	}
	w.Await("rules", `document.querySelectorAll('#rules tbody tr').length > 60 && document.querySelector('#policies-why').textContent.includes('more match')`)
	var elements int
	w.Read(`document.querySelectorAll('*').length`, &elements)
	assert.Less(t, elements, 2500)
	w.write("#filter", "user:4242")
	w.Await("what is asked for", `document.querySelectorAll('#policies tbody tr').length === 1`)
	for _, url := range w.Asked() {
		assert.NotContains(t, url, "4242")
	}
	w.Done()
}

// The page says that Redis is away, keeps what it showed, and goes on when Redis is back: nobody reloads it.
func TestThePageOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := limited(t)
	w := open(t, show(t, "redis://"+s.Addr()))
	w.Await("the key", `document.querySelector('#top').textContent.includes('user:42')`)
	w.Read(`window.same = true`, nil)
	s.Kill()
	w.Await("the outage", `document.querySelector('#status').dataset.is === 'down' && document.querySelector('#status').textContent.includes('Redis cannot be read')`)
	w.picture("down")
	assert.Contains(t, w.Text(`document.querySelector('#top').textContent`), "user:42")
	s.Restart()
	w.Await("the end of it", `document.querySelector('#status').dataset.is === 'up' && window.same`)
	w.Done()
}

// A page of another site cannot read or act, whatever it tries.
func TestAPageOfAnotherSiteLearnsNothing(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	s := server.Start(t)
	p := show(t, "redis://"+s.Addr())
	other := filepath.Join(t.TempDir(), "evil.html")
	require.NoError(t, os.WriteFile(other, []byte(`<!doctype html><title>evil</title><iframe src="`+p.url+`"></iframe><script>
		window.got = []
		const tries = [
			{ method: 'POST', headers: { 'Content-Type': 'application/json', 'X-Throttle-Console': '1', Authorization: 'Bearer `+token+`' } },
			{ method: 'POST', headers: { 'Content-Type': 'text/plain' } }, { method: 'POST', mode: 'no-cors' }, { method: 'GET' },
		]
		Promise.all(tries.map(async (o) => {
			try {
				const r = await fetch('`+p.url+`api/act', { ...o, body: o.method === 'GET' ? undefined : JSON.stringify({ act: 'ban', key: 'aw==', for: '1h' }) })
				window.got.push(r.type === 'opaque' ? 'nothing' : r.status + await r.text())
			} catch { window.got.push('nothing') }
		})).then(() => { window.over = true })
	</script>`), 0o644))
	b := browser.Open(t, "file://"+other, "")
	b.Await("all tries", `window.over`)
	var got []string
	b.Read(`window.got`, &got)
	assert.Equal(t, []string{"nothing", "nothing", "nothing", "nothing"}, got)
	assert.EqualValues(t, 0, s.MustDo("EXISTS", "k").Int)
	assert.EqualValues(t, 0, s.MustDo("XLEN", "{throttle:policies}:log").Int)
}
