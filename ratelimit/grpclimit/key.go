package grpclimit

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// By makes a key of a request, such as those of package keyby, one of a call. The request has the address of the peer, the
// metadata as its header fields, the method as its path and the context of the call; it has no body.
func By(key func(r *http.Request) string) func(ctx context.Context, method string) string {
	return func(ctx context.Context, method string) string {
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
		return key(r.WithContext(ctx))
	}
}
