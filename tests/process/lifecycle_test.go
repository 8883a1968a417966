package process_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
	"redis-throttle/tests/sharedlib"
)

func TestModuleListAndLogNameTheModule(t *testing.T) {
	server.NeedsServer(t, "a log")
	t.Parallel()
	s := server.Start(t)
	modules := kit.ThrottleModules(s)
	require.Len(t, modules, 1)

	lines := s.LogLines("<throttle>")
	require.Len(t, lines, 1, "one line when it is loaded:\n%s", s.Log())
	m := regexp.MustCompile(`throttle (\d+)\.(\d+)\.(\d+) \(commit (\w+), (go\S+)\)`).FindStringSubmatch(lines[0])
	require.NotNil(t, m, "version, commit and Go version in %q", lines[0])
	assert.Equal(t, runtime.Version(), m[5])
	var number int64
	for _, part := range m[1:4] {
		var n int64
		_, err := fmt.Sscan(part, &n)
		require.NoError(t, err)
		number = number*100 + n
	}
	assert.Equal(t, number, modules[0]["ver"].Int, "MODULE LIST and log agree")
	assert.Positive(t, number)
}

// A module that has one of our commands, as redis-cell has.
const otherThrottle = `
static int run(void *ctx, void **argv, int argc) { return (void)ctx, (void)argv, argc < 0; }

int RedisModule_OnLoad(void *ctx) {
  int (*get)(const char *, void *) = *(int (**)(const char *, void *))ctx;
  void (*setModuleAttribs)(void *, const char *, int, int);
  int (*createCommand)(void *, const char *, int (*)(void *, void **, int), const char *, int, int, int);
  if (get("RedisModule_SetModuleAttribs", &setModuleAttribs) || get("RedisModule_CreateCommand", &createCommand)) return 1;
  setModuleAttribs(ctx, "other", 1, 1);
  return createCommand(ctx, "cl.throttle", run, "", 0, 0, 0);
}
`

// Beside a module that has a command of the same name, this one is not loaded, the log says why, and the other goes on.
func TestACommandOfAnotherModuleIsNamed(t *testing.T) {
	t.Parallel()
	other := sharedlib.Build(t, "other", []byte(otherThrottle))
	s := server.Start(t, server.WithoutModule(), server.Config("loadmodule "+other))
	path, err := server.ModulePath()
	require.NoError(t, err)
	require.True(t, s.Do("MODULE", "LOAD", path).IsError())
	assert.Len(t, s.LogLines("not loaded: another module has the command cl.throttle"), 1)
	assert.Empty(t, kit.ThrottleModules(s))
	assert.Contains(t, s.Do("CL.LIMIT", "k", "RATE", "1/s").Text, "unknown command")
	s.MustDo("MODULE", "UNLOAD", "other")
	s.MustDo("MODULE", "LOAD", path)
	a, err := kit.AnswerIn(s.Do(kit.RawCallOf("key", "15 30 60 1")...))
	require.NoError(t, err)
	assert.Equal(t, kit.FirstOf16, a)
}

func threadsOf(t *testing.T, s *server.Server) int {
	t.Helper()
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", s.Pid()))
	require.NoError(t, err)
	return len(tasks)
}

// However the server is told to end, it ends at once and in order, also with callers.
func TestServerEndsInOrder(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(s *server.Server){
		"SIGTERM": func(s *server.Server) { s.Signal(syscall.SIGTERM) },
		"SIGINT":  func(s *server.Server) { s.Signal(syscall.SIGINT) },
		"SHUTDOWN": func(s *server.Server) {
			c := s.Raw()
			assert.NoError(t, c.Send("SHUTDOWN"))
			assert.NoError(t, c.Flush())
		},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := server.Start(t, server.Config("save 3600 1"))
			c := s.Raw()
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				for {
					if _, err := c.Do(kit.RawCallOf("key", "15 1 1d 1")...); err != nil {
						return
					}
				}
			}()
			require.Eventually(t, func() bool { return s.Do("EXISTS", "key").Int == 1 }, 60*time.Second, time.Millisecond)
			end(s)
			state := s.AwaitEnd()
			<-ended
			assert.True(t, state.Success(), "%v", state)
			assert.Contains(t, s.Log(), "bye bye")

			s.Restart()
			assert.Equal(t, int64(1), s.MustDo("EXISTS", "key").Int, "it saved on the way out")
		})
	}
}

// A server that goes into the background forks before it loads modules; Go does not
// survive a fork, so this order is what makes daemonize work.
func TestDaemonizedServer(t *testing.T) {
	t.Parallel()
	s := server.Start(t, server.WithoutModule()) // for a folder, and a program that works
	path, err := server.ModulePath()
	require.NoError(t, err)
	dir := t.TempDir()
	d, err := server.StartDaemon(t, s.Program, dir,
		"loadmodule "+path, `save ""`, "logfile "+filepath.Join(dir, "daemon.log"))
	require.NoError(t, err)
	for range 3 {
		v, err := d.Do(kit.RawCallOf("key", "15 1 1d 1")...)
		require.NoError(t, err)
		assert.False(t, v.IsError(), "%v", v)
	}
}
