package lru_test

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"redis-throttle/ratelimit/internal/lru"
)

func TestTheLeastRecentlyUsedGoesFirst(t *testing.T) {
	m := lru.New[string, int](2)
	m.Put("a", 1)
	m.Put("b", 2)
	_, _ = m.Get("a")
	m.Put("c", 3)
	_, ok := m.Get("b")
	require.False(t, ok)
	value, ok := m.Get("a")
	require.True(t, ok)
	require.Equal(t, 1, value)
}

// The model is a slice of keys by their last use, and a map without a bound.
func TestMapIsAsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 4).Draw(t, "most")
		m, values, used := lru.New[int, int](most), map[int]int{}, []int{}
		forget := func(key int) { used = slices.DeleteFunc(used, func(k int) bool { return k == key }) }
		for step := range rapid.IntRange(1, 50).Draw(t, "steps") {
			key := rapid.IntRange(0, 5).Draw(t, "key")
			there := slices.Contains(used, key)
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				m.Put(key, step)
				values[key] = step
				forget(key)
				used = append(used, key)
				used = used[max(0, len(used)-most):]
			case 1:
				value, ok := m.Get(key)
				require.Equal(t, there, ok)
				if ok {
					require.Equal(t, values[key], value)
					forget(key)
					used = append(used, key)
				}
			case 2:
				m.Delete(key)
				forget(key)
			}
			require.Equal(t, len(used), m.Len())
		}
	})
}
