package gateway_test

import (
	"crypto/tls"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"redis-throttle/internal/runnable"
	"redis-throttle/internal/size"
	"redis-throttle/tests/kit"
	"redis-throttle/tests/server"
)

func shipped(t testing.TB, path ...string) string {
	t.Helper()
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	text, err := os.ReadFile(filepath.Join(append([]string{root}, path...)...))
	require.NoError(t, err)
	return string(text)
}

// The files with limits that a release has beside the program have no mistakes.
func TestTheLimitsThatShipAreValid(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "web.yaml")
	require.NoError(t, os.WriteFile(path, []byte(shipped(t, "packaging", "gateway", "config", "web.yaml")), 0o644))
	printed, err := kit.GatewayCommand(t, "", "check", path).CombinedOutput()
	assert.NoError(t, err)
	assert.Equal(t, "ok: 1 domains\n", string(printed))
}

// Each metric of the dashboard is one of the gateway, once the gateway has decided, denied and refused something.
func TestTheDashboardShowsWhatTheGatewayCounts(t *testing.T) {
	t.Parallel()
	s := server.Start(t)
	g := start(t, s.Addr(), basic)
	require.Equal(t, "OVER 0!", g.asks(ask("shop", 11, "user=1")))
	require.Equal(t, "OK 0", g.asks(ask("shop", 2, "tried=x")))
	s.Kill()
	require.Contains(t, g.asks(ask("shop", 0, "user=2")), "Unavailable")
	names := regexp.MustCompile(`\b(throttle_gateway|ratelimit_service)_[a-z_]+`).FindAllString(shipped(t, "docs", "grafana", "gateway.json"), -1)
	require.NotEmpty(t, names)
	_, metrics := g.getFrom("metrics", "/metrics", nil)
	for _, name := range names {
		assert.Regexp(t, "(?m)^"+name+"[{ ]", metrics)
	}
}

// instructions are what stands behind an instruction of the Dockerfile's last stage.
func instructions(t testing.TB, name string) (found []string) {
	t.Helper()
	_, stage, ok := strings.Cut(shipped(t, "gateway", "Dockerfile"), "FROM scratch\n")
	require.True(t, ok)
	for line := range strings.Lines(stage) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			found = append(found, strings.TrimSpace(rest))
		}
	}
	require.NotEmpty(t, found, name)
	return found
}

// image makes the file system of the image, which holds the program, its second name and the authorities and nothing
// else.
func image(t testing.TB, authorities string) string {
	t.Helper()
	size.NeedsFull(t) // which builds the static program
	if os.Getuid() != 0 {
		t.Skip("only root may chroot")
	}
	image := t.TempDir()
	link := regexp.MustCompile(`ln -s (\S+) /names(/\S+)`).FindStringSubmatch(shipped(t, "gateway", "Dockerfile"))
	require.Len(t, link, 3)
	for _, copied := range instructions(t, "COPY") {
		words := strings.Fields(copied) // --from=build SOURCE TARGET
		require.Len(t, words, 3)
		source, target := kit.GatewayCommand(t, "").Path, filepath.Join(image, words[2])
		if words[1] == "/names/" {
			require.NoError(t, os.MkdirAll(filepath.Dir(image+link[2]), 0o755))
			require.NoError(t, os.Symlink(link[1], image+link[2]))
			continue
		}
		if strings.HasSuffix(words[2], "/") {
			source, target = authorities, filepath.Join(target, filepath.Base(words[1]))
		}
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		require.NoError(t, os.MkdirAll(filepath.Dir(target), 0o755))
		runnable.Write(t, target, string(text))
	}
	return image
}

