package page

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/cmd/throttle-replay/replay"
)

// Snippets are for the requests, the key and the cost that the report is about.
func TestSnippetsAreForTheRequestsOfTheReport(t *testing.T) {
	t.Parallel()
	texts := func(r replay.Report) map[string]string {
		all := map[string]string{}
		for _, s := range snippetsOf(&r) {
			all[s.Name] = s.Text
		}
		return all
	}
	s := texts(replay.Report{Key: "{header:X-Account}", Where: []string{"path ~ ^/api/", "method = POST\n}"}, Cost: "bytes/1024"})
	assert.Contains(t, s["CL.LIMIT"], `CL.LIMIT "{header:X-Account}" RATE {count}/{unit} BURST {burst} COST 1`)
	assert.Contains(t, s["Go"], "// Only for requests with path ~ ^/api/\n// Only for requests with method = POST\\n}\n// The key of a request: {header:X-Account}\n// The cost of a request: bytes/1024\n")
	assert.Contains(t, s["Go"], `Key:    keyby.Prefixed("x-account:", keyby.Header("X-Account")),`)
	assert.Contains(t, s["Go"], "Cost:   costOf,")
	assert.Contains(t, s["Node.js"], "key: (req) => req.headers['x-account'], cost: costOf }))")
	assert.Contains(t, s["Python"], "# The key of a request: {header:X-Account}\n")
	assert.Contains(t, s["Python"], "key=key_of, cost=cost_of)")
	assert.Contains(t, s["Java"], "- paths: /api/**\n")
	assert.Contains(t, s["Gateway"], "- key: x_account\n")
	s = texts(replay.Report{Key: "{remote_addr/56}"})
	assert.Contains(t, s["Go"], "keyby.IPv6(56).RemoteHost")
	assert.Contains(t, s["Node.js"], "ipv6: 56")
	assert.Contains(t, s["Python"], "ipv6=56")
	s = texts(replay.Report{Key: "{remote_addr}:{count}"})
	assert.Contains(t, s["Go"], "// The key of a request: {remote_addr}:<count>\n")
	assert.Contains(t, s["Go"], "keyOf")
}
