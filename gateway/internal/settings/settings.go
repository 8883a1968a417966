// Package settings reads the environment. The variables are upstream's where it has them.
package settings

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"redis-throttle/gateway/internal/config"
)

// Settings are how the gateway runs. What it limits is in files, or comes from a management server.
type Settings struct {
	Host              string            `env:"HOST" envDefault:"0.0.0.0"`
	Port              int               `env:"PORT" envDefault:"8080"`
	GrpcHost          string            `env:"GRPC_HOST" envDefault:"0.0.0.0"`
	GrpcPort          int               `env:"GRPC_PORT" envDefault:"8081"`
	GrpcUds           string            `env:"GRPC_UDS"`
	GrpcMaxAge        time.Duration     `env:"GRPC_MAX_CONNECTION_AGE" envDefault:"24h"`
	GrpcMaxAgeGrace   time.Duration     `env:"GRPC_MAX_CONNECTION_AGE_GRACE" envDefault:"1h"`
	GrpcUseTLS        bool              `env:"GRPC_SERVER_USE_TLS"`
	GrpcTLSCert       string            `env:"GRPC_SERVER_TLS_CERT"`
	GrpcTLSKey        string            `env:"GRPC_SERVER_TLS_KEY"`
	GrpcClientCA      string            `env:"GRPC_CLIENT_TLS_CACERT"`
	DebugHost         string            `env:"DEBUG_HOST" envDefault:"127.0.0.1"`
	DebugPort         int               `env:"DEBUG_PORT" envDefault:"6070"`
	ConsoleToken      string            `env:"CONSOLE_TOKEN"`
	ConsoleHosts      []string          `env:"CONSOLE_HOSTS"`
	UsePrometheus     bool              `env:"USE_PROMETHEUS" envDefault:"true"`
	PrometheusAddr    string            `env:"PROMETHEUS_ADDR" envDefault:":9090"`
	PrometheusPath    string            `env:"PROMETHEUS_PATH" envDefault:"/metrics"`
	LogLevel          string            `env:"LOG_LEVEL" envDefault:"INFO"`
	LogFormat         string            `env:"LOG_FORMAT" envDefault:"text"`
	ShutdownTimeout   time.Duration     `env:"SHUTDOWN_TIMEOUT" envDefault:"20s"`
	ShutdownDelay     time.Duration     `env:"SHUTDOWN_DELAY" envDefault:"0s"`
	MaxRequestBytes   int               `env:"MAX_REQUEST_BYTES" envDefault:"4194304"`
	MaxConcurrency    int               `env:"MAX_CONCURRENCY" envDefault:"4096"`
	MaxDescriptors    int               `env:"MAX_DESCRIPTORS" envDefault:"128"`
	RuntimeRoot       string            `env:"RUNTIME_ROOT" envDefault:"/srv/runtime_data/current"`
	RuntimeSub        string            `env:"RUNTIME_SUBDIRECTORY"`
	RuntimeApp        string            `env:"RUNTIME_APPDIRECTORY" envDefault:"config"`
	MergeDomains      bool              `env:"MERGE_DOMAIN_CONFIG"`
	ShadowMode        bool              `env:"SHADOW_MODE"`
	QuotaMode         bool              `env:"QUOTA_MODE"`
	DynamicMetadata   bool              `env:"RESPONSE_DYNAMIC_METADATA"`
	NearLimitRatio    float64           `env:"NEAR_LIMIT_RATIO" envDefault:"0.8"`
	CacheKeyPrefix    string            `env:"CACHE_KEY_PREFIX"`
	Denials           int               `env:"DENIALS" envDefault:"10000"`
	DenialAge         time.Duration     `env:"DENIAL_AGE" envDefault:"10s"`
	Replicas          int               `env:"REPLICAS" envDefault:"1"`
	Headers           bool              `env:"LIMIT_RESPONSE_HEADERS_ENABLED"`
	LimitHeader       string            `env:"LIMIT_LIMIT_HEADER" envDefault:"RateLimit-Limit"`
	RemainingHeader   string            `env:"LIMIT_REMAINING_HEADER" envDefault:"RateLimit-Remaining"`
	ResetHeader       string            `env:"LIMIT_RESET_HEADER" envDefault:"RateLimit-Reset"`
	HealthNeedsConfig bool              `env:"HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED"`
	ForceStart        bool              `env:"FORCE_START_WITHOUT_INITIAL_CONFIG"`
	ExplainToken      string            `env:"EXPLAIN_TOKEN"`
	ExtraTags         map[string]string `env:"EXTRA_TAGS"`
	GrpcClientSAN     string            `env:"GRPC_CLIENT_TLS_SAN"`
	HTTPUseTLS        bool              `env:"HTTP_SERVER_USE_TLS"`
	HTTPTLSCert       string            `env:"HTTP_SERVER_TLS_CERT"`
	HTTPTLSKey        string            `env:"HTTP_SERVER_TLS_KEY"`
	HTTPClientCA      string            `env:"HTTP_CLIENT_TLS_CACERT"`
	HTTPClientSAN     string            `env:"HTTP_CLIENT_TLS_SAN"`
	WatchRoot         bool              `env:"RUNTIME_WATCH_ROOT" envDefault:"true"`
	HealthNeedsRedis  bool              `env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"`

	Redis   Redis   `envPrefix:"REDIS_"`
	Tracing Tracing `envPrefix:"TRACING_"`
	Xds     Xds     `envPrefix:""`

	Level slog.Level // that LOG_LEVEL names

	ConfigType string `env:"CONFIG_TYPE" envDefault:"FILE"`

	// What cannot be had is refused instead of ignored.
	BackendType string `env:"BACKEND_TYPE" envDefault:"redis"`
	PerSecond   bool   `env:"REDIS_PERSECOND"`
}

