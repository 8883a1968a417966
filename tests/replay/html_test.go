package replay_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/internal/size"
	"redis-throttle/ratelimit"
	"redis-throttle/tests/browser"
	"redis-throttle/tests/server"
)

// curveReport is what these tests read of a report.
type curveReport struct {
	Clients, Requests int64
	Curve             struct {
		Shares []string
		Points []struct {
			Rate, Unit              string
			Count                   int64
			Bursts, Clients, Denied []int64
		}
	}
	Suggestions []struct {
		Share  string
		Point  int
		Result struct{ Words string }
	}
}

// commas writes a number as the page does.
func commas(n int64) string {
	text := strconv.FormatInt(n, 10)
	for at := len(text) - 3; at > 0; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

// bursts are those that the page shows for the rate that is chosen.
func (b *page) bursts() (all []string) {
	b.t.Helper()
	b.Read(`[...document.querySelectorAll('.bursts tbody tr')].map((row) => row.querySelectorAll('td')[0].textContent)`, &all)
	return all
}

// A slider, moved by the keyboard, shows the bursts of each rate. They fall.
func TestTheSliderShowsTheBurstsOfEachRate(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	path, r := pageOf(t, made(t), "--set", "mild=RATE 10/s BURST 20 WINDOW 1000/h")
	b := open(t, path)
	b.Read(`document.getElementById('rate').focus()`, nil)
	b.Press("Home", 36)
	for i, p := range r.Curve.Points {
		require.Equal(t, p.Rate, b.Text(`document.getElementById('rate-text').value`))
		require.Equal(t, p.Rate, b.Text(`document.getElementById('rate').getAttribute('aria-valuetext')`))
		var want []string
		for s, burst := range p.Bursts {
			want = append(want, commas(burst))
			if i > 0 {
				require.LessOrEqual(t, burst, r.Curve.Points[i-1].Bursts[s])
			}
		}
		require.Equal(t, want, b.bursts(), p.Rate)
		b.Press("ArrowRight", 39)
	}
	b.Click("#row-0 input", 0, 0)
	last := r.Curve.Points[len(r.Curve.Points)-1]
	assert.Equal(t, fmt.Sprintf("CL.LIMIT \"{remote_addr/64}\" RATE %s BURST %d SHADOW", last.Rate, last.Bursts[0]), b.Text(`document.getElementById('snippet').textContent`))
	assert.Contains(t, b.Text(`document.getElementById('said').textContent`), fmt.Sprintf("RATE %s BURST %d would have denied %s requests", last.Rate, last.Bursts[0], commas(last.Denied[0])))
	b.Done()
}

// A click into the chart chooses the nearest point, and a suggestion chooses its own.
func TestAClickChoosesAPoint(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	path, r := pageOf(t, made(t))
	b := open(t, path)
	for i, s := range r.Suggestions {
		b.Click(fmt.Sprintf(".suggested li:nth-child(%d) button", i+1), 0, 0)
		assert.Equal(t, "CL.LIMIT \"{remote_addr/64}\" "+s.Result.Words+" SHADOW", b.Text(`document.getElementById('snippet').textContent`))
		assert.Equal(t, "true", b.Text(fmt.Sprintf(`document.querySelector(".suggested li:nth-child(%d) button").getAttribute('aria-pressed')`, i+1)))
	}
	for _, want := range []int{0, len(r.Curve.Points) / 2, len(r.Curve.Points) - 1} {
		for share, burst := range r.Curve.Points[want].Bursts {
			var at struct{ X, Y, W, H float64 }
			b.Read(fmt.Sprintf(`(() => { const box = chart.getBoundingClientRect(); return { x: scale.x(%d), y: scale.y(%d), w: box.width, h: box.height } })()`, want, burst), &at)
			b.Click("#chart", at.X-at.W/2, at.Y-at.H/2)
			assert.Equal(t, r.Curve.Points[want].Rate, b.Text(`document.getElementById('rate-text').value`))
			chosen, err := strconv.Atoi(b.Text(`document.querySelector('input[name=share]:checked').value`))
			require.NoError(t, err)
			assert.Equal(t, burst, r.Curve.Points[want].Bursts[chosen], "share %d, or one with the same burst", share)
		}
	}
	b.Done()
}

// What is copied is what each place takes.
func TestWhatIsCopiedWorks(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	path, r := pageOf(t, made(t))
	b := open(t, path)
	s := r.Suggestions[0]
	b.Click(".suggested li:nth-child(1) button", 0, 0)
	copied := map[string]string{}
	var names []string
	b.Read(`[...document.querySelectorAll('.tabs button')].map((tab) => tab.textContent)`, &names)
	for i, name := range names {
		b.Click(fmt.Sprintf("#tab-%d", i), 0, 0)
		b.Click("#copy", 0, 0)
		await(t, "it is copied", func() bool { return b.Text(`document.getElementById('copied').textContent`) == "Copied." })
		copied[name] = b.Text(`navigator.clipboard.readText()`)
		assert.Equal(t, b.Text(`document.getElementById('snippet').textContent`), copied[name])
	}
	b.Done()
	assert.Equal(t, "CL.LIMIT \"{remote_addr/64}\" "+s.Result.Words+" SHADOW", copied["CL.LIMIT"])
	limits, err := ratelimit.ParseLimits(s.Result.Words + " SHADOW")
	require.NoError(t, err)
	checkGo(t, copied["Go"], limits)
	checkGateway(t, copied["Gateway"], limits)
	p := r.Curve.Points[s.Point]
	burst := strings.Fields(s.Result.Words)[3]
	assert.Equal(t, fmt.Sprintf("app.use(rateLimit({ limiter, limits: rate(%d, '1%s', { burst: %s, shadow: true }) }))", p.Count, p.Unit, burst), copied["Node.js"])
	assert.Equal(t, "# application.yml of Spring Boot\nredis-throttle:\n  routes:\n    - paths: /**\n      limits: "+s.Result.Words+" SHADOW", copied["Java"])
	assert.Equal(t, fmt.Sprintf("app.add_middleware(redis_throttle.asgi.RateLimit, limiter=limiter,\n                   limits=rate(%d, \"1%s\", burst=%s, shadow=True))", p.Count, p.Unit, burst), copied["Python"])
}

// checkGo compiles and runs a snippet.
func checkGo(t testing.TB, snippet string, want ratelimit.Limits) {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "main.go")
	_, limits, _ := strings.Cut(snippet, "Limits: ")
	limits, _, _ = strings.Cut(limits, ",\n")
	require.NoError(t, os.WriteFile(file, []byte(`package main

import (
	"fmt"
	"net/http"
	"time"

	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
	"redis-throttle/ratelimit/keyby"
)

var _ = time.Second

func wrapped(limiter ratelimit.Decider, handler http.Handler) http.Handler {
	`+snippet+`
	return handler
}

func main() { _ = wrapped; fmt.Print(`+limits+`) }
`), 0o644))
	cmd := exec.Command("go", "run", file)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Equal(t, want.String(), string(out))
}

