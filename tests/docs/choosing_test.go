package docs_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/server"
)

// What docs/choosing.md says of nginx: so many requests at once, so many delayed, the rest
// turned away.
func TestReplacementsOfNginxLimitReqAdmitAndDelayAsMany(t *testing.T) {
	t.Parallel()
	page := readPage(t, rootDir(t), rootDir(t)+"/docs/choosing.md")
	commands := map[string]string{}
	for _, row := range page.table(t, "nginx limit_req").rows[1:] {
		commands[row[0].text] = row[1].code[0]
	}
	s := server.Start(t)
	for nginx, want := range map[string]struct{ atOnce, delayed int }{
		"no burst":         {1, 0},
		"burst=20 nodelay": {21, 0},
		"burst=20":         {1, 20},
		"burst=20 delay=8": {9, 12},
	} {
		// In a transaction there is next to no time between the calls.
		call := strings.Fields(commands[nginx])
		call[1] = "nginx " + nginx
		calls := [][]string{{"MULTI"}}
		for range 30 {
			calls = append(calls, call)
		}
		replies, err := s.Raw().Pipeline(append(calls, []string{"EXEC"})...)
		assert.NoError(t, err)
		var atOnce, delayed int
		for _, reply := range replies[len(replies)-1].Elems {
			switch {
			case field(reply, "limited").Int == 1:
			case field(reply, "wait_ms").Int > 0:
				delayed++
			default:
				atOnce++
			}
		}
		assert.Equal(t, want.atOnce, atOnce, "%s: %v", nginx, call)
		assert.Equal(t, want.delayed, delayed, "%s: %v", nginx, call)
	}
}

// Every command in the tables is one that the server takes.
func TestCommandsOfTablesWork(t *testing.T) {
	t.Parallel()
	page := readPage(t, rootDir(t), rootDir(t)+"/docs/choosing.md")
	s := server.Start(t)
	tried := 0
	for _, part := range page.parts {
		if part.table == nil {
			continue
		}
		for _, row := range part.table.rows[1:] {
			for _, code := range append(row[0].code, row[1].code...) {
				if !strings.HasPrefix(code, "CL.") && !strings.HasPrefix(code, "DEL ") {
					continue
				}
				tried++
				code = strings.NewReplacer("COST n", "COST 3", "TIMEOUT duration", "TIMEOUT 2s").Replace(code)
				s.MustDo("DEL", "key")
				reply := s.Do(strings.Fields(code)...)
				assert.False(t, reply.IsError(), "%s: %s", code, reply.Text)
			}
		}
	}
	assert.Greater(t, tried, 20)
}