// In the file system of the image, as the image's user, the gateway serves: it needs no folder for temporary files, no
// time zones and no libraries.
func TestTheFilesOfTheImageAreEnough(t *testing.T) {
	t.Parallel()
	dir, _ := server.Certificate(t)
	image := image(t, dir+"/crt")
	config := "domain: web\ndescriptors:\n- key: user\n  limits: [FIXED 10/mo TZ Europe/Berlin]\n"
	require.NoError(t, os.Mkdir(filepath.Join(image, "limits"), 0o755)) // as a volume
	require.NoError(t, os.WriteFile(filepath.Join(image, "limits", "web.yaml"), []byte(config), 0o644))
	var uid, gid uint32
	_, err := fmt.Sscanf(instructions(t, "USER")[0], "%d:%d", &uid, &gid)
	require.NoError(t, err)
	require.NotZero(t, uid)
	entry := strings.Trim(instructions(t, "ENTRYPOINT")[0], `[]"`)
	inImage := func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args, cmd.Dir = entry, []string{entry, "/limits"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: uid, Gid: gid}, Pdeathsig: syscall.SIGKILL}
	}
	g := startAs(t, inImage, server.Start(t).Addr(), config)
	assert.Equal(t, "OK 9", g.asks(ask("web", 0, "user=1")))

	secure, at := tlsServer(t, dir)
	g = startAs(t, inImage, "rediss://"+at, config)
	assert.Equal(t, "OK 9", g.asks(ask("web", 0, "user=1")), "an authority of the image's file has signed")
	assert.Positive(t, calls(secure))
}

// Envoy Gateway has no command or variables of its rate limit service changed with the image: what it starts, starts
// here, as its user and with its certificates.
func TestTheImageTakesThePlaceOfEnvoyGatewaysOwn(t *testing.T) {
	t.Parallel()
	dir, pool := server.Certificate(t)
	image := image(t, dir+"/crt")
	require.NoError(t, os.Mkdir(filepath.Join(image, "certs"), 0o755))
	for from, to := range map[string]string{"crt": "tls.crt", "key": "tls.key"} {
		text, err := os.ReadFile(filepath.Join(dir, from))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(image, "certs", to), text, 0o644))
	}
	require.NoError(t, os.Symlink("tls.crt", filepath.Join(image, "certs", "ca.crt")))
	m := envoyGateway(t, dir, pool)
	g := startAs(t, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args, cmd.Dir = "/bin/ratelimit", []string{"/bin/ratelimit"}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: 65534, Gid: 65534}, Pdeathsig: syscall.SIGKILL}
	}, server.Start(t).Addr(), "", byEnvoyGateway(m.address, "/certs/tls.crt", "/certs/tls.key", "/certs/ca.crt")...)
	health, _ := g.get("/healthcheck", nil)
	assert.Equal(t, 200, health.StatusCode, "its probes ask so before anybody has configured a limit")
	assert.Equal(t, "ACK", m.setAnd(yearly("shop", 10, "user")))
	conn, err := grpc.NewClient(g.At["grpc"], grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: pool})))
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	answer, err := rls.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), ask("shop", 0, "user=1"))
	require.NoError(t, err)
	assert.EqualValues(t, 9, answer.Statuses[0].LimitRemaining)
}

