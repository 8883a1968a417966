package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestEveryRoundTakesEveryContenderOnce(t *testing.T) {
	for _, contenders := range []int{1, 2, 3, 19} {
		for round := range 5 {
			turn := order(contenders, round, 5)
			slices.Sort(turn)
			for i, c := range turn {
				assert.Equal(t, i, c)
			}
		}
	}
}

func TestNobodyAlwaysFollowsTheSameRival(t *testing.T) {
	const contenders, rounds = 7, 6
	before := map[[2]int]int{}
	first := map[int]bool{}
	for round := range rounds {
		turn := order(contenders, round, rounds)
		first[turn[0]] = true
		for i := range contenders - 1 {
			before[[2]int{turn[i], turn[i+1]}]++
		}
	}
	for pair, times := range before {
		assert.LessOrEqual(t, times, rounds/2, "%v in a row", pair)
	}
	assert.Greater(t, len(first), rounds/2, "rounds begin with different contenders")
}

func TestAPlainProgressLineComesNowAndThen(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	p := &progress{out: &out, steps: 4, now: func() time.Time { return now }, started: now}
	p.step("first")
	now = now.Add(plainInterval / 2)
	p.step("second")
	now = now.Add(plainInterval)
	p.step("third")
	p.finish()
	assert.Equal(t, []string{"? left: first", "15s left: third"}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}

func TestATerminalShowsOneLineThatIsRewrittenAndCleared(t *testing.T) {
	var out bytes.Buffer
	now := time.Unix(1000, 0)
	p := &progress{out: &out, terminal: true, steps: 2, now: func() time.Time { return now }, started: now}
	p.step("one")
	now = now.Add(20 * time.Second)
	p.step("a name that is too long for the terminal" + strings.Repeat(" ", 80))
	p.finish()
	assert.Equal(t, "\r? left: one\x1b[K\r20s left: a name that is too long for the terminal"+strings.Repeat(" ", 29)+"\x1b[K\r\x1b[K", out.String())
}
