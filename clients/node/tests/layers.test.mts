// Deciders that stand before others: one that remembers denials, and one with observers.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { metrics } from '@opentelemetry/api'
import { AggregationTemporality, InMemoryMetricExporter, MeterProvider, PeriodicExportingMetricReader } from '@opentelemetry/sdk-metrics'
import * as prometheus from 'prom-client'
import { cached, type Decision, fixed, Limiter, MistakeError, observed, openTelemetryMetrics, prometheusMetrics, rate, window } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { noting } from './noting.mjs'
import { client, server } from './served.mjs'

afterEach(() => mock.restoreAll())

describe('remembered denials', () => {
  let time: number
  let server: FakeLimiter
  let asked: ReturnType<typeof noting>
  beforeEach(() => {
    time = 0
    mock.method(performance, 'now', () => time)
    server = new FakeLimiter()
    asked = noting(server)
  })
  const pass = (ms: number) => {
    time += ms
    server.advance(`${ms}ms`)
  }

  test('hold until the call can pass, with times that are counted down', async () => {
    const limiter = new Limiter(cached(asked))
    const limit = rate(1, '5s')
    await limiter.limit('k', limit)
    assert.equal((await limiter.limit('k', limit)).by, 'server')
    pass(1500)
    const denied = await limiter.limit('k', limit)
    assert.deepEqual([denied.limited, denied.by, denied.retryAfterMs, denied.resetAfterMs], [true, 'cache', 3500, 3500])
    assert.equal(asked.calls.length, 2)
    pass(3500)
    assert.equal((await limiter.limit('k', limit)).allowed, true)
  })

  test('are of one call: another cost, limit, option or key asks the server', async () => {
    const limiter = new Limiter(cached(asked))
    const limit = fixed(5, '1h')
    await limiter.limit('k', limit, { cost: 4 })
    for (let i = 0; i < 2; i++) {
      await limiter.limit('k', limit, { cost: 3 })
      await limiter.limit('k', limit, { cost: 2, each: true })
    }
    assert.equal(asked.calls.length, 3)
    assert.equal((await limiter.limit('k', limit)).allowed, true)
    assert.equal((await limiter.limit('other', limit, { cost: 3 })).allowed, true)
    const { each: [each] } = await limiter.limit('k', limit, { cost: 2, each: true })
    assert.deepEqual([each?.limited, each?.by], [true, 'cache'])
  })

  test('are no older than maxAge, and no more than so many', async () => {
    const limiter = new Limiter(cached(asked, { maxAge: '2s', denials: 2 }))
    const limit = fixed(0, '1h')
    const one = fixed(1, '1h')
    await limiter.limit('a', one)
    await limiter.limit('a', one)
    pass(1999)
    await limiter.limit('a', one)
    assert.equal(asked.calls.length, 2)
    pass(1)
    await limiter.limit('a', one)
    assert.equal(asked.calls.length, 3)
    for (const key of ['b', 'c']) for (let i = 0; i < 2; i++) await limiter.limit(key, one)
    asked.calls.length = 0
    for (const key of ['c', 'b', 'a']) await limiter.limit(key, one)
    assert.deepEqual(asked.calls.map(({ keys }) => keys[0]?.name), ['a'])
    for (let i = 0; i < 2; i++) await limiter.limit('never', limit)
    assert.equal(asked.calls.length, 3, 'what never can is no denial that ends')
  })

  test('are forgotten with a refund, a ban, a settlement and a reset of their key, also while the call is under way', async () => {
    const layer = cached(asked)
    const limiter = new Limiter(layer)
    const limit = fixed(1, '1h')
    const deny = async () => { for (let i = 0; i < 2; i++) await limiter.limit('k', limit) }
    for (const act of [() => limiter.refund('k', limit), () => limiter.ban('k', '0'), () => limiter.settle({ k: limit }, { id: 'x' }),
      () => limiter.reset('k'), () => { layer.forget('k') }]) {
      await deny()
      asked.calls.length = 0
      await act()
      await limiter.limit('k', limit)
      assert.equal(asked.calls.at(-1)?.verb, 'limit', String(act))
    }
    await deny()
    layer.forget('k')
    server.hang()
    const late = limiter.limit('k', limit)
    layer.forget('k')
    server.heal()
    await late
    asked.calls.length = 0
    await limiter.limit('k', limit)
    assert.equal(asked.calls.length, 1, 'its denial is not remembered')
  })

  test('are not kept of calls that charge a denied call, of other verbs, and of errors', async () => {
    const limiter = new Limiter(cached(asked))
    const limit = fixed(1, '1h')
    await limiter.limit('k', limit)
    for (const act of [() => limiter.limit('k', limit, { charge: 'strict' }), () => limiter.limit('k', limit, { charge: 'force' }), () => limiter.peek('k', limit)]) {
      asked.calls.length = 0
      for (let i = 0; i < 2; i++) await act()
      assert.equal(asked.calls.length, 2)
    }
    assert.throws(() => cached(asked, { maxage: '1s' } as never), /cached: there is no option maxage/)
  })

  test('are never looser than the server', async () => {
    const limiter = new Limiter(cached(asked))
    const limits = [rate(3, '10s', { burst: 5 }), window(4, '7s'), fixed(6, '5s')]
    for (let i = 0; i < 2000; i++) {
      const [key, cost] = [`k${i % 3}`, 1 + Math.floor(Math.random() * 3)]
      const now = await server.peek(key, limits, { cost })
      const result = await limiter.limit(key, limits, { cost })
      assert.equal(result.limited, now.limited, `step ${i}`)
      pass(Math.floor(Math.random() * 400))
    }
  })
})