// Redis is where Redis is.
type Redis struct {
	SocketType   string        `env:"SOCKET_TYPE"`
	Type         string        `env:"TYPE" envDefault:"SINGLE"`
	URL          string        `env:"URL" envDefault:"127.0.0.1:6379"`
	Auth         string        `env:"AUTH"`
	SentinelAuth string        `env:"SENTINEL_AUTH"`
	PoolSize     int           `env:"POOL_SIZE"`
	Timeout      time.Duration `env:"TIMEOUT" envDefault:"250ms"`
	Commands     string        `env:"COMMANDS" envDefault:"auto"`
	Policies     string        `env:"POLICIES" envDefault:"throttle:policies"` // the name of the hash, "" for none
	TLS          bool          `env:"TLS"`
	TLSCert      string        `env:"TLS_CLIENT_CERT"`
	TLSKey       string        `env:"TLS_CLIENT_KEY"`
	TLSCA        string        `env:"TLS_CACERT"`
	TLSAnyName   bool          `env:"TLS_SKIP_HOSTNAME_VERIFICATION"`
}

// Tracing is where traces go. The exporter has the variables of OpenTelemetry, such as OTEL_EXPORTER_OTLP_ENDPOINT.
type Tracing struct {
	Enabled   bool    `env:"ENABLED"`
	Service   string  `env:"SERVICE_NAME" envDefault:"RateLimit"`
	Namespace string  `env:"SERVICE_NAMESPACE"`
	Instance  string  `env:"SERVICE_INSTANCE_ID"`
	Protocol  string  `env:"EXPORTER_PROTOCOL" envDefault:"http"`
	Rate      float64 `env:"SAMPLING_RATE" envDefault:"1"`
}

// Read reads the environment.
func Read() (*Settings, error) {
	s := &Settings{}
	if err := env.Parse(s); err != nil {
		return nil, unparsed(err)
	}
	if name, isSet := os.LookupEnv("REDIS_POLICIES"); isSet { // package env takes an empty variable for none
		s.Redis.Policies = name
	}
	return s, s.check()
}

