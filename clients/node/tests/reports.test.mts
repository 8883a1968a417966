// Denials that a layer answers by itself, and what the server is told of them.
import assert from 'node:assert/strict'
import { after, before, describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { batched, cached, type Call, type Decider, fixed, Limiter, MistakeError, OutageError, rate, type Result } from '@redis-throttle/client'
import { Redis } from 'ioredis'
import { Server } from './servers.mjs'

const limit = rate(1, '1h')

describe('on a server', () => {
  let server: Server
  let client: Redis
  before(async () => {
    server = await Server.start('top', '100')
    client = new Redis(server.port)
  })
  after(async () => {
    client.disconnect()
    await server.stop()
  })
  const top = async (key: string): Promise<number> => {
    const rows = await client.call('CL.TOP') as [string, string, string, number, string, number][]
    return rows.find(([, name]) => name === key)?.[5] ?? 0
  }

  test('CL.TOP counts what a layer denies', async () => {
    const layers: Record<string, Decider> = { cached: cached(new Limiter(client)), batched: batched(new Limiter(client)) }
    for (const [key, layer] of Object.entries(layers)) {
      const limiter = new Limiter(layer)
      assert.ok((await limiter.limit(key, limit)).allowed)
      for (let i = 0; i < 300; i++) assert.ok((await limiter.limit(key, limit)).limited)
    }
    for (const key of Object.keys(layers)) while (await top(key) !== 300) await sleep(20)
  })
})

/** A decider that denies limits, and takes reports as it is told. */
class Taking implements Decider {
  readonly reports: Call[] = []
  constructor(readonly take: (call: Call) => number) {}

  async decide(call: Call): Promise<Result> {
    if (call.verb !== 'denied') return { limited: true, key: call.keys[0]?.name, retryAfterMs: 1e9, resetAfterMs: 1e9, nextAfterMs: 1e9, by: 'server',
      each: [] } as unknown as Result
    this.reports.push(call)
    return { granted: this.take(call) } as Result
  }
}

describe('in time that is made up', () => {
  let now = 0
  before(() => {
    mock.timers.enable({ apis: ['setTimeout'] })
    mock.method(performance, 'now', () => now)
  })
  after(() => {
    mock.timers.reset()
    mock.restoreAll()
  })
  const pass = async (ms: number): Promise<void> => {
    now += ms
    mock.timers.tick(ms)
    for (let i = 0; i < 1000; i++) await Promise.resolve()
  }
  const denied = async (layer: Decider, key: string) => await layer.decide({ verb: 'limit', keys: [{ name: key, limits: [fixed(1, '1h')] }] })

  test('a hundred keys a second are reported, and ten thousand wait', async () => {
    const taking = new Taking(({ cost = 1 }) => cost)
    const layer = cached(taking, { denials: 20_000, maxAge: '1h' })
    for (let i = 0; i < 11_000; i++) for (let twice = 0; twice < 3; twice++) await denied(layer, String(i))
    for (let second = 1; second <= 110; second++) {
      await pass(1000)
      assert.equal(taking.reports.length, Math.min(second, 100) * 100)
    }
    assert.ok(taking.reports.every(({ cost }) => cost === 2))
  })

  const refusals: [string, number, () => number][] = [
    ['CL.TOP is off', 60_000, () => 0],
    ['the server is away', 60_000, () => { throw new OutageError('away') }],
    ['the server has no such command', 3_600_000, () => { throw new MistakeError('unknown command') }],
  ]
  for (const [what, pause, take] of refusals) {
    test(`${what}: it is asked again after ${pause / 60_000} minutes`, async () => {
      const taking = new Taking(take)
      const layer = cached(taking, { maxAge: '1d' })
      for (let passed = 0; passed < 3 * pause; passed += pause / 60) {
        await denied(layer, 'a')
        await denied(layer, 'b')
        await pass(pause / 60)
      }
      assert.ok(taking.reports.length >= 2 && taking.reports.length <= 4, String(taking.reports.length))
    })
  }
})
