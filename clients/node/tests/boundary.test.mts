// How many hits get through around the boundary of a window.
import assert from 'node:assert/strict'
import { after, before, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { Server } from './servers.mjs'
import { aroundABoundary, stores } from './stores.mjs'

const patience = 120_000 // bounds a hang
const rule = { limit: 50, windowMs: 1000 }

describe('around the boundary of a window', () => {
  let server: Server
  let redis: ReturnType<typeof createClient>
  let ioredis: Redis
  before(async () => {
    server = await Server.start()
    redis = createClient({ url: server.url })
    await redis.connect()
    ioredis = new Redis(server.port)
  })
  after(async () => {
    redis.destroy()
    ioredis.disconnect()
    await server.stop()
  })

  for (const [name, { exact, open }] of Object.entries(stores)) {
    if (exact) {
      test(`${name}: no interval has more than the limit`, async () => {
        const hit = await open({ redis, ioredis }, rule)
        for (const round of ['a', 'b', 'c']) {
          const { all, within } = await aroundABoundary(hit, round, rule, 2 * rule.limit)
          assert.ok(within <= rule.limit, `${within} got through within a window`)
          assert.ok(all >= rule.limit, `${all} got through`)
        }
      })
    } else {
      // So the test above can fail.
      test(`${name}: the windows are fixed, and two of them meet in an interval`, async () => {
        const hit = await open({ redis, ioredis }, rule)
        const ends = performance.now() + patience
        for (let round = 0; ; round++) {
          assert.ok(performance.now() < ends, 'no interval has more than the limit')
          if ((await aroundABoundary(hit, `round ${round}`, rule, rule.limit)).within > rule.limit) break
        }
      })
    }
  }
})