// unparsed tells of variables what package env tells of fields.
func unparsed(err error) error {
	var all env.AggregateError
	if !errors.As(err, &all) {
		return err
	}
	variables := map[string]string{}
	variablesOf(reflect.TypeFor[Settings](), "", variables)
	var told []error
	for _, err := range all.Errors {
		var wrong env.ParseError
		if errors.As(err, &wrong) {
			name := variables[wrong.Name]
			err = fmt.Errorf("%s=%s: expected %s", name, os.Getenv(name), expected(wrong.Type))
		}
		told = append(told, err)
	}
	return errors.Join(told...)
}

// variablesOf notes the variable of each field. No two fields have the same name.
func variablesOf(of reflect.Type, prefix string, to map[string]string) {
	for i := range of.NumField() {
		field := of.Field(i)
		if name, ok := field.Tag.Lookup("env"); ok {
			to[field.Name] = prefix + name
		} else if inner, ok := field.Tag.Lookup("envPrefix"); ok {
			variablesOf(field.Type, prefix+inner, to)
		}
	}
}

func expected(of reflect.Type) string {
	switch {
	case of == reflect.TypeFor[time.Duration]():
		return "a duration, such as 250ms or 24h"
	case of.Kind() == reflect.Bool:
		return "true or false"
	case of.Kind() == reflect.Int:
		return "an integer"
	case of.Kind() == reflect.Map:
		return "name:value,name:value"
	}
	return "a number"
}

func (s *Settings) check() error {
	switch {
	case s.ConfigType != files && s.ConfigType != sotw:
		return fmt.Errorf("CONFIG_TYPE=%s: expected FILE or GRPC_XDS_SOTW", s.ConfigType)
	case s.BackendType != "redis":
		return fmt.Errorf("BACKEND_TYPE=%s: limits are kept in Redis or Valkey; only redis is supported", s.BackendType)
	case s.PerSecond:
		return errors.New("REDIS_PERSECOND=true: one server decides all limits of a request at once; unset it")
	case !s.level():
		return fmt.Errorf("LOG_LEVEL=%s: expected TRACE, DEBUG, INFO, WARN or ERROR", s.LogLevel)
	case s.LogFormat != "text" && s.LogFormat != "json":
		return fmt.Errorf("LOG_FORMAT=%s: expected text or json", s.LogFormat)
	case s.MaxRequestBytes < 1 || s.MaxConcurrency < 1 || s.MaxDescriptors < 1 || s.Replicas < 1:
		return errors.New("MAX_REQUEST_BYTES, MAX_CONCURRENCY, MAX_DESCRIPTORS and REPLICAS must be positive")
	case !isShare(s.NearLimitRatio): // NaN is none
		return fmt.Errorf("NEAR_LIMIT_RATIO=%v: expected 0 to 1", s.NearLimitRatio)
	case !isShare(s.Tracing.Rate):
		return fmt.Errorf("TRACING_SAMPLING_RATE=%v: expected 0 to 1", s.Tracing.Rate)
	case s.ShutdownTimeout < 0 || s.ShutdownDelay < 0 || s.GrpcMaxAge < 0 || s.GrpcMaxAgeGrace < 0 || s.DenialAge < 0:
		return errors.New("SHUTDOWN_DELAY, SHUTDOWN_TIMEOUT, GRPC_MAX_CONNECTION_AGE, GRPC_MAX_CONNECTION_AGE_GRACE and DENIAL_AGE must not be negative")
	case s.Redis.PoolSize < 0 || s.Denials < -1:
		return errors.New("REDIS_POOL_SIZE must not be negative, nor DENIALS less than -1, which remembers none")
	case s.Redis.PoolSize > mostConnections:
		return fmt.Errorf("REDIS_POOL_SIZE=%d: expected at most %d", s.Redis.PoolSize, mostConnections)
	case s.Redis.SocketType != "" && s.Redis.SocketType != "tcp" && s.Redis.SocketType != "unix":
		return fmt.Errorf("REDIS_SOCKET_TYPE=%s: expected tcp or unix", s.Redis.SocketType)
	case s.Redis.plain() && (s.Redis.TLSCA != "" || s.Redis.TLSCert != "" || s.Redis.TLSKey != "" || s.Redis.TLSAnyName):
		return errors.New("REDIS_TLS_CACERT and the like are for TLS to Redis: set REDIS_TLS=true, or unset them")
	case s.MaxRequestBytes > math.MaxInt32:
		return fmt.Errorf("MAX_REQUEST_BYTES=%d: expected at most %d", s.MaxRequestBytes, math.MaxInt32)
	case !strings.HasPrefix(s.PrometheusPath, "/"):
		return fmt.Errorf("PROMETHEUS_PATH=%s: expected a path, such as /metrics", s.PrometheusPath)
	case s.badTag() != "":
		return fmt.Errorf("EXTRA_TAGS: %s is no name of a label: expected letters, digits and _, and neither le nor quantile, which Prometheus has", s.badTag())
	case !fieldName.MatchString(s.LimitHeader), !fieldName.MatchString(s.RemainingHeader), !fieldName.MatchString(s.ResetHeader):
		return errors.New("LIMIT_LIMIT_HEADER, LIMIT_REMAINING_HEADER and LIMIT_RESET_HEADER are names of header fields, such as RateLimit-Limit")
	case s.Tracing.Protocol != "http" && s.Tracing.Protocol != "grpc":
		return fmt.Errorf("TRACING_EXPORTER_PROTOCOL=%s: expected http or grpc", s.Tracing.Protocol)
	case s.Redis.Commands != "auto" && s.Redis.Commands != "module" && s.Redis.Commands != "functions":
		return fmt.Errorf("REDIS_COMMANDS=%s: expected auto, module or functions", s.Redis.Commands)
	case strings.Contains(s.CacheKeyPrefix, "{}"):
		return fmt.Errorf("CACHE_KEY_PREFIX=%s: with {} in it, a cluster does not keep the keys of a domain together", s.CacheKeyPrefix)
	case s.ExplainToken != "" && !explainToken.MatchString(s.ExplainToken):
		return errors.New("EXPLAIN_TOKEN: expected 16 to 200 printable characters without blanks, such as those of openssl rand -hex 16") // not repeated
	case s.Redis.Timeout <= 0:
		return errors.New("REDIS_TIMEOUT must be positive")
	}
	if err := cmp.Or(s.ofGrpc().check(), s.ofHTTP().check()); err != nil || !s.ByXds() {
		return err
	}
	return s.Xds.check()
}

