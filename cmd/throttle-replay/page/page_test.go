package page_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/cmd/throttle-replay/page"
	"redis-throttle/cmd/throttle-replay/replay"
)

func report() *replay.Report {
	at := time.Date(2026, 10, 24, 21, 30, 0, 0, time.UTC)
	point := replay.CurvePoint{Rate: "3/s", Count: 3, Unit: "s", PerSecond: 3, EmissionNs: 333_333_334, Bursts: []int64{2, 5000},
		Clients: []int64{7, 0}, Denied: []int64{99, 0}}
	result := replay.Result{Name: "strict", Words: "RATE 3/s BURST 2", Requests: 12_000, Denied: 99, Clients: 34, DeniedClients: 7,
		Series: []int64{99, 0}, Top: []replay.Client{{Name: "a", Requests: 9, Denied: 3, LongestMs: 5}}}
	return &replay.Report{
		Version: "9.9.9", Files: []string{"/var/log/nginx/access.log"}, Key: "{remote_addr/64}", Requests: 12_000, Units: 12_000, Clients: 34, From: at, To: at.Add(time.Hour), ResolutionNs: 1e6,
		Time:  replay.Series{Start: at, WidthNs: 1800e9, Requests: []int64{11_000, 1000}},
		Peaks: []replay.Peak{{Period: "hour", Max: 4, Client: "a", At: at}}, Top: []replay.Client{{Name: "a"}},
		Sets: []replay.Result{result}, Kinds: []replay.Result{result}, Curve: replay.Curve{Shares: []string{"50 %", "all"}, Points: []replay.CurvePoint{point}},
		Suggestions: []replay.Suggestion{{Share: "all", Point: 0, Copy: true, Result: result}},
	}
}

func write(t testing.TB, r *replay.Report, zone *time.Location) string {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, page.Write(&b, r, zone))
	return b.String()
}

// The page needs no other file: it names none, and its policy allows nothing but its own style and script.
func TestThePageNeedsNoOtherFile(t *testing.T) {
	t.Parallel()
	text := write(t, report(), nil)
	policy := regexp.MustCompile(`Content-Security-Policy" content="([^"]+)"`).FindStringSubmatch(text)[1]
	assert.True(t, strings.HasPrefix(policy, "default-src &#39;none&#39;"), policy)
	for _, name := range []string{"style", "script"} {
		inside := regexp.MustCompile(`(?s)<` + name + `>(.*?)</` + name + `>`).FindStringSubmatch(text)
		require.NotNil(t, inside, name)
		sum := sha256.Sum256([]byte(inside[1]))
		want := name + "-src &#39;sha256-" + strings.ReplaceAll(base64.StdEncoding.EncodeToString(sum[:]), "+", "&#43;") + "&#39;"
		assert.Contains(t, policy, want)
	}
	assert.Empty(t, regexp.MustCompile(`(?i)\s(src|href|srcset|style|on[a-z]+)=`).FindAllString(text, -1))
	assert.Empty(t, regexp.MustCompile(`url\(|@import|https?://[^w]`).FindAllString(text, -1))
}

// Without a script, tables still say everything.
func TestTablesSayEverythingWithoutAScript(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	text := write(t, report(), berlin)
	text, _, _ = strings.Cut(text, "<script type=")
	for _, want := range []string{
		"<title>Limits for access.log</title>", "throttle-replay 9.9.9", "2026-10-24 23:30:00 CEST", "<noscript>", ">3/s</th><td>2</td><td>0.82 %</td><td>5,000</td><td>0 %</td>",
		"RATE 3/s BURST 2", "spares all", "0.82 % of the requests, of 7 in 34 clients", "11,000 requests, 99 denied",
	} {
		assert.Contains(t, text, want)
	}
}

func TestALogWithoutRequestsIsAPage(t *testing.T) {
	t.Parallel()
	text := write(t, &replay.Report{Lines: replay.Lines{Unreadable: []replay.Problem{{Why: "not JSON", Count: 3, File: "x<y", Line: 1}}}}, nil)
	assert.Contains(t, text, "No request was read.")
	assert.Contains(t, text, `<li class="loud">3 lines could not be read: not JSON. The first is x&lt;y:1</li>`)
	assert.NotContains(t, text, "<script")
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestAPageThatCannotBeWrittenIsAnError(t *testing.T) {
	t.Parallel()
	assert.ErrorContains(t, page.Write(full{}, report(), nil), "no space left")
}
