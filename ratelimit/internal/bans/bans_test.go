package bans

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestOptionsForBansAreChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ban   time.Duration
		after string
		says  string
	}{
		{0, "", ""}, {time.Hour, "", ""}, {time.Hour, "10/1h", ""},
		{-time.Hour, "", "a Ban of -1h0m0s: it is how long a ban lasts"},
		{0, "10/1h", "BanAfter goes with a Ban"},
		{time.Hour, "0/1h", "BanAfter is a count, at least 1, and a period, such as 10/1h, not \"0/1h\""},
		{time.Hour, "ten", "BanAfter is a count"},
	} {
		err := Check(c.ban, c.after)
		if c.says == "" {
			assert.NoError(t, err, c)
		} else {
			assert.ErrorContains(t, err, c.says)
		}
	}
}
