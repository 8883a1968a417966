"""Metrics: what observers for Prometheus and OpenTelemetry count, with the libraries themselves."""

from __future__ import annotations

from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from prometheus_client import CollectorRegistry, generate_latest

from redis_throttle import Cached, Limiter, MistakeError, Observed, OutageError, opentelemetry, prometheus, rate, window
from redis_throttle.asyncio import Limiter as AsyncLimiter
from redis_throttle.asyncio import Observed as AsyncObserved
from redis_throttle.testing import AsyncFakeLimiter, FakeLimiter

USER, HIDDEN, COSTLY = rate(1, "1h", name="user"), window(1, "1d", shadow=True), rate(2, "1h")


def decide(limiter: Limiter, fake: FakeLimiter) -> None:
    """Have one call allowed, one limited by the server and one from memory, one that costs too much, an outage and a
    mistake."""
    for _ in range(3):
        limiter.limit("secret", USER, HIDDEN)
    limiter.peek("other", COSTLY, cost=3)
    for error in (OutageError("away"), MistakeError("wrong")):
        fake.fail(error, times=1)
        with pytest.raises(type(error)):
            limiter.limit("third", COSTLY)


def test_prometheus_has_the_metrics_of_the_go_client(throttle: FakeLimiter) -> None:
    registry = CollectorRegistry()
    decide(Limiter(Observed(Cached(throttle), prometheus.Metrics(registry))), throttle)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    decisions = "ratelimit_decisions_total"
    assert value(decisions, verb="limit", outcome="allowed", policy="user", by="server") == 1
    assert value(decisions, verb="limit", outcome="limited", policy="user", by="server") == 1
    assert value(decisions, verb="limit", outcome="limited", policy="user", by="cache") == 1
    assert value(decisions, verb="peek", outcome="limited", policy="default", by="server") == 1
    assert value(decisions, verb="limit", outcome="outage", policy="", by="server") == 1
    assert value(decisions, verb="limit", outcome="mistake", policy="", by="server") == 1
    assert value("ratelimit_shadowed_total", policy="limit-2") == 2
    assert value("ratelimit_decision_duration_seconds_count", verb="limit", by="server") == 4
    text = generate_latest(registry).decode()
    assert 'le="5e-05"' in text
    assert "secret" not in text


def test_two_limiters_have_a_namespace_each() -> None:
    registry = CollectorRegistry()
    prometheus.Metrics(registry)
    with pytest.raises(ValueError, match="Duplicated"):
        prometheus.Metrics(registry)
    prometheus.Metrics(registry, namespace="mail", buckets=(0.1, 1))


def points(reader: InMemoryMetricReader) -> dict[str, dict[tuple[tuple[str, Any], ...], Any]]:
    data = reader.get_metrics_data()
    assert data is not None
    metrics = [metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
    return {metric.name: {tuple(sorted((point.attributes or {}).items())): point for point in metric.data.data_points} for metric in metrics}


def attributes(**given: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted([("limiter", "web"), *((f"ratelimit.{name}", value) for name, value in given.items())]))


async def test_opentelemetry_has_the_instruments_of_the_go_client(throttle: FakeLimiter, async_throttle: AsyncFakeLimiter) -> None:
    reader, spans = InMemoryMetricReader(), InMemorySpanExporter()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    metrics = opentelemetry.Metrics(MeterProvider([reader]), attributes={"limiter": "web"})
    with tracing.get_tracer("test").start_as_current_span("a request"):
        decide(Limiter(Observed(Cached(throttle), metrics)), throttle)
        await AsyncLimiter(AsyncObserved(async_throttle, metrics)).limit("k", rate(0, "1h", name="nobody"))
    found = points(reader)
    decisions = found["ratelimit.decisions"]
    assert decisions[attributes(verb="limit", outcome="allowed", policy="user", by="server")].value == 1
    assert decisions[attributes(verb="limit", outcome="limited", policy="user", by="cache")].value == 1
    assert decisions[attributes(verb="limit", outcome="outage", policy="", by="server")].value == 1
    assert found["ratelimit.shadowed"][attributes(policy="limit-2")].value == 2
    duration = found["ratelimit.decision.duration"][attributes(verb="limit", by="server")]
    assert (duration.count, duration.explicit_bounds[0]) == (5, 50e-6)

    events = [dict(event.attributes or {}) for event in spans.get_finished_spans()[0].events]
    assert [event["ratelimit.outcome"] for event in events] == ["limited", "limited", "limited", "outage", "mistake", "limited"]
    assert events[0] == {"ratelimit.verb": "limit", "ratelimit.by": "server", "ratelimit.outcome": "limited", "ratelimit.policy": "user",
                         "ratelimit.remaining": 0, "ratelimit.retry_after_ms": 3_600_000}
    assert (events[2]["ratelimit.remaining"], events[2]["ratelimit.retry_after_ms"]) == (2, -1)
    assert "ratelimit.remaining" not in events[3]


def test_opentelemetry_leaves_spans_alone_without_events(throttle: FakeLimiter) -> None:
    spans, tracing = InMemorySpanExporter(), TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(spans))
    with tracing.get_tracer("test").start_as_current_span("a request"):
        decide(Limiter(Observed(Cached(throttle), opentelemetry.Metrics(MeterProvider(), events=False))), throttle)
    assert not spans.get_finished_spans()[0].events
