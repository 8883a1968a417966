// Units by the batch: few calls to the server, and never more let through than it says.
import assert from 'node:assert/strict'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { batched, type BatchedOptions, type Call, type Decider, fixed, Limiter, makeResult, OutageError, rate, type Result, window } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { noting } from './noting.mjs'
import { client } from './served.mjs'
import { until } from './servers.mjs'

describe('on a server', () => {
  let asked: ReturnType<typeof noting>
  beforeEach(() => {
    asked = noting(new Limiter(client, { timeout: '30s' }))
  })

  test('1,000 calls on a hot key are some 16 to the server, and what is left comes back', async () => {
    for (const limits of [[rate(100_000, '365d')], [window(100_000, '1d')], [fixed(100_000, '365d')], [fixed(100_000, '365d'), window(100_000, '1d')]]) {
      const key = limits.join()
      asked.calls.length = 0
      const batches = batched(asked, { maxAge: '1m', onError: (error) => assert.fail(String(error)) })
      const limiter = new Limiter(batches)
      const by: Record<string, number> = {}
      for (let i = 0; i < 1000; i++) {
        const result = await limiter.limit(key, limits)
        assert.deepEqual([result.limited, result.granted, result.remaining], [false, 1, 100_000 - i - 1])
        by[result.by] = (by[result.by] ?? 0) + 1
      }
      // 1, 2, 4, ... 64, and then 100 each.
      assert.deepEqual(by, { server: asked.calls.length, batch: 1000 - asked.calls.length })
      assert.ok(asked.calls.length <= 16, String(asked.calls.length))
      const left = async () => (await asked.decide({ verb: 'peek', keys: [{ name: key, limits }], cost: 0 })).remaining
      assert.notEqual(await left(), 99_000)
      await batches.close()
      assert.equal(await left(), 99_000)
      assert.equal((await limiter.limit(key, limits)).by, 'server', 'closed, it hands calls on')
    }
  })

  test('units that nobody takes come back after maxAge', async () => {
    const limiter = new Limiter(batched(asked, { maxAge: '20ms' }))
    for (let i = 0; i < 10; i++) await limiter.limit('left', window(1000, '1h'))
    await until(async () => (await asked.decide({ verb: 'peek', keys: [{ name: 'left', limits: [window(1000, '1h')] }], cost: 0 })).remaining === 990, 'they are back')
  })

  test('calls of the same moment share one', async () => {
    const limiter = new Limiter(batched(asked, { maxAge: '1m' }))
    const results = await Promise.all(Array.from({ length: 300 }, () => limiter.limit('same', fixed(100, '365d'))))
    assert.equal(results.filter(({ allowed }) => allowed).length, 100)
    assert.ok(asked.calls.length <= 3, String(asked.calls.length))
  })
})