describe('observers', () => {
  test('learn of each decision, also of shadows, errors and callers that leave', async () => {
    const seen: Decision[] = []
    const inner = new Limiter(client, { timeout: '10s' })
    const limiter = new Limiter(observed(inner, (decision) => seen.push(decision)))
    const limits = [rate(1, '1h', { name: 'burst' }), fixed(0, '1d', { shadow: true, name: 'tried' })]
    await limiter.limit('k', limits)
    await limiter.limit('k', limits)
    await limiter.ban('k', '1m')
    await limiter.limit('k', limits)
    await server.do('SET', 'text', 'x')
    await assert.rejects(limiter.limit('text', limits), MistakeError)
    await assert.rejects(limiter.limit('k', limits, { signal: AbortSignal.abort(new Error('enough')) }), /enough/)
    const lease = await limiter.lease('jobs', { slots: 1, ttl: '1s' })
    await lease.release()
    assert.deepEqual(seen.map(({ call, outcome, policy, shadowed, by }) => [call.verb, outcome, policy, shadowed, by].join(' ')), [
      'limit allowed burst tried server', 'limit limited burst tried server', 'ban allowed   server', 'limit limited   server',
      'limit error   server', 'limit cancelled   server', 'lease allowed   server', 'release allowed   server',
    ])
    assert.ok(seen.every(({ durationMs }) => durationMs >= 0))
  })

  test('that throw change no decision', async () => {
    const lines: unknown[] = []
    mock.method(console, 'error', (...words: unknown[]) => void lines.push(words.join(' ')))
    const limiter = new Limiter(observed(new FakeLimiter(), () => { throw new Error('of the observer') }))
    assert.equal((await limiter.limit('k', rate(1, '1h'))).allowed, true)
    assert.match(String(lines), /an observer has thrown: Error: of the observer/)
    assert.throws(() => observed(new FakeLimiter(), {} as never), /an observer is a function/)
  })

  test('count for Prometheus', async () => {
    const register = new prometheus.Registry()
    const fake = new FakeLimiter()
    const limiter = new Limiter(observed(fake, prometheusMetrics(prometheus, { register })))
    for (let i = 0; i < 3; i++) await limiter.limit('secret', [rate(1, '1h'), fixed(0, '1d', { shadow: true, name: 'tried' })])
    fake.fail()
    await limiter.limit('secret', rate(1, '1h')).catch(() => {})
    const text = await register.metrics()
    for (const line of ['ratelimit_decisions_total{verb="limit",outcome="allowed",policy="limit-1",by="server"} 1', 'ratelimit_decisions_total{verb="limit",outcome="limited",policy="limit-1",by="server"} 2', 'ratelimit_decisions_total{verb="limit",outcome="outage",policy="",by="server"} 1', 'ratelimit_shadowed_total{policy="tried"} 3', 'ratelimit_decision_duration_seconds_count{verb="limit",by="server"} 4']) {
      assert.ok(text.includes(line), `${line}\n${text}`)
    }
    assert.ok(!text.includes('secret'))
  })

  test('count for OpenTelemetry', async () => {
    const exporter = new InMemoryMetricExporter(AggregationTemporality.CUMULATIVE)
    const provider = new MeterProvider({ readers: [new PeriodicExportingMetricReader({ exporter, exportIntervalMillis: 3_600_000 })] })
    metrics.setGlobalMeterProvider(provider)
    const limiter = new Limiter(observed(new FakeLimiter(), openTelemetryMetrics(metrics.getMeter('redis-throttle'))))
    for (let i = 0; i < 2; i++) await limiter.limit('k', rate(1, '1h'))
    await provider.forceFlush()
    const found = exporter.getMetrics().flatMap(({ scopeMetrics }) => scopeMetrics).flatMap((scope) => scope.metrics)
    const decisions = found.find(({ descriptor }) => descriptor.name === 'ratelimit.decisions')
    assert.deepEqual(decisions?.dataPoints.map(({ attributes, value }) => [attributes['ratelimit.outcome'], value]), [['allowed', 1], ['limited', 1]])
    assert.ok(found.some(({ descriptor }) => descriptor.name === 'ratelimit.decision.duration'))
    await provider.shutdown()
  })
})
