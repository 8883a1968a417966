// What a key holds, on a server with the module and without, by every client, and from the fake.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { fixed, guard, Limiter, MistakeError, OutageError, rate, window } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { single } from './clients.mjs'
import { Server } from './servers.mjs'

const tell = async (limiter: Limiter, prefix: string) => {
  const key = (name: string) => prefix + name
  const look = async (name: string) => await limiter.inspect(key(name))
  const none = await look('nobody')
  assert.deepEqual([none.kind, none.expiresAt, none.banned, none.limits], ['none', null, false, []])

  await limiter.limit(key('lone'), rate(60, '1h', { burst: 10 }), { cost: 3 })
  const lone = await look('lone')
  const [bucket] = lone.limits
  assert.equal(lone.kind, 'rate')
  assert.deepEqual([bucket?.kind, bucket?.periodMs, bucket?.used, bucket?.nextAt], ['RATE', null, null, null])
  const fullInMs = Number(bucket?.resetAt) - Number(lone.now)
  assert.ok(fullInMs > 170_000 && fullInMs <= 180_001, String(fullInMs))

  await limiter.ban(key('lone'), '1m')
  const banned = await look('lone')
  assert.equal(banned.banned, true)
  assert.ok(Number(banned.bannedUntil) > Number(banned.now))

  await limiter.limit(key('three'), [window(100, '1h'), fixed(1000, '1mo'), fixed(50, '10m', { first: true })], { cost: 2 })
  const { kind, limits } = await look('three')
  assert.equal(kind, 'limits')
  assert.deepEqual(limits.map((limit) => [limit.kind, limit.periodMs, limit.used, limit.entries, limit.resetAt !== null]),
    [['WINDOW', 3_600_000, 2, 1, true], ['FIXED', null, 2, 0, false], ['FIRST', 600_000, 2, 0, true]])

  const lease = await limiter.lease(key('jobs'), { slots: 2, ttl: '1m' })
  const jobs = await look('jobs')
  assert.deepEqual([jobs.kind, jobs.held, jobs.waiting], ['leases', 1, 0])
  assert.deepEqual(jobs.lapsesAt, jobs.expiresAt)
  await lease.release()
}

for (const module of [true, false]) {
  describe(`on a server ${module ? 'with' : 'without'} the module`, () => {
    for (const [name, open] of Object.entries(single)) {
      test(name, async () => {
        const server = await (module ? Server.start() : Server.withoutModule())
        try {
          const { client, close } = await open(server.port)
          try {
            await tell(new Limiter(client, { logger: { info: () => {}, error: () => {} } }), `${name}:`)
            await server.do('SET', 'foreign', 'hello')
            await assert.rejects(new Limiter(client).inspect('foreign'),
              (error) => error instanceof MistakeError && /CL.INSPECT: WRONGTYPE The string/.test(error.message))
          } finally {
            await close()
          }
        } finally {
          await server.stop()
        }
      })
    }
  })
}

describe('a fake', () => {
  test('tells what a server tells', async () => {
    await tell(new FakeLimiter(), '')
  })

  test('fails as it is told', async () => {
    const limiter = new FakeLimiter()
    limiter.next(1).fail()
    await assert.rejects(limiter.inspect('k'), OutageError)
    limiter.hang()
    const answer = limiter.inspect('k')
    limiter.heal()
    assert.equal((await answer).kind, 'none')
  })
})

test('a limiter over another decider than a client has no keys to look into', async () => {
  const fake = new FakeLimiter()
  assert.equal((await new Limiter(fake).inspect('k')).kind, 'none')
  await assert.rejects(new Limiter(guard(fake, { policy: 'open' })).inspect('k'), /inspect needs a limiter on a client/)
  await assert.rejects(fake.inspect('k', { cost: 2 } as never), /inspect: there is no option cost/)
  await assert.rejects(fake.inspect(7 as never), /inspect: the key must be a string/)
})