// checkGateway has the gateway check a file.
func checkGateway(t testing.TB, snippet string, want ratelimit.Limits) {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "limits.yaml")
	require.NoError(t, os.WriteFile(file, []byte(snippet), 0o644))
	cmd := exec.Command("go", "run", "./gateway/throttle-gateway", "check", file)
	cmd.Dir = root
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, string(out))
	assert.Contains(t, string(out), "ok: 1 domains")
	_, words, _ := strings.Cut(snippet, "limits: [")
	limits, err := ratelimit.ParseLimits(strings.TrimSuffix(words, "]"))
	require.NoError(t, err)
	assert.Equal(t, want, limits)
}

// The page is legible in light and dark, and as wide as the window, down to that of a small phone.
func TestThePageFitsItsReader(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	path, _ := pageOf(t, made(t), "--limit", "RATE 10/s BURST 20", "--limit", "FIXED 300/h")
	b := open(t, path)
	grounds := map[string]string{}
	for _, scheme := range []string{"light", "dark"} {
		b.Scheme(scheme)
		var pale []string
		b.Read(browser.Contrasts, &pale)
		assert.Empty(t, pale, scheme)
		grounds[scheme] = b.Text(`getComputedStyle(document.body).backgroundColor`)
	}
	assert.NotEqual(t, grounds["light"], grounds["dark"])
	for _, width := range []int{1600, 1200, 800, 414, 360, 320} {
		b.Size(width, 900)
		await(t, "the chart is as wide as its place", func() bool {
			return b.Text(`String(Math.abs(document.querySelector('#chart svg').viewBox.baseVal.width - Math.max(chart.clientWidth, 260)) < 1)`) == "true"
		})
		var scrolls int
		b.Read(`document.documentElement.scrollWidth - document.documentElement.clientWidth`, &scrolls)
		assert.LessOrEqual(t, scrolls, 0, "the page is wider than %d", width)
		var cueless []string
		b.Read(`[...document.querySelectorAll('.scroll')].filter((e) => (e.scrollWidth > e.clientWidth + 1) !== (getComputedStyle(e, '::after').content !== 'none')).map((e) => e.textContent)`, &cueless)
		assert.Empty(t, cueless, "a table that is wider than its place says so, at %d", width)
		var narrow []string
		b.Read(`[...document.querySelectorAll('button, input, summary')].filter((e) => e.getClientRects().length && !e.closest('.scroll')).map((e) => e.getBoundingClientRect()).filter((r) => r.right > innerWidth || r.left < 0).map((r) => r.right + '')`, &narrow)
		assert.Empty(t, narrow, "what is pressed is within %d", width)
	}
	var unnamed []string
	b.Read(`[...document.querySelectorAll('button, input, svg[role=img], section, th')].filter((e) => !(e.textContent.trim() || e.getAttribute('aria-label') || e.getAttribute('aria-labelledby') || (e.labels && e.labels.length))).filter((e) => e.tagName !== 'TH' || e.scope !== 'col').map((e) => e.outerHTML)`, &unnamed)
	assert.Empty(t, unnamed, "a screen reader has a name for everything")
	b.Done()
}

