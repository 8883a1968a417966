package main

import (
	"context"
	"log/slog"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.37.0"

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
