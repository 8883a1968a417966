package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTimesThatMayBeSet(t *testing.T) {
	for text, want := range map[string]string{
		"2026-01-31T12:00:00Z":      "2026-01-31T12:00:00Z",
		"2026-01-31T12:00:00+02:00": "2026-01-31T10:00:00Z",
		"2026-01-31":                "2026-01-31T00:00:00Z",
		"0":                         "1970-01-01T00:00:00Z",
		"1769860800.000001":         "2026-01-31T12:00:00.000001Z",
		"1769860800.000001000":      "2026-01-31T12:00:00.000001Z",
		"1769860800.5":              "2026-01-31T12:00:00.5Z",
	} {
		ns, err := parseTime(text)
		require.NoError(t, err, text)
		assert.Equal(t, want, shown(ns), text)
	}
	for _, text := range []string{"", "now", "-1", "1.0000000001", "1769860800.0000001", "2026-01-31T12:00:00.0000000001000000Z", "2026-01-31T12:00:00.0000001Z", "1.x", "2026-13-01", "1969-12-31", "9999-01-01", "99999999999", "1769860800.+5"} {
		_, err := parseTime(text)
		assert.Equal(t, errTime, err, text)
	}
}

func TestTimeAfterALengthOfTime(t *testing.T) {
	from := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"0s": "2026-01-31T12:00:00Z", "500ms": "2026-01-31T12:00:00.5Z", "1.5h": "2026-01-31T13:30:00Z", "90m": "2026-01-31T13:30:00Z",
		"1d": "2026-02-01T12:00:00Z", "2w": "2026-02-14T12:00:00Z", "1mo": "2026-02-28T12:00:00Z", "2mo": "2026-03-31T12:00:00Z", "25mo": "2028-02-29T12:00:00Z",
		"1y": "2027-01-31T12:00:00Z", "0.001ms": "2026-01-31T12:00:00.000001Z", "1.0000000s": "2026-01-31T12:00:01Z", "1.s": "2026-01-31T12:00:01Z", "0.0000000025h": "2026-01-31T12:00:00.000009Z",
	} {
		ns, err := after(from.UnixNano(), text)
		require.NoError(t, err, text)
		assert.Equal(t, want, shown(ns), text)
	}
	for _, text := range []string{"", "1", "s", "-1s", "+1s", "1S", "1h30m", "1.5mo", "0.0005ms", "0.0000001s", "1.0000000000000001h", ".5s", "1e3s", "5us", "1 s", "0x1s"} {
		_, err := after(from.UnixNano(), text)
		assert.Equal(t, errDuration, err, text)
	}
	for _, text := range []string{"300y", "9999999999999w", "200000d"} {
		_, err := after(from.UnixNano(), text)
		assert.Error(t, err, text)
	}
}
