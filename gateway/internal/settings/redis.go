package settings

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"
)

// Client connects to Redis when it is first needed. A call fails fast when Redis is in trouble.
func (r *Redis) Client() (redis.UniversalClient, error) {
	o := &redis.UniversalOptions{
		DialTimeout: r.Timeout, ReadTimeout: r.Timeout, WriteTimeout: r.Timeout, PoolTimeout: r.Timeout,
		DialerRetries: 1, ContextTimeoutEnabled: true, PoolSize: r.PoolSize, PipelinePoolSize: -1,
	}
	single, err := r.address(o)
	if err != nil {
		return nil, err
	}
	switch user, password, acl := strings.Cut(r.Auth, ":"); {
	case acl:
		o.Username, o.Password = user, password
	case r.Auth != "":
		o.Password = r.Auth
	}
	if user, password, acl := strings.Cut(r.SentinelAuth, ":"); acl {
		o.SentinelUsername, o.SentinelPassword = user, password
	} else {
		o.SentinelPassword = r.SentinelAuth
	}
	if r.TLS || o.TLSConfig != nil {
		if o.TLSConfig, err = tlsConfig(r.TLSCert, r.TLSKey, r.TLSCA, r.TLSAnyName); err != nil {
			return nil, err
		}
	}
	switch {
	case o.IsClusterMode:
		return redis.NewClusterClient(o.Cluster()), nil
	case o.MasterName != "":
		return redis.NewFailoverClient(o.Failover()), nil
	}
	simple := o.Simple()
	simple.Network = single
	return redis.NewClient(simple), nil
}

// address reads where Redis is. single is the network of a single server.
func (r *Redis) address(o *redis.UniversalOptions) (single string, err error) {
	all := strings.Split(r.URL, ",")
	single = "tcp"
	switch strings.ToUpper(r.Type) {
	case "SINGLE":
		if len(all) != 1 {
			return "", errors.New("REDIS_URL names several servers: REDIS_TYPE is CLUSTER or SENTINEL then")
		}
		if strings.Contains(r.URL, "://") {
			parsed, err := redis.ParseURL(r.URL)
			if err != nil {
				return "", errors.New("REDIS_URL is no URL of Redis, such as redis://host:6379, rediss:// or unix:///path") // it may hold a password
			}
			o.Addrs, o.Username, o.Password, o.DB, o.TLSConfig = []string{parsed.Addr}, parsed.Username, parsed.Password, parsed.DB, parsed.TLSConfig
			return parsed.Network, nil
		}
		o.Addrs = all
		if r.SocketType == "unix" || strings.HasPrefix(r.URL, "/") {
			single = "unix"
		}
	case "CLUSTER":
		o.Addrs, o.IsClusterMode = all, true
	case "SENTINEL":
		if len(all) < 2 {
			return "", errors.New("REDIS_URL needs the name of the master and the sentinels: NAME,host:port,host:port")
		}
		o.MasterName, o.Addrs = all[0], all[1:]
	default:
		return "", fmt.Errorf("REDIS_TYPE=%s: expected SINGLE, SENTINEL or CLUSTER", r.Type)
	}
	return single, nil
}

// tlsConfig is for a client. anyName checks the certificate, but not for which host it is.
func tlsConfig(cert, key, ca string, anyName bool) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	var err error
	if c.RootCAs, err = pool(ca); err != nil {
		return nil, err
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, err
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if anyName {
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
	return c, nil
}

// pool is the certificates of a file beside those of the system; nil without a file.
func pool(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	all, err := x509.SystemCertPool()
	if err != nil {
		all = x509.NewCertPool()
	}
	if !all.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate", file)
	}
	return all, nil
}

// GrpcTLS is for the Rate Limit Service; nil without TLS. With a CA, clients need a certificate. The certificate is read again with each
// connection, so a new one needs no restart.
func (s *Settings) GrpcTLS() (*tls.Config, error) {
	if !s.GrpcUseTLS {
		return nil, nil
	}
	if _, err := tls.LoadX509KeyPair(s.GrpcTLSCert, s.GrpcTLSKey); err != nil {
		return nil, err
	}
	clients, err := pool(s.GrpcClientCA)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, ClientCAs: clients}
	if clients != nil {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	c.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, err := tls.LoadX509KeyPair(s.GrpcTLSCert, s.GrpcTLSKey)
		return &pair, err
	}
	return c, nil
}
