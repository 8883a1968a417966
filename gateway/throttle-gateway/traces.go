package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

	"redis-throttle/gateway/internal/service"
	"redis-throttle/gateway/internal/settings"
)

// traces sends spans to a collector, if the environment asks for it. flush sends the last ones.
func traces(ctx context.Context, s *settings.Settings) (flush func(), err error) {
	t := &s.Tracing
	if !t.Enabled {
		return func() {}, nil
	}
	var exporter trace.SpanExporter
	if t.Protocol == "grpc" {
		exporter, err = otlptracegrpc.New(ctx)
	} else {
		exporter, err = otlptracehttp.New(ctx)
	}
	if err != nil {
		return nil, err
	}
	about, err := resource.Merge(resource.Default(), resource.NewSchemaless(
		semconv.ServiceName(t.Service), semconv.ServiceNamespace(t.Namespace), semconv.ServiceInstanceID(t.Instance), semconv.ServiceVersion(version),
	))
	if err != nil {
		return nil, err
	}
	provider := trace.NewTracerProvider(trace.WithBatcher(exporter), trace.WithResource(about),
		trace.WithSampler(trace.ParentBased(trace.TraceIDRatioBased(t.Rate))))
	otel.SetTracerProvider(provider)
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	return func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			slog.Error("the last traces were not sent", "error", err)
		}
	}, nil
}

// originalKey leads from the context of a span to the request that it is about.
type originalKey struct{}

// traced starts a span for each request. Path, host, client address and user agent are not in it, because they may be
// keys: the span is made of a request that has only its method, its route, the peer and the fields that join traces.
func traced(next http.Handler) http.Handler {
	spans := otelhttp.NewHandler(http.HandlerFunc(func(w http.ResponseWriter, bare *http.Request) {
		original := bare.Context().Value(originalKey{}).(*http.Request)
		next.ServeHTTP(w, original.WithContext(bare.Context()))
	}), "check")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bare := &http.Request{
			Method: r.Method, Pattern: service.Route(r.URL.EscapedPath()), Proto: r.Proto, RemoteAddr: r.RemoteAddr,
			URL: &url.URL{}, Header: http.Header{}, Body: http.NoBody,
		}
		if local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
			bare.Host = local.String()
		}
		for _, name := range otel.GetTextMapPropagator().Fields() {
			name = http.CanonicalHeaderKey(name)
			if values := r.Header[name]; values != nil {
				bare.Header[name] = values
			}
		}
		spans.ServeHTTP(w, bare.WithContext(context.WithValue(r.Context(), originalKey{}, r)))
	})
}
