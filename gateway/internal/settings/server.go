package settings

import (
	"crypto/tls"
	"fmt"
	"log/slog"
)

// serverTLS is TLS of one of the servers. Its variables begin with GRPC_ or HTTP_.
type serverTLS struct {
	prefix    string
	use       bool
	cert, key string
	clientCA  string // whose certificates clients need
	clientSAN string // the name in them
	protocol  string
}

func (s *Settings) ofGrpc() *serverTLS {
	return &serverTLS{"GRPC_", s.GrpcUseTLS, s.GrpcTLSCert, s.GrpcTLSKey, s.GrpcClientCA, s.GrpcClientSAN, "h2"}
}

func (s *Settings) ofHTTP() *serverTLS {
	return &serverTLS{"HTTP_", s.HTTPUseTLS, s.HTTPTLSCert, s.HTTPTLSKey, s.HTTPClientCA, s.HTTPClientSAN, "http/1.1"}
}

func (t *serverTLS) check() error {
	switch {
	case t.clientSAN != "" && (!t.use || t.clientCA == ""):
		return fmt.Errorf("%[1]sCLIENT_TLS_SAN names who may ask: set %[1]sSERVER_USE_TLS and %[1]sCLIENT_TLS_CACERT, which make clients show a certificate", t.prefix)
	case t.clientCA != "" && !t.use:
		return fmt.Errorf("%[1]sCLIENT_TLS_CACERT says whose certificates are accepted: set %[1]sSERVER_USE_TLS, so that clients show one", t.prefix)
	}
	return nil
}

// GrpcTLS is for the Rate Limit Service; nil without TLS. With a CA, clients need a certificate. The files are read
// again with each connection, so a new certificate or authority needs no restart.
func (s *Settings) GrpcTLS(certificates *Certificates) (*tls.Config, error) {
	return s.ofGrpc().config(certificates)
}

// HTTPTLS is GrpcTLS for the HTTP server.
func (s *Settings) HTTPTLS(certificates *Certificates) (*tls.Config, error) {
	return s.ofHTTP().config(certificates)
}

func (t *serverTLS) config(certificates *Certificates) (*tls.Config, error) {
	if !t.use {
		return nil, nil
	}
	pair, err := keepPair(certificates, t.prefix+"SERVER_TLS_CERT", t.cert, t.key)
	if err != nil {
		return nil, err
	}
	if pair.last == nil {
		return nil, fmt.Errorf("%[1]sSERVER_USE_TLS needs %[1]sSERVER_TLS_CERT and %[1]sSERVER_TLS_KEY", t.prefix)
	}
	clients, err := keepPool(certificates, t.prefix+"CLIENT_TLS_CACERT", t.clientCA)
	if err != nil {
		return nil, err
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{t.protocol}}
	if t.clientCA != "" {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	if name := t.clientSAN; name != "" {
		c.VerifyConnection = func(state tls.ConnectionState) error {
			err := state.PeerCertificates[0].VerifyHostname(name) // its chain has been verified
			if err != nil {
				slog.Warn("a client was refused: its certificate is not for "+t.prefix+"CLIENT_TLS_SAN", "expected", name)
			}
			return err
		}
	}
	fresh := c.Clone()
	c.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) {
		now := fresh.Clone()
		now.Certificates, now.ClientCAs = []tls.Certificate{*pair.get()}, clients.get()
		return now, nil
	}
	c.Certificates = []tls.Certificate{*pair.last}
	return c, nil
}
