package ratelimit_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/functions"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/commands"
	"redis-throttle/ratelimit/inspect"
	"redis-throttle/ratelimit/pipelimit"
	"redis-throttle/ratelimit/rueidislimit"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/topology"
)

// doorCase is a row of spec/clients/doors.json.
type doorCase struct {
	Rule     string   `json:"rule"`
	Module   bool     `json:"module"`
	Library  string   `json:"library"`
	ByHand   bool     `json:"by_hand"`
	Theirs   string   `json:"theirs"`
	ACL      []string `json:"acl"`
	Commands string   `json:"commands"`
	Inspect  string   `json:"inspect"`
	Door     string   `json:"door"`
	Loaded   string   `json:"loaded"`
	Log      string   `json:"log"`
	Says     string   `json:"says"`
	Then     []string `json:"then"`
}

func doorCases(t *testing.T) []doorCase {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	data, err := os.ReadFile(filepath.Join(root, "spec/clients/doors.json"))
	require.NoError(t, err)
	var table struct {
		About []string   `json:"about"`
		Cases []doorCase `json:"cases"`
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	require.NoError(t, decoder.Decode(&table))
	require.NotEmpty(t, table.Cases)
	return table.Cases
}

// versions are the words for versions in the table.
var versions = map[string]int{"N-1": functions.Version() - 1, "N": functions.Version(), "N+1": functions.Version() + 1}

var versionWord = regexp.MustCompile(`\bN([-+]1)?\b`)

// libraryOf is the library as of another version, as a client loads it, or an operator.
func libraryOf(version int, byHand bool) string {
	text := strings.Replace(functions.Library, fmt.Sprintf("\nlocal VERSION = %d", functions.Version()), fmt.Sprintf("\nlocal VERSION = %d", version), 1)
	if !byHand {
		text = strings.Replace(text, "name=throttle\n", fmt.Sprintf("name=throttle_%d\n", version), 1)
	}
	return text
}

// dotted is a version as the log has it.
func dotted(version int) string {
	return fmt.Sprintf("%d.%d.%d", version/10000, version/100%100, version%100)
}

var fiveADay = ratelimit.Limits{ratelimit.Rate(5, day)}

func TestCallsAreSentAsWhatTheServerHas(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	for _, c := range doorCases(t) {
		for _, library := range []string{"go-redis", "rueidis"} {
			t.Run(library+": "+c.Rule, func(t *testing.T) {
				t.Parallel()
				requireDoor(t, c, library)
			})
		}
	}
}

func requireDoor(t *testing.T, c doorCase, library string) {
	t.Helper()
	var options []server.Option
	if !c.Module {
		options = append(options, server.WithoutModule())
	}
	s := server.Start(t, options...)
	if c.Library != "" {
		s.MustDo("FUNCTION", "LOAD", libraryOf(versions[c.Library], c.ByHand))
	}
	if c.Theirs != "" {
		s.MustDo("FUNCTION", "LOAD", "#!lua name=theirs\n"+c.Theirs)
	}
	s.MustDo(append([]string{"ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all"}, c.ACL...)...)
	other := on(s)
	other.Username, other.Password = "app", "secret"
	client := map[string]client{"go-redis": s.Client(server.User("app", "secret")), "rueidis": rueidislimit.Client(connect(t, other))}[library]
	var log kit.Log
	limiter := ratelimit.New(commands.On(client, commands.Options{Send: commands.Choice(c.Commands), Logger: log.Logger()}), ratelimit.Options{})
	if c.Inspect != "" {
		_, err := inspect.Key(t.Context(), client, "user:42")
		require.ErrorContains(t, err, c.Inspect)
		assert.NotContains(t, err.Error(), "user:42")
	}
	charged := 0
	call := func() {
		t.Helper()
		result, err := limiter.Limit(t.Context(), "user:42", fiveADay, 1)
		if c.Door == "none" {
			require.ErrorIs(t, err, ratelimit.ErrNoModule)
			assert.ErrorContains(t, err, c.Says)
			assert.False(t, ratelimit.IsOutage(err))
			assert.NotContains(t, err.Error(), "user:42")
			return
		}
		require.NoError(t, err)
		charged++
		assert.EqualValues(t, 5-charged, result.Remaining, "it is charged once")
		assert.EqualValues(t, 5, result.Limit)
	}
	call()
	s.MustDo("CONFIG", "RESETSTAT")
	call()
	if c.Door != "none" {
		sent := map[string]string{"module": "cl.limit", "library": "fcall", "script": "evalsha"}[c.Door]
		assert.Contains(t, s.Info("commandstats")["cmdstat_"+sent], "calls=1,")
	}
	loaded := s.Do("FCALL_RO", "cl_version", "0")
	if c.Loaded != "" {
		assert.EqualValues(t, versions[c.Loaded], loaded.Int, "the version on the server")
	} else {
		assert.NotContains(t, s.MustDo("FUNCTION", "LIST").String(), "throttle")
	}
	if c.Log == "" {
		assert.Empty(t, log.String())
	} else {
		says := versionWord.ReplaceAllStringFunc(c.Log, func(word string) string { return dotted(versions[word]) })
		assert.Contains(t, log.String(), says)
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), "one line: %s", log.String())
		assert.NotContains(t, log.String(), "secret")
	}
	for _, event := range c.Then {
		s.MustDo(strings.Fields(event)...)
		call()
	}
}