// What clients have sent is shown as text, whatever it is.
func TestHostileKeysAreTextOnThePage(t *testing.T) {
	t.Parallel()
	browser.Needed(t)
	hostile := []string{
		`</script><script>window.owned=1</script>`, `"><img src=owned onerror=window.owned=1>`, `<!--<script>`, `]]>{{.Data}}${window.owned=1}`, `javascript:window.owned=1`, `' onmouseover='window.owned=1`,
		"\u202egnp.exe", "</title><style>*{display:none}</style>",
	}
	var lines []string
	for i := range 4000 {
		lines = append(lines, fmt.Sprintf(`{"ts":%d,"request":{"remote_ip":"10.0.0.1","headers":{"User-Agent":[%q]}}}`, 1_790_000_000+i/40, hostile[i%len(hostile)]))
	}
	path, _ := pageOf(t, access(t, lines), "--key", "{user_agent}", "--show-keys", "--set", `</script><script>owned()</script>=RATE 1/s`, "--top", "20")
	b := open(t, path)
	assert.Equal(t, "undefined", b.Text(`typeof window.owned`))
	var names []string
	b.Read(`[...document.querySelectorAll('td.name')].map((cell) => cell.textContent)`, &names)
	for _, key := range hostile[:6] {
		assert.Contains(t, names, key)
	}
	assert.Contains(t, names, `\u202egnp.exe`, "it is not shown backwards")
	var images int
	b.Read(`document.querySelectorAll('img, iframe, object, link').length`, &images)
	assert.Zero(t, images)
	b.Done()
}

// The page of a hundred thousand clients is small.
func TestThePageOfManyClientsIsSmall(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	path, r := pageOf(t, made(t, "--clients", "100000", "--requests", "800000"), "--limit", "RATE 10/s BURST 20", "--top", "100")
	require.Greater(t, r.Clients, int64(99_000))
	info, err := os.Stat(path)
	require.NoError(t, err)
	assert.Less(t, info.Size(), int64(1<<20))
}
