package grpclimit

import (
	"context"
	"net/http"
	"net/url"

	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
)

// By turns a function that makes keys of HTTP requests, such as those of package keyby, into one that makes keys of calls. It is given a
// request with the address of the peer, the metadata as header fields, the method as path and the context of the call, without a body.
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
