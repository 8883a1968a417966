package commands_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

// Values as version 0.1.0 wrote them.
func TestAFixedOfVersion010IsReadAsItWas(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	c := s.Raw()
	day := time.Now().Unix() / 86400
	// Version, one limit, kind 3, a day in ns, the length, the day and 300 units as LEB128.
	value := []byte{1, 1, 3, 0, 0, 0x4f, 0x91, 0x94, 0x4e, 0, 0, 5, 0, byte(day)&0x7f | 0x80, byte(day>>7)&0x7f | 0x80, byte(day >> 14), 0xac, 2}
	for _, limit := range []string{"FIXED 1000/d", "FIXED 1000/24h", "FIXED 1000/d TZ UTC", "FIXED 1000/d OFFSET 0"} {
		s.MustDo("SET", "key", string(value))
		peek := kit.Ask(t, c, "CL.PEEK key %s", limit)
		if time.Now().Unix()/86400 != day {
			t.Skip("midnight")
		}
		assert.Equal(t, int64(700), peek.Remaining, limit)
		kit.Ask(t, c, "CL.LIMIT key %s", limit)
		written := []byte(s.MustDo("GET", "key").Text)
		value[16]++
		assert.Equal(t, fmt.Sprintf("%x", value), fmt.Sprintf("%x", written), limit)
		value[16]--
	}
}
