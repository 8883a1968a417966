package service

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// The reasons to refuse a request before it can be decided.
const (
	tooLong    = "too long"
	unreadable = "unreadable"
	incomplete = "incomplete"
	excessive  = "too many descriptors"
	noRoutes   = "no routes"
	noConfig   = "no configuration"
	busy       = "busy"
	wrongLimit = "a limit of its own that is none"
)

// refuse counts and logs a request that is refused before it can be decided: its proxy may let it through, so no client
// may be able to cause that unnoticed.
func (s *Service) refuse(via, reason string) {
	s.metrics.refused.WithLabelValues(via, reason).Inc()
	s.logWarn("a request was refused before it could be decided, and its proxy may let it through: "+via+", "+reason, "via", via, "reason", reason)
}

// Register registers the Rate Limit Service with a server of gRPC. It is the generated one, except that it learns of
// requests that the server refuses because they are too long or unreadable.
func (s *Service) Register(server *grpc.Server) {
	d := rls.RateLimitService_ServiceDesc
	d.Methods = []grpc.MethodDesc{{MethodName: d.Methods[0].MethodName, Handler: s.handle}}
	server.RegisterService(&d, s)
}

func (s *Service) handle(_ any, ctx context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
	request := &asked{}
	if err := decode(request); err != nil {
		switch status.Code(err) {
		case codes.ResourceExhausted:
			s.refuse("grpc", tooLong)
		case codes.Canceled, codes.DeadlineExceeded: // its client has left
		default: // such as one that is compressed
			s.refuse("grpc", unreadable)
		}
		return nil, err
	}
	defer s.metrics.took("ShouldRateLimit", time.Now())
	o, err := s.decideRequest(ctx, &request.RateLimitRequest, "grpc")
	switch {
	case err != nil:
		return nil, s.failure(ctx, err)
	case s.settings.Headers || s.settings.DynamicMetadata || o.told:
		return s.write(&request.RateLimitRequest, &o), nil
	}
	return s.writePlain(&o), nil
}

// Listener counts the requests that net/http refuses by itself: those with a header that is too long, those that are no
// HTTP, and, with secure, those that are no TLS.
func (s *Service) Listener(l net.Listener, secure *tls.Config) net.Listener {
	if secure != nil {
		l = tls.NewListener(l, secure)
	}
	return listener{l, s}
}

type listener struct {
	net.Listener
	service *Service
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{c, l.service}, nil
}

type conn struct {
	net.Conn
	service *Service
}

// net/http answers what it refuses in one piece: with these fields alone, or with more in the first line than a handler
// can write there.
var fieldsOfRefusals = []byte("Content-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

func (c *conn) Write(b []byte) (int, error) {
	line, rest, _ := bytes.Cut(b, []byte("\r\n"))
	switch isRefusal := bytes.HasPrefix(rest, fieldsOfRefusals) || bytes.Contains(line, []byte(": ")); {
	case !isRefusal && !bytes.HasPrefix(line, []byte("HTTP/1.1 417 ")), !bytes.HasPrefix(line, []byte("HTTP/1.1 ")):
	case bytes.HasPrefix(line, []byte("HTTP/1.1 431 ")):
		c.service.refuse("check", tooLong)
	default:
		c.service.refuse("check", unreadable)
	}
	return c.Conn.Write(b)
}

// Read answers a client without TLS as net/http would if it saw that c has TLS.
func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.answerPlain(err)
	}
	return n, err
}

func (c *conn) answerPlain(err error) {
	var plain tls.RecordHeaderError
	if errors.As(err, &plain) && plain.Conn != nil {
		c.service.logWarn("a client of HTTP does not speak TLS, which HTTP_SERVER_USE_TLS asks for")
		_, _ = io.WriteString(plain.Conn, "HTTP/1.0 400 Bad Request\r\n\r\nClient sent an HTTP request to an HTTPS server.\n")
	}
}
