package upstream_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// upstreamsFiles are the configurations of upstream's own integration tests, from the module that this test is built with.
func upstreamsFiles(t *testing.T) (all []file) {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/envoyproxy/ratelimit").Output()
	require.NoError(t, err)
	names, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "test/integration/runtime/current/ratelimit/config/*.yaml"))
	require.NoError(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		first, rest, found := strings.Cut(string(text), "\n")
		domain, named := strings.CutPrefix(first, "domain: ")
		require.True(t, found && named, name)
		all = append(all, file{domain, "compat: true\n", rest}, file{domain + "-all", "", rest})
	}
	require.Len(t, all, 6, "three files, each with compat and without")
	return all
}

// The requests of upstream's integration tests get upstream's answers, also without compat where no two limits meet. Those tests start upstream
// in their own process and read its counters there, so they cannot run against another process; docs/gateway.md lists their cases.
func TestRequestsOfUpstreamsIntegrationTests(t *testing.T) {
	b := start(t, upstreamsFiles(t)...)
	b.set(time.Date(2026, 3, 10, 11, 0, 0, 0, time.UTC)) // a Tuesday, at the start of an hour
	same := func(domain string, descriptors ...string) (theirs *pb.RateLimitResponse) {
		t.Helper()
		for _, suffix := range []string{"", "-all"} {
			r := request(1, descriptors...)
			r.Domain = domain + suffix
			var mine *pb.RateLimitResponse
			mine, theirs = b.ask(r, r)
			require.Equal(t, shown(theirs), shown(mine), "%v", r)
		}
		return theirs
	}
	for _, key := range []string{"", "_local"} {
		assert.Equal(t, "OK | 0", short(same("foo", "hello"+key+"=world")), "a domain that is not configured")
		assert.Contains(t, short(same("basic", "key1"+key+"=foo")), "OK | 49 of 50")
		for i := range 25 {
			want := fmt.Sprintf("OK | %d of 20", 19-i)
			if i >= 20 {
				want = "OVER_LIMIT | 0 of 20"
			}
			assert.Contains(t, short(same("another", "key2"+key+"=alone")), want)
		}
		for i := range 15 {
			r := request(1, "key2"+key+"=pair", "key3"+key+"=pair")
			r.Domain = "another"
			mine, theirs := b.ask(r, r)
			assert.Equal(t, shown(theirs), shown(mine), "request %d", i)
			// Upstream with its option to stop: what one limit denies is not charged to the other.
			r.Domain = "another-all"
			mine, _ = b.ask(r, r)
			assert.EqualValues(t, max(20-(i+1), 10), mine.Statuses[0].LimitRemaining, "request %d", i)
			assert.Equal(t, theirs.OverallCode, mine.OverallCode, "request %d", i)
			assert.Equal(t, i >= 10, mine.OverallCode == pb.RateLimitResponse_OVER_LIMIT, "request %d", i)
		}
		before := same("another", "key4"+key+"=durTest")
		b.set(b.now.Add(2 * time.Second))
		after := same("another", "key4"+key+"=durTest")
		assert.EqualValues(t, 2, seconds(before.Statuses[0])-seconds(after.Statuses[0]), "the time until the reset goes by")
	}
	for range 10 {
		same("share-threshold-test", "files=files/a.pdf")
	}
	assert.Contains(t, short(same("share-threshold-test", "files=files/b.csv")), "OVER_LIMIT | 0 of 10")
	for i := range 10 {
		assert.Contains(t, short(same("share-threshold-test", fmt.Sprintf("files_no_share=files_no_share/%d", i))), "OK | 9 of 10")
	}
}