// An application that is upgraded before its server asks for a command that the server's module lacks. It is told so,
// and nothing is loaded.
func TestAModuleIsOlderThanACommand(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.Module(kit.OlderBuild(t, "0.4.0")))
	_, err := inspect.Key(t.Context(), s.Client(), "user:42")
	require.ErrorContains(t, err, "older than this command")
	assert.False(t, ratelimit.IsOutage(err))
	_, err = inspect.Key(t.Context(), commands.On(s.Client(), commands.Options{Send: commands.Module}), "user:42")
	require.ErrorContains(t, err, "unknown command")
	assert.NotContains(t, err.Error(), "user:42")
	assert.NotContains(t, s.MustDo("FUNCTION", "LIST").String(), "throttle")
}

// hook is a hook that does nothing.
type hook struct{}

func (hook) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// between is a hook that does something once, right after the server has said which library it has.
type between struct {
	hook
	once sync.Once
	do   func()
}

func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if cmd.Name() == "fcall" {
			b.once.Do(b.do)
		}
		return err
	}
}

// A client that is about to load its library does not put it over a newer one that another client loads in that moment.
func TestANewerLibraryIsNotReplacedInARace(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	old, newer := versions["N-1"], versions["N+1"]
	for name, before := range map[string]int{"over an older one": old, "where there is none": 0} {
		s := server.Start(t, server.WithoutModule())
		if before != 0 {
			s.MustDo("FUNCTION", "LOAD", libraryOf(before, false))
		}
		client := s.Client()
		client.AddHook(&between{do: func() {
			if before != 0 {
				s.MustDo("FUNCTION", "DELETE", fmt.Sprintf("throttle_%d", before))
			}
			s.MustDo("FUNCTION", "LOAD", libraryOf(newer, false))
		}})
		var log kit.Log
		_, err := limiterOn(client, &log, 0).Limit(t.Context(), "k", fiveADay, 1)
		require.NoError(t, err, name)
		assert.EqualValues(t, newer, s.Do("FCALL_RO", "cl_version", "0").Int, name)
		assert.Contains(t, log.String(), "and the function library "+dotted(newer), name)
	}
}

// An older library is replaced by its name. A library that is called throttle and is none of ours stays.
func TestALibraryOfSomebodyElseIsNotDeleted(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t, server.WithoutModule())
	s.MustDo("FUNCTION", "LOAD", "#!lua name=throttle\nredis.register_function('theirs', function() return 'theirs' end)")
	s.MustDo("FUNCTION", "LOAD", libraryOf(versions["N-1"], false))
	var log kit.Log
	_, err := limiterOn(s.Client(), &log, 0).Limit(t.Context(), "k", fiveADay, 1)
	require.NoError(t, err)
	assert.EqualValues(t, versions["N"], s.Do("FCALL_RO", "cl_version", "0").Int)
	assert.Equal(t, "theirs", s.Do("FCALL", "theirs", "0").Text)
	assert.Contains(t, log.String(), "in place of "+dotted(versions["N-1"]))
}

// A library of somebody else that is about one of our functions is compared by exact names, and stays.
func TestALibraryOfSomebodyElseIsComparedByExactNames(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t, server.WithoutModule())
	s.MustDo("FUNCTION", "LOAD", "#!lua name=throttle\nredis.register_function{function_name='my_cl_version', callback=function() return 'theirs' end, description='cl_version'}")
	s.MustDo("FUNCTION", "LOAD", libraryOf(versions["N-1"], false))
	_, err := limiterOn(s.Client(), new(kit.Log), 0).Limit(t.Context(), "k", fiveADay, 1)
	require.NoError(t, err)
	assert.Equal(t, "theirs", s.Do("FCALL", "my_cl_version", "0").Text)
	assert.EqualValues(t, versions["N"], s.Do("FCALL_RO", "cl_version", "0").Int)
}