// Envoy and the limits of the compose file: an address may ask ten times a minute. Names and ports of containers become
// addresses here.
func TestEnvoyOfTheComposeFileLimits(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	program(t, "envoy")
	g := start(t, server.Start(t).Addr(), shipped(t, "packaging", "gateway", "config", "web.yaml"), "LIMIT_RESPONSE_HEADERS_ENABLED=true")
	host, grpcPort, _ := net.SplitHostPort(g.At["grpc"])
	port := strconv.Itoa(server.FreePort(t))
	serveEnvoy(t, strings.NewReplacer("address: gateway", "address: "+host, "port_value: 8081", "port_value: "+grpcPort,
		"0.0.0.0", "127.0.0.1", "port_value: 10000", "port_value: "+port, "port_value: 8000", fmt.Sprintf("port_value: %d", server.FreePort(t))).Replace(shipped(t, "packaging", "gateway", "envoy.yaml")))
	served, began := 0, time.Now()
	answer := ""
	await(t, "Envoy has denied", func() bool {
		answer = answered(t, "127.0.0.1", "127.0.0.1:"+port, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
		if statusOf(answer) == "200" {
			served++
		}
		return statusOf(answer) == "429"
	})
	assert.GreaterOrEqual(t, served, 10)
	assert.LessOrEqual(t, served, 10+int(time.Since(began)/(6*time.Second)))
	assert.Regexp(t, "(?i)\r\nratelimit-limit: .", answer, "fields of the gateway's are added")
}

// insideUnit makes a system for the unit inside of namespaces of its own: the program and its files where the unit has
// them, and targets that do nothing in place of a whole system's. Then systemd runs the unit as the first process.
const insideUnit = `set -e
mount --make-rprivate /
mount -t proc proc /proc
mount -t tmpfs tmpfs /run
mkdir -p /run/over/up /run/over/work /run/units
mount -t overlay overlay -o lowerdir=/etc,upperdir=/run/over/up,workdir=/run/over/work /etc
mount -t tmpfs tmpfs /usr/local/bin
cp "$PROGRAM" /usr/local/bin/throttle-gateway
mkdir -p /etc/throttle-gateway
cp -r "$RUNTIME_ROOT/config" /etc/throttle-gateway
env | grep -E '^(REDIS_|HOST=|PORT=|GRPC_|DEBUG_|PROMETHEUS_)' > /etc/throttle-gateway/environment
cp "$UNIT" /run/units
mkdir /run/units/throttle-gateway.service.d
printf '[Service]\nStandardError=append:/run/log\n' > /run/units/throttle-gateway.service.d/log.conf
touch /run/log
tail -f /run/log >&2 &
for target in basic sysinit shutdown network-online multi-user; do
	printf '[Unit]\nDescription=%s\nDefaultDependencies=no\n' $target > /run/units/$target.target
done
exec env -i container=unshare SYSTEMD_UNIT_PATH=/run/units /lib/systemd/systemd --system --unit=throttle-gateway.service \
	--log-target=null --show-status=no
`

// systemd takes the unit and runs it: as a user that exists for it alone, with nothing that root may do, and again when
// it was killed.
func TestSystemdRunsTheUnit(t *testing.T) {
	t.Parallel()
	size.NeedsFull(t)
	root, err := server.RepositoryRoot()
	require.NoError(t, err)
	unit := filepath.Join(root, "packaging", "gateway", "throttle-gateway.service")
	if _, err := os.Stat("/lib/systemd/systemd"); err != nil || os.Getuid() != 0 {
		t.Skip("systemd and root are needed")
	}
	alone := []string{"--pid", "--mount", "--ipc", "--uts", "--cgroup", "--fork", "--kill-child"}
	if out, err := exec.Command("unshare", append(alone, "mount", "-t", "tmpfs", "tmpfs", "/mnt")...).CombinedOutput(); err != nil {
		t.Skipf("no namespaces here: %s", out)
	}
	s := server.Start(t)
	var cmd *exec.Cmd
	g := startAs(t, func(c *exec.Cmd) {
		cmd = c
		c.Path, _ = exec.LookPath("unshare")
		c.Args = append(append([]string{"unshare"}, alone...), "sh", "-c", insideUnit)
		c.Env = append(c.Env, "PROGRAM="+kit.GatewayCommand(t, "").Path, "UNIT="+unit)
	}, s.Addr(), basic)
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // systemd, which is the first process of its namespace, does not end at SIGTERM
	assert.Equal(t, "OK 9", g.asks(ask("shop", 0, "user=1")))
	running := func() (pid int) {
		programs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range programs {
			line, _ := os.ReadFile(path)
			env, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
			if string(line) == "/usr/local/bin/throttle-gateway\x00" && strings.Contains(string(env), "REDIS_URL="+s.Addr()+"\x00") {
				pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
			}
		}
		return pid
	}
	first := running()
	require.NotZero(t, first)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", first))
	require.NoError(t, err)
	assert.NotRegexp(t, `Uid:\s+0\s`, string(status))
	assert.Regexp(t, `CapEff:\s+0+\n`, string(status))
	assert.Regexp(t, `NoNewPrivs:\s+1\n`, string(status))
	require.NoError(t, syscall.Kill(first, syscall.SIGKILL))
	await(t, "systemd starts it again", func() bool { pid := running(); return pid != 0 && pid != first })
	await(t, "it listens", func() bool { return strings.Count(g.Log(), "for=grpc") == 2 })
	require.NoError(t, syscall.Kill(running(), syscall.SIGTERM))
	await(t, "it ends in order", func() bool { return running() == 0 && strings.Contains(g.Log(), `msg="redis-throttle: stopping"`) })
}
