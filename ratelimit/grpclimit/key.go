package grpclimit

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// By turns a function of HTTP requests, such as those of package keyby, into one of calls, for Key and Skip. It is
// given a request with the address of the peer, the metadata as header fields, the method as path and the context of
// the call, without a body.
func By[T string | bool](of func(r *http.Request) T) func(ctx context.Context, method string) T {
	return func(ctx context.Context, method string) T {
		r := &http.Request{Method: http.MethodPost, URL: &url.URL{Path: method}, Header: http.Header{}, Proto: "HTTP/2.0", ProtoMajor: 2}
		if p, ok := peer.FromContext(ctx); ok && p.Addr != nil {
			r.RemoteAddr = p.Addr.String()
		}
		md, _ := metadata.FromIncomingContext(ctx)
		for name, values := range md {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
		if authority := md[":authority"]; len(authority) > 0 {
			r.Host = authority[0]
		}
		return of(r.WithContext(ctx))
	}
}
