package settings

import (
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
)

// Xds is where the configuration comes from with CONFIG_TYPE=GRPC_XDS_SOTW: a management server, such as Envoy Gateway.
type Xds struct {
	NodeID          string            `env:"CONFIG_GRPC_XDS_NODE_ID" envDefault:"default"`
	NodeMetadata    string            `env:"CONFIG_GRPC_XDS_NODE_METADATA"`
	ServerURL       string            `env:"CONFIG_GRPC_XDS_SERVER_URL" envDefault:"localhost:18000"`
	ConnectRetry    time.Duration     `env:"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL" envDefault:"3s"`
	Headers         map[string]string `env:"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS"`
	UseTLS          bool              `env:"CONFIG_GRPC_XDS_SERVER_USE_TLS"`
	ClientCert      string            `env:"CONFIG_GRPC_XDS_CLIENT_TLS_CERT"`
	ClientKey       string            `env:"CONFIG_GRPC_XDS_CLIENT_TLS_KEY"`
	ServerCA        string            `env:"CONFIG_GRPC_XDS_SERVER_TLS_CACERT"`
	ServerSAN       string            `env:"CONFIG_GRPC_XDS_SERVER_TLS_SAN"`
	ServerKeepalive time.Duration     `env:"CONFIG_GRPC_XDS_SERVER_KEEPALIVE" envDefault:"6m"`
	BackoffInitial  time.Duration     `env:"XDS_CLIENT_BACKOFF_INITIAL_INTERVAL" envDefault:"10s"`
	BackoffMax      time.Duration     `env:"XDS_CLIENT_BACKOFF_MAX_INTERVAL" envDefault:"60s"`
	BackoffRandom   float64           `env:"XDS_CLIENT_BACKOFF_RANDOM_FACTOR" envDefault:"0.5"`
	BackoffJitter   bool              `env:"XDS_CLIENT_BACKOFF_JITTER" envDefault:"true"`
	MaxMessageBytes int               `env:"XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES" envDefault:"67108864"`
}

// shortestKeepalive is gRPC's bound.
const shortestKeepalive = 10 * time.Second

func (x *Xds) check() error {
	switch {
	case x.ServerURL == "":
		return errors.New("CONFIG_GRPC_XDS_SERVER_URL must name the management server, such as envoy-gateway:18001")
	case strings.HasPrefix(x.ServerURL, "http://"), strings.HasPrefix(x.ServerURL, "https://"):
		return fmt.Errorf("CONFIG_GRPC_XDS_SERVER_URL=%s: expected host:port; CONFIG_GRPC_XDS_SERVER_USE_TLS is for TLS", x.ServerURL)
	case x.ConnectRetry <= 0 || x.BackoffInitial <= 0:
		return errors.New("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL and XDS_CLIENT_BACKOFF_INITIAL_INTERVAL must be positive")
	case x.BackoffMax < x.BackoffInitial || x.BackoffMax < x.ConnectRetry:
		return errors.New("XDS_CLIENT_BACKOFF_MAX_INTERVAL must not be less than XDS_CLIENT_BACKOFF_INITIAL_INTERVAL or CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL")
	case !isShare(x.BackoffRandom):
		return fmt.Errorf("XDS_CLIENT_BACKOFF_RANDOM_FACTOR=%v: expected 0 to 1", x.BackoffRandom)
	case x.ServerKeepalive < shortestKeepalive:
		return fmt.Errorf("CONFIG_GRPC_XDS_SERVER_KEEPALIVE=%v: expected at least %v", x.ServerKeepalive, shortestKeepalive)
	case x.MaxMessageBytes < 1 || x.MaxMessageBytes > math.MaxInt32:
		return fmt.Errorf("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES=%d: expected 1 to %d", x.MaxMessageBytes, math.MaxInt32)
	case !x.UseTLS && (x.ClientCert != "" || x.ClientKey != "" || x.ServerCA != "" || x.ServerSAN != ""):
		return errors.New("CONFIG_GRPC_XDS_SERVER_TLS_CACERT and the like are for TLS: set CONFIG_GRPC_XDS_SERVER_USE_TLS, or unset them")
	}
	_, err := x.Metadata()
	return err
}

// Metadata is what the server is told of the node besides its name.
func (x *Xds) Metadata() (map[string]any, error) {
	all := map[string]any{}
	for pair := range strings.SplitSeq(x.NodeMetadata, ",") {
		key, value, found := strings.Cut(pair, "=")
		if !found && x.NodeMetadata != "" {
			return nil, fmt.Errorf("CONFIG_GRPC_XDS_NODE_METADATA=%s: expected key=value,key=value", x.NodeMetadata)
		}
		if found {
			all[key] = value
		}
	}
	return all, nil
}

// TLS makes the configuration of each connection anew, with the certificates that the files hold then; nil without TLS.
func (x *Xds) TLS(certificates *Certificates) (func() *tls.Config, error) {
	if !x.UseTLS {
		return nil, nil
	}
	pair, err := keepPair(certificates, "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", x.ClientCert, x.ClientKey)
	if err != nil {
		return nil, err
	}
	authorities, err := keepPool(certificates, "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", x.ServerCA)
	if err != nil {
		return nil, err
	}
	return func() *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities.get(), ServerName: x.ServerSAN}
		if own := pair.get(); own != nil {
			c.Certificates = []tls.Certificate{*own}
		}
		return c
	}, nil
}
