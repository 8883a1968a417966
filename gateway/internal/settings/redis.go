package settings

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Client connects to Redis when it is first needed. A call fails fast when Redis is in trouble.
func (r *Redis) Client(certificates *Certificates) (redis.UniversalClient, error) {
	o := &redis.UniversalOptions{
		DialTimeout: r.Timeout, ReadTimeout: r.Timeout, WriteTimeout: r.Timeout, PoolTimeout: r.Timeout,
		DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: r.PoolSize, PipelinePoolSize: -1,
		DisableIdentity: true, // a user with the rights that the page names may not tell it
	}
	err := r.address(o)
	if err != nil {
		return nil, err
	}
	if r.Auth != "" {
		o.Username, o.Password = credentials(r.Auth)
	}
	o.SentinelUsername, o.SentinelPassword = credentials(r.SentinelAuth)
	if r.TLS || o.TLSConfig != nil {
		secure, err := r.tls(certificates)
		if err != nil {
			return nil, err
		}
		o.TLSConfig = nil
		o.Dialer = func(ctx context.Context, network, address string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, r.Timeout)
			defer cancel()
			return (&tls.Dialer{NetDialer: &net.Dialer{KeepAlive: keepAlive}, Config: secure()}).DialContext(ctx, network, address)
		}
	}
	return redis.NewUniversalClient(o), nil
}

// keepAlive is how often a connection that is idle is tried, as go-redis has it.
const keepAlive = 5 * time.Minute

// plain says that connections are without TLS.
func (r *Redis) plain() bool { return !r.TLS && !strings.HasPrefix(r.URL, "rediss://") }

// credentials are in the form password or user:password.
func credentials(text string) (user, password string) {
	if user, password, found := strings.Cut(text, ":"); found {
		return user, password
	}
	return "", text
}

// address reads where Redis is. A path is a Unix socket.
func (r *Redis) address(o *redis.UniversalOptions) (err error) {
	o.Addrs = strings.Split(r.URL, ",")
	isURL := strings.ToUpper(r.Type) == "SINGLE" && strings.Contains(r.URL, "://")
	isPath := r.SocketType == "unix" || strings.HasPrefix(r.URL, "/")
	if !isURL && !isPath && (strings.Contains(r.URL, "@") || strings.Contains(r.URL, "://")) { // errors about addresses repeat them
		return errors.New("REDIS_URL must be host:port, or for CLUSTER and SENTINEL several of them: a password goes into REDIS_AUTH, and only a SINGLE server has a URL")
	}
	switch strings.ToUpper(r.Type) {
	case "SINGLE":
		switch {
		case len(o.Addrs) != 1:
			return errors.New("REDIS_URL names several servers: REDIS_TYPE is CLUSTER or SENTINEL then")
		case isURL:
			parsed, err := redis.ParseURL(r.URL)
			if err != nil {
				return errors.New("REDIS_URL is no URL of Redis, such as redis://host:6379, rediss:// or unix:///path") // it may hold a password
			}
			o.Addrs[0], o.Username, o.Password, o.DB, o.TLSConfig = parsed.Addr, parsed.Username, parsed.Password, parsed.DB, parsed.TLSConfig
		case r.SocketType == "unix":
			o.Addrs[0], err = filepath.Abs(r.URL)
		}
	case "CLUSTER":
		o.IsClusterMode = true
	case "SENTINEL":
		if len(o.Addrs) < 2 {
			return errors.New("REDIS_URL needs the name of the master and the sentinels: NAME,host:port,host:port")
		}
		o.MasterName, o.Addrs = o.Addrs[0], o.Addrs[1:]
	default:
		return fmt.Errorf("REDIS_TYPE=%s: expected SINGLE, SENTINEL or CLUSTER", r.Type)
	}
	return err
}

// tls makes the configuration of each connection anew, with the certificates that the files hold then.
func (r *Redis) tls(certificates *Certificates) (func() *tls.Config, error) {
	pair, err := keepPair(certificates, "REDIS_TLS_CLIENT_CERT", r.TLSCert, r.TLSKey)
	if err != nil {
		return nil, err
	}
	authorities, err := keepPool(certificates, "REDIS_TLS_CACERT", r.TLSCA)
	if err != nil {
		return nil, err
	}
	return func() *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: authorities.get()}
		if own := pair.get(); own != nil {
			c.Certificates = []tls.Certificate{*own}
		}
		if r.TLSAnyName {
			acceptAnyName(c)
		}
		return c
	}, nil
}

// acceptAnyName checks the certificate of a server, but not for which host it is.
func acceptAnyName(c *tls.Config) {
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(state tls.ConnectionState) error {
		o := x509.VerifyOptions{Roots: c.RootCAs, Intermediates: x509.NewCertPool()}
		for _, more := range state.PeerCertificates[1:] {
			o.Intermediates.AddCert(more)
		}
		_, err := state.PeerCertificates[0].Verify(o)
		return err
	}
}

// pool is the certificates of a file, and no others: a certificate that any authority of the system has signed is not
// enough where the file names one. It is nil without a file.
func pool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all := x509.NewCertPool()
	if !all.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return all, nil
}
