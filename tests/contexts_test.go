package tests

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/server"
)

var firstOf16 = answer{Limited: 0, Limit: 16, Remaining: 15, RetryAfter: -1, ResetAfter: 2}

func TestBothProtocols(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		key := fmt.Sprint("resp", protocol)
		a, err := throttle(t.Context(), s.Client(server.Protocol(protocol)), key, "15 30 60 1")
		require.NoError(t, err)
		assert.Equal(t, firstOf16, a)

		c := s.Raw()
		_, err = c.Do("HELLO", fmt.Sprint(protocol))
		require.NoError(t, err)
		v, err := c.Do(rawCallOf("raw"+key, "15 30 60 1")...)
		require.NoError(t, err)
		assert.Equal(t, "*[0 16 15 -1 2]", v.String())
	}
}

func TestInsideMulti(t *testing.T) {
	t.Parallel()
	c := server.Start(t).Client()
	require.NoError(t, c.LPush(t.Context(), "list", 1).Err())
	var calls []*redis.Cmd
	_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		for _, key := range []string{"key", "key", "list", "key"} {
			calls = append(calls, p.Do(t.Context(), callOf(key, "1 1 1d")...))
		}
		p.Set(t.Context(), "after", "1", 0)
		return nil
	})
	require.ErrorContains(t, err, "WRONGTYPE")
	for i, limited := range map[int]int64{0: 0, 1: 0, 3: 1} {
		integers, err := calls[i].Int64Slice()
		require.NoError(t, err)
		assert.Equal(t, limited, integers[0], "call %d", i)
	}
	assert.Equal(t, "1", c.Get(t.Context(), "after").Val(), "an error stops no transaction")
}

func TestFromLua(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	for _, protocol := range []int{2, 3} {
		c := s.Client(server.Protocol(protocol))
		for _, inner := range []string{"", "redis.setresp(3) "} {
			key := fmt.Sprint(protocol, inner)
			script := inner + "return redis.call('CL.THROTTLE', KEYS[1], ARGV[1], 30, 60, 1)"
			integers, err := c.Eval(t.Context(), script, []string{key}, 15).Int64Slice()
			require.NoError(t, err)
			a, err := answerOf(integers)
			require.NoError(t, err)
			assert.Equal(t, firstOf16, a)
		}
		script := `local admitted = 0
			for i = 1, 100 do
				if redis.call('cl.throttle', KEYS[1], 20, 1, '1d')[1] == 0 then admitted = admitted + 1 end
			end
			return admitted`
		assert.EqualValues(t, 21, c.Eval(t.Context(), script, []string{fmt.Sprint("loop", protocol)}).Val())

		err := c.Eval(t.Context(), "return redis.call('CL.THROTTLE', KEYS[1], 'x', 30, 60)", []string{"key"}).Err()
		require.ErrorContains(t, err, "max_burst", "an error reaches the script's caller")
		caught := c.Eval(t.Context(), "return redis.pcall('CL.THROTTLE', KEYS[1], 'x', 30, 60).err", []string{"key"}).Val()
		assert.Contains(t, caught, "max_burst", "a script can catch it")
	}
	if s.Program.AtLeast(7, 0) {
		err := s.Client().EvalRO(t.Context(), "return redis.call('CL.THROTTLE', KEYS[1], 15, 30, 60)", []string{"key"}).Err()
		assert.Error(t, err, "it writes, so a read-only script may not")
	}
}

func TestFromAFunction(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	if !s.Program.AtLeast(7, 0) {
		t.Skip("functions came with Redis 7.0")
	}
	c := s.Client()
	library := `#!lua name=limits
		redis.register_function('admit', function(keys, args)
			return redis.call('CL.THROTTLE', keys[1], 15, 30, 60, args[1])
		end)`
	require.NoError(t, c.FunctionLoad(t.Context(), library).Err())
	integers, err := c.FCall(t.Context(), "admit", []string{"key"}, 1).Int64Slice()
	require.NoError(t, err)
	a, err := answerOf(integers)
	require.NoError(t, err)
	assert.Equal(t, firstOf16, a)
}

func TestReplicaRefusesToDecide(t *testing.T) {
	t.Parallel()
	master := server.Start(t)
	replica := server.Start(t, server.ReplicaOf(master))
	v := replica.Do(rawCallOf("key", "15 30 60 1")...)
	assert.Contains(t, v.String(), "READONLY")
}

func TestFullMemoryIsAnErrorThatChangesNothing(t *testing.T) {
	t.Parallel()
	w := startWatched(t)
	w.do(t, rawCallOf("key", "15 1 1d 1")...)
	w.do(t, "CONFIG", "SET", "maxmemory", "1")
	for _, key := range []string{"key", "new"} {
		before := w.traces(t, key)
		assert.Contains(t, w.do(t, rawCallOf(key, "15 1 1d 1")...).String(), "(error) OOM")
		assert.Equal(t, before, w.traces(t, key))
	}
	w.do(t, "CONFIG", "SET", "maxmemory", "0")
	a, err := answerIn(w.do(t, rawCallOf("key", "15 1 1d 1")...))
	require.NoError(t, err)
	assert.EqualValues(t, 14, a.Remaining)
}
