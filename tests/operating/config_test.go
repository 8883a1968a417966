package operating_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

func TestBadConfigurationIsRefused(t *testing.T) {
	t.Parallel()
	s := kit.StartConfigurable(t, server.ModuleArgs("top", "50"))
	for value, names := range map[string]string{"x": "integer", "": "integer", "1.5": "integer", "-1": "between 0 and 100000", "100001": "between 0 and 100000"} {
		v := s.Do("CONFIG", "SET", "throttle.top", value)
		assert.True(t, v.IsError(), "%q", value)
		assert.Contains(t, v.Text, "throttle.top")
		assert.Contains(t, v.Text, names)
	}
	v := s.Do("EVAL", "return redis.call('CONFIG', 'SET', 'throttle.top', '5')", "0")
	assert.True(t, v.IsError(), "from a script")
	assert.Equal(t, "50", kit.TopOf(s))
	_, err := server.TryStart(t, server.Config("throttle.top 100001"))
	require.Error(t, err, "nor in the file")
}

func TestBadLoadArgumentsStopTheServer(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"top"}, "load argument top: the number of keys is missing; it must be an integer from 0 to 100000"},
		{[]string{"top", "x"}, `load argument top: "x" must be an integer from 0 to 100000`},
		{[]string{"top", "-1"}, `"-1" must be an integer from 0 to 100000`},
		{[]string{"top", "100001"}, `"100001" must be an integer from 0 to 100000`},
		{[]string{"top", "1.5"}, `"1.5" must be an integer from 0 to 100000`},
		{[]string{"top", "%s%n"}, `"%s%n" must be an integer`},
		{[]string{"pot", "5"}, `unknown load argument "pot"`},
		{[]string{"aliases", "yes"}, `throttle.aliases: "yes" is no other name of CL.THROTTLE: there are RL.THROTTLE and GCRA, separated by a comma`},
		{[]string{"aliases"}, "load argument aliases: the names are missing, such as RL.THROTTLE,GCRA"},
		{[]string{"aliasses", "gcra"}, `unknown load argument "aliasses": there are "top"`},
		{[]string{"top", "5", "%n%s"}, `unknown load argument "%n%s"`},
		{[]string{"top", "5", "top"}, "the number of keys is missing"},
	} {
		_, err := server.TryStart(t, server.ModuleArgs(tc.args...))
		require.Error(t, err, "%q", tc.args)
		assert.Contains(t, err.Error(), tc.says)
		assert.Contains(t, err.Error(), "<throttle> not loaded: ", "%q", tc.args)
		assert.NotContains(t, err.Error(), "BeforeInit", "%q: the reason is all there is to say", tc.args)
		assert.NotContains(t, err.Error(), "BUG REPORT", "%q", tc.args)
	}
	// While the server runs a bad MODULE LOAD is an error, and leaves nothing behind.
	s := server.Start(t, server.WithoutModule())
	path, err := server.ModulePath()
	require.NoError(t, err)
	assert.True(t, s.Do("MODULE", "LOAD", path, "top", "x").IsError())
	assert.Contains(t, s.Do("CL.THROTTLE", "k", "1", "1", "1").Text, "unknown command")
	s.MustDo("MODULE", "LOAD", path, "top", "7")
	if s.Program.AtLeast(7, 0) {
		assert.Equal(t, "7", kit.TopOf(s))
	}
	assert.True(t, s.Do("MODULE", "LOAD", path, "top", "9").IsError(), "a second time")
	assert.False(t, s.Do("CL.TOP").IsError())
	assert.Len(t, kit.ThrottleModules(s), 1)
}

func TestTop(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.ModuleArgs("top", "100"))
	c := s.Raw()
	// Key i is limited i times.
	for i := 1; i <= 20; i++ {
		key := string(rune('a' + i - 1))
		for range i {
			require.EqualValues(t, 1, kit.Ask(t, c, "CL.LIMIT %s RATE 1/h COST 2", key).Limited)
		}
		kit.Ask(t, c, "CL.PEEK %s RATE 1/h COST 2", key) // only asks
		kit.Ask(t, c, "CL.LIMIT %s RATE 1/h", key)       // is allowed
	}
	kit.Do(t, c, "SELECT 1")
	for range 30 {
		kit.Do(t, c, "CL.THROTTLE a 0 1 1h 2")
	}
	v := kit.Do(t, c, "CL.TOP 4")
	require.Len(t, v.Elems, 4)
	for i, want := range []struct {
		key string
		db  int64
		n   int64
	}{{"a", 1, 30}, {"t", 0, 20}, {"s", 0, 19}, {"r", 0, 18}} {
		row := kit.Pairs(v.Elems[i])
		assert.Equal(t, want.key, row["key"].Text)
		assert.Equal(t, want.db, row["db"].Int)
		assert.InDelta(t, want.n, row["limited"].Int, 1, "counts fade with time")
		assert.Zero(t, row["error"].Int)
	}
	assert.Len(t, kit.Do(t, c, "CL.TOP").Elems, 10, "ten unless told otherwise")
	assert.Len(t, kit.Do(t, c, "CL.TOP 100000").Elems, 21)
	for _, bad := range []string{"0", "-1", "x", "100001", "1.5"} {
		assert.Contains(t, kit.Do(t, c, "CL.TOP %s", bad).Text, "count must be an integer from 1 to 100000")
	}
	assert.Contains(t, kit.Do(t, c, "CL.TOP 1 2").Text, "near '2': expected SHADOW")
	assert.Contains(t, kit.Do(t, c, "CL.TOP 1 SHADOW 2").Text, "wrong number of arguments")
	kit.Do(t, c, "HELLO 3")
	assert.Equal(t, "%", string(kit.Do(t, c, "CL.TOP 1").Elems[0].Kind), "a map in RESP3")
	if s.Program.AtLeast(7, 0) {
		s.MustDo("CONFIG", "SET", "throttle.top", "0")
		v = kit.Do(t, c, "CL.TOP")
		assert.Contains(t, v.Text, "CL.TOP is off")
		assert.Contains(t, v.Text, "throttle.top")
		s.MustDo("CONFIG", "SET", "throttle.top", "10")
		assert.Empty(t, kit.Do(t, c, "CL.TOP").Elems, "counting starts anew")
	}
}
