package server

import (
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"

	"redis-throttle/tests/resp"
)

// Client returns a go-redis client, RESP3 unless told otherwise. It never sends a
// command twice: a retry would take from a bucket twice.
func (s *Server) Client(opts ...func(*redis.Options)) *redis.Client {
	o := &redis.Options{
		Addr:            s.Addr(),
		Password:        s.options.password,
		MaxRetries:      -1,
		DisableIdentity: true,
		PoolSize:        200,
		DialTimeout:     startPatience,
		ReadTimeout:     startPatience,
		WriteTimeout:    startPatience,
		MaintNotificationsConfig: &maintnotifications.Config{
			Mode: maintnotifications.ModeDisabled,
		},
	}
	for _, f := range opts {
		f(o)
	}
	c := redis.NewClient(o)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// Protocol is an option of Client: RESP version 2 or 3.
func Protocol(version int) func(*redis.Options) {
	return func(o *redis.Options) { o.Protocol = version }
}

// User is an option of Client: the ACL user to authenticate as.
func User(name, password string) func(*redis.Options) {
	return func(o *redis.Options) { o.Username, o.Password = name, password }
}

// Raw opens a raw connection, RESP2 until it says HELLO 3.
func (s *Server) Raw() *resp.Conn {
	s.t.Helper()
	c := s.dial()
	done := c.Closer()
	s.t.Cleanup(func() { _ = done() })
	return c
}

// dial is Raw for a connection that its caller closes: a test may make many of them, and
// a cleanup for each would be kept until it ends.
func (s *Server) dial() *resp.Conn {
	s.t.Helper()
	c, err := resp.Dial(s.Addr())
	require.NoError(s.t, err)
	if s.options.password != "" {
		v, err := c.Do("AUTH", s.options.password)
		require.NoError(s.t, err)
		require.False(s.t, v.IsError(), "AUTH answers %v", v)
	}
	return c
}

// Do sends one command on a connection of its own and returns the reply, which may
// be an error. It is for administration: every call opens a new connection.
func (s *Server) Do(args ...string) resp.Value {
	s.t.Helper()
	c := s.dial()
	defer c.Close()
	v, err := c.Do(args...)
	require.NoError(s.t, err, "%.200q", args)
	return v
}

// MustDo is Do for a command that must not fail.
func (s *Server) MustDo(args ...string) resp.Value {
	s.t.Helper()
	v := s.Do(args...)
	if s.Program.IsDev() && saysDevLacks(v) {
		s.t.Skipf("%.200q answers %v", args, v)
	}
	require.False(s.t, v.IsError(), "%.200q answers %v", args, v)
	return v
}

// Info returns the fields of one section of INFO.
func (s *Server) Info(section string) map[string]string {
	s.t.Helper()
	return ParseInfo(s.MustDo("INFO", section).Text)
}

// InfoInt returns one field of INFO that is a number.
func (s *Server) InfoInt(section, field string) int64 {
	s.t.Helper()
	text := s.Info(section)[field]
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(s.t, err, "INFO %s has %s:%s", section, field, text)
	return n
}

// ParseInfo returns the fields of a reply to INFO.
func ParseInfo(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields
}
