package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"redis-throttle/bench/internal/server"
)

func TestTheServersCountersMustAgreeWithTheContendersName(t *testing.T) {
	info := func(changes, expired int) server.Info {
		return server.Info{"rdb_changes_since_last_save": fmt.Sprint(changes), "expired_keys": fmt.Sprint(expired)}
	}
	for _, tt := range []struct {
		name            string
		kind            string
		changes, expire int
		stats           server.CommandStats
		want            string
	}{
		{"every call wrote", "allowed", 1000, 0, server.CommandStats{Calls: 1000}, ""},
		{"every call wrote twice", "allowed", 2000, 0, server.CommandStats{Calls: 1000}, ""},
		{"one call did not write", "allowed", 999, 0, server.CommandStats{Calls: 1000}, "only 999 of 1000"},
		{"no call wrote", "denied", 0, 0, server.CommandStats{Calls: 1000}, ""},
		{"keys expired meanwhile", "denied", 3, 3, server.CommandStats{Calls: 1000}, ""},
		{"one call wrote", "denied", 4, 3, server.CommandStats{Calls: 1000}, "none should"},
		{"some calls wrote", "other allowed", 17, 0, server.CommandStats{Calls: 1000}, ""},
		{"an error", "other allowed", 0, 0, server.CommandStats{Calls: 1000, Failed: 1}, "1 of 1000 calls were answered an error"},
		{"a call was lost", "other allowed", 0, 0, server.CommandStats{Calls: 999}, "counted 999"},
		{"somebody else calls too", "other allowed", 0, 0, server.CommandStats{Calls: 1001}, "counted 1001"},
	} {
		e := &entrant{contender: contender{Kind: tt.kind}}
		err := e.verifyCounts(info(5, 0), info(5+tt.changes, tt.expire), tt.stats, 1000)
		if tt.want == "" {
			assert.NoError(t, err, tt.name)
		} else {
			assert.ErrorContains(t, err, tt.want, tt.name)
		}
	}
}
