// Package settings reads the environment. The variables are upstream's where it has them.
package settings

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/caarlos0/env/v11"
)

// Settings are how the gateway runs. What it limits is in files.
type Settings struct {
	Host             string        `env:"HOST" envDefault:"0.0.0.0"`
	Port             int           `env:"PORT" envDefault:"8080"`
	GrpcHost         string        `env:"GRPC_HOST" envDefault:"0.0.0.0"`
	GrpcPort         int           `env:"GRPC_PORT" envDefault:"8081"`
	GrpcUds          string        `env:"GRPC_UDS"`
	GrpcMaxAge       time.Duration `env:"GRPC_MAX_CONNECTION_AGE" envDefault:"24h"`
	GrpcMaxAgeGrace  time.Duration `env:"GRPC_MAX_CONNECTION_AGE_GRACE" envDefault:"1h"`
	GrpcUseTLS       bool          `env:"GRPC_SERVER_USE_TLS"`
	GrpcTLSCert      string        `env:"GRPC_SERVER_TLS_CERT"`
	GrpcTLSKey       string        `env:"GRPC_SERVER_TLS_KEY"`
	GrpcClientCA     string        `env:"GRPC_CLIENT_TLS_CACERT"`
	DebugHost        string        `env:"DEBUG_HOST" envDefault:"127.0.0.1"`
	DebugPort        int           `env:"DEBUG_PORT" envDefault:"6070"`
	UsePrometheus    bool          `env:"USE_PROMETHEUS" envDefault:"true"`
	PrometheusAddr   string        `env:"PROMETHEUS_ADDR" envDefault:":9090"`
	PrometheusPath   string        `env:"PROMETHEUS_PATH" envDefault:"/metrics"`
	LogLevel         string        `env:"LOG_LEVEL" envDefault:"INFO"`
	LogFormat        string        `env:"LOG_FORMAT" envDefault:"text"`
	ShutdownTimeout  time.Duration `env:"SHUTDOWN_TIMEOUT" envDefault:"20s"`
	MaxRequestBytes  int           `env:"MAX_REQUEST_BYTES" envDefault:"4194304"`
	MaxConcurrency   int           `env:"MAX_CONCURRENCY" envDefault:"4096"`
	MaxDescriptors   int           `env:"MAX_DESCRIPTORS" envDefault:"128"`
	RuntimeRoot      string        `env:"RUNTIME_ROOT" envDefault:"/srv/runtime_data/current"`
	RuntimeSub       string        `env:"RUNTIME_SUBDIRECTORY"`
	RuntimeApp       string        `env:"RUNTIME_APPDIRECTORY" envDefault:"config"`
	MergeDomains     bool          `env:"MERGE_DOMAIN_CONFIG"`
	ShadowMode       bool          `env:"SHADOW_MODE"`
	QuotaMode        bool          `env:"QUOTA_MODE"`
	DynamicMetadata  bool          `env:"RESPONSE_DYNAMIC_METADATA"`
	NearLimitRatio   float64       `env:"NEAR_LIMIT_RATIO" envDefault:"0.8"`
	CacheKeyPrefix   string        `env:"CACHE_KEY_PREFIX"`
	Denials          int           `env:"DENIALS" envDefault:"10000"`
	DenialAge        time.Duration `env:"DENIAL_AGE" envDefault:"10s"`
	Replicas         int           `env:"REPLICAS" envDefault:"1"`
	Headers          bool          `env:"LIMIT_RESPONSE_HEADERS_ENABLED"`
	LimitHeader      string        `env:"LIMIT_LIMIT_HEADER" envDefault:"RateLimit-Limit"`
	RemainingHeader  string        `env:"LIMIT_REMAINING_HEADER" envDefault:"RateLimit-Remaining"`
	ResetHeader      string        `env:"LIMIT_RESET_HEADER" envDefault:"RateLimit-Reset"`
	HealthNeedsRedis bool          `env:"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION"`

	Redis   Redis   `envPrefix:"REDIS_"`
	Tracing Tracing `envPrefix:"TRACING_"`

	Level slog.Level // that LOG_LEVEL names

	// What cannot be had is refused instead of ignored.
	ConfigType  string `env:"CONFIG_TYPE" envDefault:"FILE"`
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
		return nil, err
	}
	return s, s.check()
}

func (s *Settings) check() error {
	switch {
	case s.ConfigType != "FILE":
		return fmt.Errorf("CONFIG_TYPE=%s: the configuration is in files; only FILE is supported", s.ConfigType)
	case s.BackendType != "redis":
		return fmt.Errorf("BACKEND_TYPE=%s: limits are kept in Redis or Valkey with the module; only redis is supported", s.BackendType)
	case s.PerSecond:
		return errors.New("REDIS_PERSECOND=true: one server decides all limits of a request at once; unset it")
	case s.Level.UnmarshalText([]byte(s.LogLevel)) != nil:
		return fmt.Errorf("LOG_LEVEL=%s: expected DEBUG, INFO, WARN or ERROR", s.LogLevel)
	case s.LogFormat != "text" && s.LogFormat != "json":
		return fmt.Errorf("LOG_FORMAT=%s: expected text or json", s.LogFormat)
	case s.MaxRequestBytes < 1 || s.MaxConcurrency < 1 || s.MaxDescriptors < 1 || s.Replicas < 1:
		return errors.New("MAX_REQUEST_BYTES, MAX_CONCURRENCY, MAX_DESCRIPTORS and REPLICAS must be positive")
	case s.NearLimitRatio < 0 || s.NearLimitRatio > 1:
		return fmt.Errorf("NEAR_LIMIT_RATIO=%v: expected 0 to 1", s.NearLimitRatio)
	case s.Tracing.Protocol != "http" && s.Tracing.Protocol != "grpc":
		return fmt.Errorf("TRACING_EXPORTER_PROTOCOL=%s: expected http or grpc", s.Tracing.Protocol)
	case s.Redis.Timeout <= 0:
		return errors.New("REDIS_TIMEOUT must be positive")
	}
	return nil
}

// Folder is where upstream looks for files.
func (s *Settings) Folder() string { return filepath.Join(s.RuntimeRoot, s.RuntimeSub, s.RuntimeApp) }
