package docs_test

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
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

var getCommand = regexp.MustCompile(`GET state:\w+ .*\| od `)

// TestExamplesPrintWhatThePagesSay compares the bytes with what a server writes. Each is explained by its number.
func TestBytesOfStatesAreTheNumbersThatThePageSays(t *testing.T) {
	t.Parallel()
	explained := 0
	parts := readPage(t, rootDir(t), rootDir(t)+"/docs/internals/state.md").parts
	for i, part := range parts {
		if part.block == nil || !part.block.isSession() {
			continue
		}
		for _, step := range part.block.steps() {
			if !getCommand.MatchString(step.command) {
				continue
			}
			explained++
			for _, row := range byteTable(parts[i:]) {
				require.NotEmpty(t, row.meaning.code, row.meaning.text)
				said, err := strconv.ParseUint(row.meaning.code[0], 10, 64)
				require.NoError(t, err, row.meaning.text)
				assert.Equal(t, said, row.number(t), "%s: %s", step.command, row.meaning.text)
			}
		}
	}
	assert.Equal(t, 5, explained)
}