// The values of CONFIG_TYPE.
const (
	files = "FILE"
	sotw  = "GRPC_XDS_SOTW"
)

// ByXds says that the configuration comes from a management server, and not from files.
func (s *Settings) ByXds() bool { return s.ConfigType == sotw }

// badTag is a name in EXTRA_TAGS that no label can have in a query as it is.
func (s *Settings) badTag() string {
	for name := range s.ExtraTags {
		if !labelName.MatchString(name) || name == "le" || name == "quantile" {
			return name
		}
	}
	return ""
}

var labelName = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)

// explainToken is what a header field passes on unchanged, and nobody guesses.
var explainToken = regexp.MustCompile("^[!-~]{16,200}$")

// fieldName is a token of HTTP. Envoy passes others on as they are.
var fieldName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]+$")

// mostConnections is how many ports a host has for connections to one server.
const mostConnections = 65535

func isShare(f float64) bool { return f >= 0 && f <= 1 }

// level reads LOG_LEVEL. The names are upstream's, those of package logrus, beside those of log/slog.
func (s *Settings) level() bool {
	text := strings.ToUpper(s.LogLevel)
	if other, ok := map[string]string{"TRACE": "DEBUG-4", "WARNING": "WARN", "FATAL": "ERROR+4", "PANIC": "ERROR+8"}[text]; ok {
		text = other
	}
	return s.Level.UnmarshalText([]byte(text)) == nil
}

// Folder is where upstream looks for files. With RUNTIME_WATCH_ROOT, files beside it whose names begin with its name
// and a dot count, too.
func (s *Settings) Folder() string {
	folder := s.folder()
	if s.WatchRoot {
		return config.WithSiblings(folder)
	}
	return folder
}

func (s *Settings) folder() string { return filepath.Join(s.RuntimeRoot, s.RuntimeSub, s.RuntimeApp) }
