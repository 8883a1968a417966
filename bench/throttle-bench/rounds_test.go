package main

import (
	"slices"
	"testing"

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