describe('in simulated time', () => {
  let time: number
  let server: FakeLimiter
  let asked: ReturnType<typeof noting>
  beforeEach(() => {
    time = 0
    mock.method(performance, 'now', () => time)
    mock.timers.enable({ apis: ['setTimeout'] })
    server = new FakeLimiter()
    asked = noting(server)
  })
  afterEach(() => {
    mock.timers.reset()
    mock.restoreAll()
  })
  const pass = async (ms: number) => {
    time += ms
    server.advance(`${ms}ms`)
    mock.timers.tick(ms)
    await setImmediate()
  }

  test('what is not batched goes to the server as it is', async () => {
    const limiter = new Limiter(batched(asked, { units: 10, maxAge: '1m' }))
    const limit = rate(1000, '1d')
    for (let i = 0; i < 20; i++) await limiter.limit('k', limit)
    const direct: (() => Promise<unknown>)[] = [
      () => limiter.limit('k', limit, { cost: 0 }), () => limiter.limit('k', limit, { cost: 11 }), () => limiter.limit('k', limit, { charge: 'up_to' }),
      () => limiter.limit('k', limit, { charge: 'strict' }), () => limiter.limit('k', limit, { maxWait: '1s' }), () => limiter.limit('k', limit, { each: true }),
      () => limiter.limit('k', limit, { ban: '1s' }), () => limiter.limit('k', limit.with({ take: 1 })), () => limiter.limit('k', limit.with({ shadow: true })),
      () => limiter.limit('k', fixed(0, '1d')), () => limiter.limitAll({ k: limit }), () => limiter.peek('k', limit), () => limiter.refund('k', limit),
    ]
    for (const act of direct) {
      const before = asked.calls.length
      await act()
      assert.equal(asked.calls.length, before + 1, String(act))
    }
  })

  test('a batch is no larger than units, and grows while it is used up', async () => {
    const limiter = new Limiter(batched(asked, { units: 10, maxAge: '1m' }))
    for (let i = 0; i < 35; i++) await limiter.limit('k', rate(1000, '1d'))
    assert.deepEqual(asked.calls.map(({ cost }) => cost), [1, 2, 4, 8, 10, 10])
  })

  test('denials are remembered by the number of units, and forgotten after a refund', async () => {
    const limiter = new Limiter(batched(asked))
    const limit = fixed(5, '1h')
    assert.equal((await limiter.limit('k', limit, { cost: 5 })).allowed, true)
    assert.deepEqual([(await limiter.limit('k', limit)).by, (await limiter.limit('k', limit)).by], ['server', 'cache'])
    await limiter.refund('k', limit)
    assert.equal((await limiter.limit('k', limit)).allowed, true)
  })

  test('a call that costs more than there is learns when it can be had', async () => {
    const limiter = new Limiter(batched(asked))
    const limit = rate(10, '10s')
    await limiter.limit('k', limit, { cost: 8 })
    const denied = await limiter.limit('k', limit, { cost: 5 })
    assert.deepEqual([denied.limited, denied.retryAfterMs], [true, 3000])
  })

  test('a caller that leaves loses no units, and errors are shared and not remembered', async () => {
    const limiter = new Limiter(batched(asked, { maxAge: '1m' }))
    const limit = fixed(10, '365d')
    server.hang()
    const leaving = new AbortController()
    const left = limiter.limit('k', limit, { signal: leaving.signal })
    const stays = limiter.limit('k', limit)
    await setImmediate()
    leaving.abort(new Error('left'))
    await assert.rejects(left, /left/)
    server.heal()
    assert.equal((await stays).allowed, true)
    assert.equal((await limiter.limit('k', limit)).allowed, true)
    server.fail()
    await Promise.all(Array.from({ length: 5 }, () => assert.rejects(limiter.limit('other', limit), OutageError)))
    server.heal()
    assert.equal((await limiter.limit('other', limit)).allowed, true)
  })

  test('units that the server does not know of are not kept', async () => {
    let by: 'policy' | 'server' = 'policy'
    const calls: Call[] = []
    const guarding: Decider = { decide: async (call) => { calls.push(call); return by === 'policy' ? makeResult({ by }) : await server.decide(call) } }
    const limiter = new Limiter(batched(guarding))
    for (let i = 0; i < 5; i++) assert.equal((await limiter.limit('k', rate(10, '1h'))).by, 'policy')
    assert.equal(calls.length, 5)
    by = 'server'
    await pass(100)
    assert.equal((await limiter.limit('k', rate(10, '1h'))).by, 'server')
  })

  test('with processes, every call spares what they hold; a fixed alone need not', async () => {
    const options: BatchedOptions = { units: 10, processes: 4 }
    const limiter = new Limiter(batched(asked, options))
    await limiter.limit('a', rate(100, '1m'))
    await limiter.peek('a', rate(100, '1m', { spare: 5 }))
    await limiter.limit('b', fixed(100, '1m'))
    await limiter.refund('a', rate(100, '1m'))
    assert.deepEqual(asked.calls.map(({ keys }) => keys[0]?.limits?.[0]?.fields.spare ?? 0), [40, 45, 0, 0])
    await assert.rejects(limiter.limit('c', rate(40, '1m')), /^RangeError: batched: RATE 40\/1m: units x processes, 40, leave nothing of the limit$/)
    await assert.rejects(limiter.limit('d', window(79, '1m')), /leave only 39 of 79 units; take at most half, such as units of 9/)
    assert.equal((await limiter.limit('e', window(80, '1m'))).allowed, true)
  })

  test('units are not handed out when they are old, nor after the end of their window', async () => {
    const young = new Limiter(batched(asked))
    for (let i = 0; i < 2; i++) await young.limit('young', rate(50, '1h')) // the second batch is two units
    await pass(100)
    assert.equal((await young.limit('young', rate(50, '1h'))).by, 'server')
    const limiter = new Limiter(batched(asked, { maxAge: '1h' }))
    for (let i = 0; i < 2; i++) await limiter.limit('k', fixed(5, '1m'))
    await pass(60_000)
    const results: Result[] = []
    for (let i = 0; i < 6; i++) results.push(await limiter.limit('k', fixed(5, '1m')))
    assert.deepEqual(results.map(({ allowed }) => allowed), [true, true, true, true, true, false])
  })

  // A random walk: several processes, callers that come in bursts, units that are returned.
  for (const told of [false, true]) {
    test(`all processes together keep ${told ? 'the limit' : 'their bound'}`, async () => {
      const [processes, units, maxAge, period, count, burst] = [4, 8, 200, 250, 100, 80]
      const limits = { rate: [rate(count, `${period}ms`, { burst })], window: [window(count, `${period}ms`)], both: [fixed(count, `${period}ms`), rate(count, `${period}ms`, { burst })] }
      const most: Record<string, (ms: number) => number> = {
        rate: (ms) => burst + Math.floor((ms * count) / period) + 1,
        window: (ms) => count * (Math.floor((ms - 1) / period) + 1),
        both: (ms) => burst + Math.floor((ms * count) / period) + 1,
      }
      let seed = 1
      const random = (n: number) => ((seed = (seed * 48271) % 2147483647) / 2147483647) * n
      for (const [key, some] of Object.entries(limits)) {
        const limiters = Array.from({ length: processes }, () => new Limiter(batched(server, { units, maxAge: `${maxAge}ms`, ...(told && { processes }) })))
        const out: { at: number; units: number }[] = []
        for (let step = 0; step < 1500; step++) {
          const eager = Math.floor(step / 100) % 3 === 0
          for (const limiter of limiters) {
            if (random(1) > (eager ? 0.9 : 0.2)) continue
            const cost = 1 + Math.floor(random(3))
            if ((await limiter.limit(key, some, { cost })).allowed) out.push({ at: time, units: cost })
          }
          await pass(1 + Math.floor(random(eager ? 2 : 12)))
        }
        const within = (from: number, to: number) => out.reduce((sum, { at, units }) => (at >= from && at < to ? sum + units : sum), 0)
        assert.ok(within(0, time) > (count * time) / period / 5, `${key}: a good part of the limit is used, ${within(0, time)}`)
        for (const { at } of out) {
          for (const ms of [period / 5, period / 2, maxAge, period]) {
            assert.ok(within(at, at + ms) <= (most[key]?.(ms + maxAge + 1) ?? 0), `${key}: in ${ms} ms, by age`)
            assert.ok(within(at, at + ms) <= (most[key]?.(ms + 1) ?? 0) + (told ? 0 : processes * units), `${key}: in ${ms} ms, by units`)
          }
        }
      }
    })
  }
})