// Managed services and proxies lack some commands, and users some rights. Calls are sent by what is left, and the right
// is named.
func TestCallsAreSentByTheCommandsThatAreThere(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	for name, c := range map[string]struct {
		without []string
		acl     []string
		module  bool
		says    string
	}{
		"a proxy that knows EVAL and EVALSHA":       {without: []string{"FCALL", "FCALL_RO", "FUNCTION", "SCRIPT", "EVAL_RO", "EVALSHA_RO"}, says: "refuses functions"},
		"no right to load a script":                 {acl: []string{"-function", "-script"}, says: "function|load"},
		"functions that read alone":                 {acl: []string{"-fcall"}, says: "'fcall'"},
		"functions that write alone":                {acl: []string{"-fcall_ro"}, says: "'fcall_ro'"},
		"no right for the command of the module":    {acl: []string{"-cl.limit", "-cl.peek"}, module: true, says: "refuses cl.limit, which its user has no right for"},
		"scripts that read need the right to write": {acl: []string{"-fcall", "-evalsha_ro"}, says: "'fcall'"},
	} {
		var options []server.Option
		for _, command := range c.without {
			options = append(options, server.Config("rename-command "+command+` ""`))
		}
		if !c.module {
			options = append(options, server.WithoutModule())
		}
		s := server.Start(t, options...)
		s.MustDo(append([]string{"ACL", "SETUSER", "app", "on", ">secret", "~user:*", "+@all"}, c.acl...)...)
		var log kit.Log
		limiter := limiterOn(s.Client(server.User("app", "secret")), &log, 0)
		for left := int64(4); left > 2; left-- {
			result, err := limiter.Limit(t.Context(), "user:42", fiveADay, 1)
			require.NoError(t, err, name)
			assert.Equal(t, left, result.Remaining, name)
			result, err = limiter.Peek(t.Context(), "user:42", fiveADay, 1)
			require.NoError(t, err, name)
			assert.Equal(t, left, result.Remaining, name)
		}
		assert.Contains(t, log.String(), c.says, name)
		assert.NotContains(t, log.String(), "user:42", name)
	}
}

// A server that was a replica at the first call gets the library soon after it has become a master.
func TestAReplicaAtTheFirstCallGetsTheLibraryLater(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t, server.WithoutModule())
	s.MustDo("REPLICAOF", "127.0.0.1", "1")
	limiter := limiterOn(s.Client(), new(kit.Log), 0)
	_, err := limiter.Peek(t.Context(), "k", fiveADay, 1)
	require.NoError(t, err)
	s.MustDo("REPLICAOF", "NO", "ONE")
	require.Eventually(t, func() bool {
		_, err := limiter.Peek(t.Context(), "k", fiveADay, 1)
		return err == nil && s.Do("FCALL_RO", "cl_version", "0").Int == int64(functions.Version())
	}, time.Minute, 10*time.Millisecond)
}

// byModule is a Limiter that sends the commands of the module, whatever the server has.
func byModule(client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}) *ratelimit.Limiter {
	return ratelimit.New(commands.On(client, commands.Options{Send: commands.Module}), ratelimit.Options{})
}

func limiterOn(client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}, log *kit.Log, poll time.Duration) *ratelimit.Limiter {
	return ratelimit.New(commands.On(client, commands.Options{Logger: log.Logger(), Poll: poll}), ratelimit.Options{})
}

// A server whose calls are sent as scripts is asked again after a while: its user may have got rights.
func TestAServerThatIsSentScriptsIsAskedAgainLater(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t, server.WithoutModule())
	s.MustDo("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-function")
	options := s.Client(server.User("app", "secret")).Options()
	synctest.Test(t, func(t *testing.T) { // its time passes by itself
		client := redis.NewClient(&redis.Options{Addr: options.Addr, Username: "app", Password: "secret", MaxRetries: -1})
		defer client.Close()
		var log kit.Log
		limiter := limiterOn(client, &log, 0)
		take := func(left int64) {
			t.Helper()
			result, err := limiter.Limit(t.Context(), "k", ratelimit.Limits{ratelimit.Fixed(5, 365*day)}, 1)
			require.NoError(t, err)
			require.Equal(t, left, result.Remaining)
		}
		take(4)
		s.MustDo("ACL", "SETUSER", "app", "+@all")
		time.Sleep(4 * time.Minute)
		take(3)
		require.Contains(t, s.Do("FCALL_RO", "cl_version", "0").Text, "Function not found")
		time.Sleep(2 * time.Minute)
		take(2)
		require.EqualValues(t, functions.Version(), s.Do("FCALL_RO", "cl_version", "0").Int)
		require.Contains(t, log.String(), "was loaded")
	})
}

