package docs_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/limiter/calendar"
	"redis-throttle/limiter/stack"
	"redis-throttle/tests/server"
)

// byteRow is one row of a table that explains bytes.
type byteRow struct {
	bytes   []byte
	meaning cell
}

// varies: the bytes are those of an instant, or of a time that went by.
func (r byteRow) varies() bool {
	return strings.Contains(r.meaning.text, "instant") || strings.Contains(r.meaning.text, "time")
}

// number is what the bytes are as a number.
func (r byteRow) number(t testing.TB) uint64 {
	t.Helper()
	if strings.HasPrefix(r.meaning.text, "LEB128") {
		n, length := binary.Uvarint(r.bytes)
		require.Equal(t, len(r.bytes), length)
		return n
	}
	require.LessOrEqual(t, len(r.bytes), 8)
	return binary.LittleEndian.Uint64(append(append([]byte{}, r.bytes...), make([]byte, 8-len(r.bytes))...))
}

// byteTable is the first table of parts whose first column is bytes.
func byteTable(parts []part) (rows []byteRow) {
	for _, p := range parts {
		if p.table == nil || p.table.rows[0][0].text != "bytes" || len(p.table.rows[1][0].code) == 0 {
			continue
		}
		for _, row := range p.table.rows[1:] {
			bytes, _ := hexBytes(row[0].code) // none where they are not
			rows = append(rows, byteRow{bytes, row[1]})
		}
		return rows
	}
	return nil
}

func hexBytes(words []string) ([]byte, error) {
	return hex.DecodeString(strings.ReplaceAll(strings.Join(words, ""), " ", ""))
}

// differentBytes compares what od printed with what the page says and explains.
func differentBytes(want, got []string, rows []byteRow) string {
	said, err := hexBytes(want)
	if err != nil {
		return "the page: " + err.Error()
	}
	is, err := hexBytes(got)
	if err != nil {
		return err.Error()
	}
	at := 0
	for _, row := range rows {
		end := at + len(row.bytes)
		if end > len(is) || end > len(said) {
			return fmt.Sprintf("%q is at byte %d, and there are %d, %d on the page", row.meaning.text, at, len(is), len(said))
		}
		if string(said[at:end]) != string(row.bytes) {
			return fmt.Sprintf("%q is % x in the table and % x above it", row.meaning.text, row.bytes, said[at:end])
		}
		if !row.varies() && string(is[at:end]) != string(row.bytes) {
			return fmt.Sprintf("%q is % x on the page, and % x", row.meaning.text, row.bytes, is[at:end])
		}
		at = end
	}
	if at != len(is) || at != len(said) {
		return fmt.Sprintf("the table explains %d bytes of %d, and of %d on the page", at, len(is), len(said))
	}
	return ""
}

func statePage(t testing.TB) page {
	t.Helper()
	root := rootDir(t)
	return readPage(t, root, root+"/docs/state.md")
}

var getCommand = regexp.MustCompile(`GET (state:\w+) .*\| od `)

// stateExample is the bytes that state.md shows of a key, and what it says of them.
type stateExample struct {
	value []byte
	rows  []byteRow
}

func stateExamples(t testing.TB) map[string]stateExample {
	t.Helper()
	examples := map[string]stateExample{}
	parts := statePage(t).parts
	for i, part := range parts {
		if part.block == nil || !part.block.isSession() {
			continue
		}
		for _, step := range part.block.steps() {
			if m := getCommand.FindStringSubmatch(step.command); m != nil {
				value, err := hexBytes(step.want)
				require.NoError(t, err)
				examples[m[1]] = stateExample{value, byteTable(parts[i:])}
			}
		}
	}
	require.Len(t, examples, 9)
	return examples
}

// limitsOf are the limits of state.md's examples.
func limitsOf(t testing.TB, key string) (words string, limits []stack.Limit) {
	t.Helper()
	must := func(l stack.Limit, err error) stack.Limit {
		require.NoError(t, err)
		return l
	}
	days, err := calendar.Every(1, 24*time.Hour, 0)
	require.NoError(t, err)
	switch key {
	case "state:queue":
		return "RATE 1/m", []stack.Limit{must(stack.NewRate(1, 1, time.Minute, 1))}
	case "state:lifted":
		return "RATE 3/h RATE 60/m", []stack.Limit{must(stack.NewRate(3, 1, time.Hour, 3)), must(stack.NewRate(60, 1, time.Minute, 60))}
	case "state:window":
		return "WINDOW 100/h", []stack.Limit{must(stack.NewWindow(100, 1, time.Hour))}
	case "state:fixed":
		return "FIXED 1000/d", []stack.Limit{must(stack.NewFixedIn(days, 1000))}
	case "state:month":
		berlin, err := calendar.LookupZone([]byte("Europe/Berlin"))
		require.NoError(t, err)
		months, err := calendar.Calendar(1, calendar.Month, berlin, 0)
		require.NoError(t, err)
		return "FIXED 1000/mo TZ Europe/Berlin", []stack.Limit{must(stack.NewFixedIn(months, 1000))}
	case "state:first":
		return "FIXED 1000/h FIRST", []stack.Limit{must(stack.NewFirst(1000, 1, time.Hour))}
	case "state:kept":
		return "WINDOW 100/h", []stack.Limit{must(stack.NewWindow(100, 1, time.Hour))}
	case "state:denials":
		return "RATE 1/h", []stack.Limit{must(stack.NewRate(1, 1, time.Hour, 1))}
	case "state:stack":
		return "RATE 60/h FIXED 1000/d",
			[]stack.Limit{must(stack.NewRate(60, 1, time.Hour, 60)), must(stack.NewFixedIn(days, 1000))}
	}
	require.Fail(t, "no limits known", key)
	return "", nil
}

func TestBytesOfStatesAreTheNumbersThatThePageSays(t *testing.T) {
	t.Parallel()
	for key, example := range stateExamples(t) {
		for _, row := range example.rows {
			require.NotEmpty(t, row.meaning.code, row.meaning.text)
			said, err := strconv.ParseUint(row.meaning.code[0], 10, 64)
			require.NoError(t, err, row.meaning.text)
			assert.Equal(t, said, row.number(t), "%s: %s", key, row.meaning.text)
		}
	}
}

func TestStatesOfThePageAreReadAndWrittenTheSame(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for key, example := range stateExamples(t) {
		words, limits := limitsOf(t, key)
		var state stack.Stack
		state.Load(limits)
		require.NoError(t, state.Decode(example.value), key)
		assert.Equal(t, example.value, state.Append(nil), key)

		peek := append([]string{"CL.PEEK", key}, strings.Fields(words)...)
		s.MustDo("SET", key, string(example.value))
		assert.False(t, s.Do(peek...).IsError(), key)
		s.MustDo("SETRANGE", key, "0", "\x03")
		assert.Contains(t, s.Do(peek...).Text, "WRONGTYPE", "%s of an unknown version", key)
		s.MustDo("SET", key, string(example.value)+"\x00")
		assert.Contains(t, s.Do(peek...).Text, "WRONGTYPE", "%s with something after it", key)
	}
}