// A program that only waits, which takes the module, notices one that appears, as others do.
func TestAModuleThatAppearsIsNoticedByCallersThatWait(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t, server.WithoutModule(), server.Config("enable-module-command yes"))
	options := s.Client().Options()
	so, err := server.ModulePath()
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) { // its time passes by itself
		client := redis.NewClient(&redis.Options{Addr: options.Addr, MaxRetries: -1})
		defer client.Close()
		limiter := limiterOn(client, new(kit.Log), 0)
		limits := ratelimit.Limits{ratelimit.Fixed(5, 365*day)}
		_, err := limiter.Limit(t.Context(), "k", limits, 1)
		require.NoError(t, err)
		_, err = limiter.Wait(t.Context(), "k", limits, 1)
		require.ErrorIs(t, err, ratelimit.ErrNoModule)
		s.MustDo("MODULE", "LOAD", so)
		time.Sleep(6 * time.Minute)
		_, err = limiter.Wait(t.Context(), "k", limits, 1)
		require.NoError(t, err)
	})
}

// A pipeline is sent before anybody knows what the server has, so Queue says what to do instead.
func TestQueueSaysThatItNeedsTheModule(t *testing.T) {
	t.Parallel()
	pipe := server.Start(t, server.WithoutModule()).Client().Pipeline()
	reply := pipelimit.Queue(t.Context(), pipe, ratelimit.Call{Keys: []ratelimit.Key{{Name: "k", Limits: fiveADay}}, Cost: 1})
	_, _ = pipe.Exec(t.Context())
	_, err := reply.Result()
	require.ErrorIs(t, err, ratelimit.ErrNoModule)
	require.ErrorContains(t, err, "Queue sends commands of the module alone; without it, call a Limiter on Share")
	require.False(t, ratelimit.IsOutage(err))
}

// Callers that come at the same time have the library loaded once, and each is charged once.
func TestABurstOfFirstCallsLoadsTheLibraryOnce(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	s := server.Start(t, server.WithoutModule())
	var log kit.Log
	limiter := limiterOn(s.Client(func(o *redis.Options) { o.PoolSize = 50 }), &log, 0)
	const many = 200
	limits := ratelimit.Limits{ratelimit.Rate(many, day)}
	var asking sync.WaitGroup
	for range many {
		asking.Go(func() {
			result, err := limiter.Limit(t.Context(), "k", limits, 1)
			assert.NoError(t, err)
			assert.False(t, result.Limited)
		})
	}
	asking.Wait()
	result, err := limiter.Peek(t.Context(), "k", limits, 1)
	require.NoError(t, err)
	assert.Zero(t, result.Remaining)
	assert.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
	assert.Contains(t, s.Info("commandstats")["cmdstat_function|load"], "calls=1,")
}

// What a server says that became a replica is an outage in every form: Redis 7.0 puts ERR before what a script or
// function has met.
func TestAReplicaWithoutTheModuleIsAnOutage(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	for _, rights := range []string{"+function", "-function"} {
		var log kit.Log
		s := server.Start(t, server.WithoutModule())
		s.MustDo("ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", rights)
		limiter := limiterOn(s.Client(server.User("app", "secret")), &log, 0)
		limits := ratelimit.Limits{ratelimit.Rate(5, day)}
		_, err := limiter.Limit(t.Context(), "k", limits, 1)
		require.NoError(t, err, rights)
		s.MustDo("REPLICAOF", "127.0.0.1", "1")
		for range 2 {
			_, err = limiter.Limit(t.Context(), "k", limits, 1)
			require.ErrorContains(t, err, "READONLY", rights)
			assert.True(t, ratelimit.IsOutage(err), "%s: %v", rights, err)
		}
		s.MustDo("REPLICAOF", "NO", "ONE")
		_, err = limiter.Limit(t.Context(), "k", limits, 1)
		require.NoError(t, err, rights)
	}
}

// Each master of a cluster is asked by itself, also one to which a slot moves.
func TestMastersOfAClusterGetTheLibrary(t *testing.T) {
	t.Parallel()
	server.NeedsServer(t, "functions")
	c := topology.StartCluster(t, server.WithoutModule())
	for library, client := range onCluster(t, c) {
		var log kit.Log
		limiter := limiterOn(client, &log, 0)
		for round := range 2 {
			for i := range 30 {
				result, err := limiter.Limit(t.Context(), fmt.Sprint(library, i), fiveADay, 1)
				require.NoError(t, err)
				assert.EqualValues(t, 4-round, result.Remaining)
			}
		}
		for _, master := range c.Masters() {
			assert.EqualValues(t, functions.Version(), master.Do("FCALL_RO", "cl_version", "0").Int)
			master.MustDo("FUNCTION", "FLUSH")
		}
		assert.Equal(t, len(c.Masters()), strings.Count(log.String(), "\n"), log.String())
	}
}
