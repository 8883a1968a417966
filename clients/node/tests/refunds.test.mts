// Stores under hosts that return hits, that read whether a limit is exceeded, and that set them up wrongly; beside the
// hosts' own stores for Redis.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { beforeEach, describe, mock, test } from 'node:test'
import fastifyRateLimit from '@fastify/rate-limit'
import { serve } from '@hono/node-server'
import express from 'express'
import { rateLimit as expressRateLimit, type Store } from 'express-rate-limit'
import fastify from 'fastify'
import { Hono } from 'hono'
import { rateLimiter as honoRateLimiter } from 'hono-rate-limiter'
import { Redis } from 'ioredis'
import { RateLimiterMemory, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { RedisStore } from 'rate-limit-redis'
import { Limiter, window } from '@redis-throttle/client'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import { throttleStore } from '@redis-throttle/client/fastify-rate-limit'
import { ThrottleStorage } from '@redis-throttle/client/nestjs'
import { RateLimiterThrottle } from '@redis-throttle/client/rate-limiter-flexible'
import { client, server } from './served.mjs'

const limiter = new Limiter(client, { timeout: '10s' })
beforeEach(async () => {
  await server.do('FLUSHALL')
})

/** Runs requests against a server of node:http, and returns their statuses. */
async function ask(handler: http.RequestListener | http.Server, run: (get: (path?: string) => Promise<number>) => Promise<unknown>): Promise<void> {
  const site = handler instanceof http.Server ? handler : http.createServer(handler)
  if (!site.listening) await once(site.listening ? site : site.listen(0, '127.0.0.1'), 'listening')
  try {
    const { port } = site.address() as AddressInfo
    await run(async (path = '') => {
      const response = await fetch(`http://127.0.0.1:${port}/${path}`)
      await response.text()
      return response.status
    })
  } finally {
    site.close()
    site.closeAllConnections()
  }
}

interface Refunds {
  skipFailedRequests?: boolean
  skipSuccessfulRequests?: boolean
}

const quiet = { error() {}, warn() {} }

const hosts: Record<string, (store: Store, limit: number, options: Refunds) => http.RequestListener | http.Server> = {
  'express-rate-limit': (store, limit, options) => {
    const app = express()
    app.use(expressRateLimit({ windowMs: 3_600_000, limit, store, ...options }))
    app.get('/', (_, res) => void res.send('hello'))
    app.get('/bad', (_, res) => void res.status(500).send('bad'))
    return app
  },
  'hono-rate-limiter': (store, limit, options) => {
    const app = new Hono()
    app.use(honoRateLimiter({ windowMs: 3_600_000, limit, store: store as never, keyGenerator: () => 'k', ...options }))
    app.get('/', (c) => c.text('hello'))
    app.get('/bad', (c) => c.text('bad', 500))
    return serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as http.Server
  },
}

describe('a hit that was denied is not returned', () => {
  for (const [name, host] of Object.entries(hosts)) {
    const stores: Record<string, () => Store> = {
      'the store for Redis': () => new RedisStore({ sendCommand: (...words: string[]) => client.call(...(words as [string])) as Promise<never> }),
      'our store': () => new ThrottleStore({ limiter }),
    }
    for (const [which, make] of Object.entries(stores)) {
      test(`${name}, ${which}: failed requests are returned`, async () => {
        await ask(host(make(), 5, { skipFailedRequests: true }), async (get) => {
          const statuses = []
          for (let i = 0; i < 40; i++) statuses.push(await get())
          assert.equal(statuses.filter((status) => status === 200).length, 5)
        })
        await server.do('FLUSHALL')
        await ask(host(make(), 5, { skipFailedRequests: true }), async (get) => {
          let through = 0
          for (let round = 0; round < 3; round++) through += (await Promise.all(Array.from({ length: 20 },
            () => get()))).filter((status) => status === 200).length
          assert.equal(through, 5, '20 at a time')
        })
        await server.do('FLUSHALL')
        await ask(host(make(), 5, { skipFailedRequests: true }), async (get) => {
          for (let i = 0; i < 20; i++) assert.equal(await get('bad'), 500, `request ${i + 1}`)
        })
      })
    }

    test(`${name}: a hit that was denied and is not returned keeps none of the others from it`, async () => {
      const store = new ThrottleStore({ limiter })
      await ask(host(store, 2, { skipSuccessfulRequests: true }), async (get) => {
        for (const status of [500, 500, 429, 429, 429]) assert.equal(await get('bad'), status)
        // As if time had passed.
        for (const key of (await server.do('KEYS', '*')) as string[]) await server.do('DEL', key)
        for (let i = 0; i < 6; i++) assert.equal(await get(), 200, `request ${i + 1}`)
      })
    })
  }

  test('also of a host that returns hits out of order', async () => {
    const store = new ThrottleStore({ limiter })
    store.init({ limit: 2, windowMs: 3_600_000 })
    await Promise.all(Array.from({ length: 10 }, () => store.increment('a')))
    await Promise.all(Array.from({ length: 9 }, () => store.decrement('a')))
    assert.equal((await store.get('a'))?.totalHits, 1)
    assert.equal((await store.increment('a')).totalHits, 2)
    assert.equal((await store.increment('a')).totalHits, 3)
  })
})

describe('a store that is set up wrongly denies or rejects', () => {
  test('express-rate-limit: what init threw, each increment throws', async () => {
    for (const [wrong, says] of [[{ limit: 2.5 }, /count must be an integer/], [{ windowMs: 0 }, /not positive/], [{ limit: Infinity }, /count must be an integer/]] as const) {
      const app = express()
      app.use(expressRateLimit({ windowMs: 60_000, limit: 2, store: new ThrottleStore({ limiter }), logger: quiet, ...wrong } as object))
      app.get('/', (_, res) => void res.send('hello'))
      app.use((error: Error, _: unknown, res: express.Response, __: unknown) => void res.status(says.test(error.message) ? 500 : 501).end())
      await ask(app, async (get) => {
        assert.deepEqual([await get(), await get(), await get()], [500, 500, 500])
      })
    }
    await assert.rejects(new ThrottleStore({ limiter }).increment('k'), /no limit yet/)
  })

  test('express-rate-limit: one store for two limits', async () => {
    const store = new ThrottleStore({ limiter })
    const app = express()
    const use = (limit: number) => expressRateLimit({ windowMs: 60_000, limit, store, logger: quiet, validate: false })
    app.get('/', use(100), (_, res) => void res.send('hello'))
    app.get('/bad', use(20), (_, res) => void res.send('hello'))
    app.use((_: unknown, __: unknown, res: express.Response, ___: unknown) => void res.status(500).end())
    await ask(app, async (get) => {
      assert.deepEqual([await get(), await get('bad')], [500, 500])
    })
    store.init({ limit: 100, windowMs: 60_000 } as never)
  })

  test('express-rate-limit: two stores with different limits share nothing', async () => {
    const app = express()
    const use = (limit: number, windowMs: number) => expressRateLimit({ windowMs, limit, store: new ThrottleStore({ limiter }) })
    app.get('/', use(100, 2000), (_, res) => void res.send('hello'))
    app.get('/bad', use(3, 3_600_000), (_, res) => void res.send('hello'))
    await ask(app, async (get) => {
      for (let i = 0; i < 20; i++) assert.deepEqual([await get(), await get('bad')], [200, i < 3 ? 200 : 429])
    })
  })

  test('unknown options are refused', () => {
    for (const make of [ThrottleStore, throttleStore, ThrottleStorage] as unknown as (((options: object) => unknown) & (new (options: object) => unknown))[]) {
      assert.throws(() => (make === (throttleStore as unknown) ? make({ limiter, perfix: 'x' }) : new make({ limiter, perfix: 'x' })), /there is no option perfix/)
    }
    assert.throws(() => new (throttleStore({ limiter }))({ exponentialBackoff: true }), /exponentialBackoff: this store/)
    for (const option of ['inMemoryBlockOnConsumed', 'blockOnConsumed', 'execEvenly', 'storeClient', 'nosuch']) {
      assert.throws(() => new RateLimiterThrottle({ limiter, points: 5, duration: 1, [option]: 10 } as never), new RegExp(`^TypeError: ${option}: `))
    }
    assert.throws(() => new RateLimiterThrottle({ limiter, points: 5, duration: -1 }), /duration must be/)
    assert.throws(() => new RateLimiterThrottle({ limiter, points: 2.5, duration: 1 }), /count must be an integer/)
    assert.throws(() => new RateLimiterThrottle({ limiter, points: 5, duration: 1, insuranceLimiter: {} as never }), /insuranceLimiter must be/)
  })
})

describe('a limit of 0 lets nobody through', () => {
  test('in every store', async () => {
    await ask(hosts['express-rate-limit']?.(new ThrottleStore({ limiter }), 0, { skipFailedRequests: true }) ?? assert.fail(), async (get) => {
      assert.deepEqual([await get(), await get()], [429, 429])
    })
    const app = fastify()
    await app.register(fastifyRateLimit, { max: 0, timeWindow: 60_000, store: throttleStore({ limiter }) as never })
    app.get('/', () => 'hello')
    assert.equal((await app.inject('/')).statusCode, 429)
    await app.close()
    const flexible = new RateLimiterThrottle({ limiter, points: 0, duration: 60 })
    await assert.rejects(flexible.consume('k'), RateLimiterRes)
    assert.ok(((await flexible.get('k'))?.consumedPoints ?? 0) > 0)
    const nest = new ThrottleStorage({ limiter })
    for (const limit of [0, -1, 0.5, '0']) assert.equal((await nest.increment('k', 60_000, limit as number, 0, 'default')).isBlocked, true, String(limit))
  })

  test('NestJS: fractions, texts and Infinity are what the memory storage takes', async () => {
    const nest = new ThrottleStorage({ limiter })
    const blocked = async (name: string, limit: unknown) => {
      const all = []
      for (let i = 0; i < 4; i++) all.push((await nest.increment('k', 60_000, limit as number, 0, name)).isBlocked)
      return all
    }
    assert.deepEqual(await blocked('fraction', 2.5), [false, false, true, true])
    assert.deepEqual(await blocked('text', '2'), [false, false, true, true])
    assert.deepEqual(await blocked('infinity', Infinity), [false, false, false, false])
    for (const wrong of [NaN, 'many', undefined, '']) await assert.rejects(nest.increment('k', 60_000, wrong as number, 0, 'wrong'), /limit must be a number/)
  })
})

describe('a key that is over its limit can be read', () => {
  test('rate-limiter-flexible: after a penalty, in debt, banned, and when a call costs more than there is', async () => {
    const flexible = new RateLimiterThrottle({ limiter, points: 5, duration: 3600 })
    const theirs = new RateLimiterRedis({ storeClient: client, keyPrefix: 'theirs', points: 5, duration: 3600 })
    for (const one of [flexible, theirs]) {
      assert.equal((await one.penalty('debt', 8)).consumedPoints, 8)
      const shown = await one.get('debt')
      assert.deepEqual([shown?.consumedPoints, shown?.remainingPoints], [8, 0])
      assert.equal((await one.reward('debt', 4)).consumedPoints, 4)
      assert.equal((await one.get('debt'))?.consumedPoints, 4)
      assert.equal((await one.consume('debt')).consumedPoints, 5)
      await one.block('banned', 60)
      assert.ok(((await one.get('banned'))?.consumedPoints ?? 0) > 5)
      await assert.rejects(one.consume('dear', 9), RateLimiterRes)
      assert.ok(((await one.get('dear'))?.consumedPoints ?? 0) > 5)
    }
  })

  test('rate-limiter-flexible: what a reward gives back may be consumed, by every process', async () => {
    const [first, second] = [new RateLimiterThrottle({ limiter, points: 5, duration: 3600 }), new RateLimiterThrottle({ limiter, points: 5, duration: 3600 })]
    await first.consume('k', 5)
    await assert.rejects(first.consume('k'), RateLimiterRes)
    assert.ok(((await second.get('k'))?.consumedPoints ?? 0) > 5)
    await second.reward('k', 3)
    assert.equal((await first.get('k'))?.consumedPoints, 2)
    assert.equal((await first.consume('k', 3)).remainingPoints, 0)
    await assert.rejects(first.consume('k'), RateLimiterRes)
    assert.ok(((await second.get('k'))?.consumedPoints ?? 0) > 5, 'and it is over again')
    assert.equal(await second.delete('k'), true)
    assert.equal(await first.get('k'), null)
  })

  test('rate-limiter-flexible: a call that is denied keeps no smaller one out, nor a block that a reward would lift', async () => {
    const flexible = new RateLimiterThrottle({ limiter, points: 5, duration: 3600 })
    await flexible.consume('k', 2)
    await assert.rejects(flexible.consume('k', 4), RateLimiterRes)
    assert.equal((await flexible.consume('k', 3)).remainingPoints, 0)
    await flexible.block('k', 3600)
    await flexible.reward('k', 4)
    await assert.rejects(flexible.consume('k'), RateLimiterRes)
  })

  test('@fastify/rate-limit: being over one limit of a key says nothing of another', async () => {
    const compared = []
    for (const store of [{ redis: client }, { store: throttleStore({ limiter }) as never }]) {
      const app = fastify()
      await app.register(fastifyRateLimit, { max: (request) => (request.headers['x-paid'] ? 1000 : 3), timeWindow: 60_000, ...store })
      const often = app.createRateLimit({ max: 100, timeWindow: 1000 })
      const seldom = app.createRateLimit({ max: 2, timeWindow: 60_000 })
      app.get('/', () => 'hello')
      for (const [url, check] of [['/often', often], ['/seldom', seldom]] as const) {
        app.get(url, { config: { rateLimit: false } }, async (request, reply) => {
          const status = await check(request)
          return await reply.code(!status.isAllowed && status.isExceeded ? 429 : 200).send()
        })
      }
      const statuses = []
      for (const headers of [{}, {}, {}, {}, { 'x-paid': '1' }, {}]) statuses.push((await app.inject({ url: '/', headers })).statusCode)
      for (const url of ['/seldom', '/seldom', '/seldom', '/often']) statuses.push((await app.inject(url)).statusCode)
      await app.close()
      compared.push(statuses)
    }
    assert.deepEqual(compared[1], [200, 200, 200, 429, 200, 429, 200, 200, 429, 200])
    assert.deepEqual(compared[0], compared[1])
  })

  test('limits that are larger than any number of requests', async () => {
    for (const points of [2 ** 53 - 1, 2 ** 52]) {
      const flexible = new RateLimiterThrottle({ limiter, keyPrefix: `${points}`, points, duration: 60 })
      for (const act of ['consume', 'penalty', 'reward', 'get'] as const) assert.ok(((await flexible[act]('k'))?.remainingPoints ?? 0) > 0)
    }
    for (const max of [2 ** 53 - 1, 2 ** 53, 1e300]) {
      const app = fastify()
      await app.register(fastifyRateLimit, { max, timeWindow: 60_000, store: throttleStore({ limiter }) as never })
      const check = app.createRateLimit()
      app.get('/', async (request) => await check(request, { increment: false }))
      const { isExceeded } = (await app.inject('/')).json<{ isExceeded: boolean }>()
      assert.equal(isExceeded, false, `max ${max}`)
      await app.close()
      assert.equal((await new ThrottleStorage({ limiter }).increment(`${max}`, 60_000, max, 60_000, 'default')).isBlocked, false)
    }
  })

  test('rate-limiter-flexible: a key that is over is let in again as soon as a unit is back', async () => {
    const flexible = new RateLimiterThrottle({ limiter, points: 1, duration: 0.2 as number })
    await flexible.consume('k')
    let denied = 0
    for (const ends = performance.now() + 10_000; performance.now() < ends; denied++) {
      const through = await flexible.consume('k').then(() => true, (error: unknown) => {
        if (error instanceof RateLimiterRes) return false
        throw error
      })
      if (through) break
    }
    assert.ok(denied > 0)
    assert.equal((await limiter.peek('rate-limiter-flexible:rlflx:k', window(1, '200ms'))).remaining, 0, 'it was let in and charged')
  })

  test('without the permission to ban it is denied, and said once that it cannot be read', async () => {
    await server.do('ACL', 'SETUSER', 'limits', 'on', '>password', '~*', '+@all', '-cl.ban', '-@scripting') // nor by functions
    const restricted = new Redis(server.port, { username: 'limits', password: 'password' })
    const said = mock.method(console, 'error', () => {})
    try {
      const flexible = new RateLimiterThrottle({ limiter: new Limiter(restricted, { timeout: '10s' }), points: 1, duration: 3600 })
      await flexible.consume('k')
      for (let i = 0; i < 2; i++) await assert.rejects(flexible.consume('k'), RateLimiterRes)
      assert.equal(said.mock.callCount(), 1)
      assert.match(String(said.mock.calls[0]?.arguments), /cannot be marked.*NOPERM/)
    } finally {
      mock.restoreAll()
      restricted.disconnect()
    }
  })
})

describe('rate-limiter-flexible', () => {
  test('a block of 0 seconds is for ever', async () => {
    const flexible = new RateLimiterThrottle({ limiter, points: 5, duration: 1 })
    const theirs = new RateLimiterRedis({ storeClient: client, keyPrefix: 'theirs', points: 5, duration: 1 })
    for (const one of [flexible, theirs]) {
      assert.equal((await one.block('k', 0)).msBeforeNext, -1)
      const denied: unknown = await one.consume('k').catch((error: unknown) => error)
      assert.ok(denied instanceof RateLimiterRes)
      if (one === flexible) assert.equal((await one.get('k'))?.msBeforeNext, -1)
      assert.equal(await one.delete('k'), true)
      await one.consume('k')
    }
  })

  test('the insurance decides in an outage, and in no mistake', async () => {
    const away = new Redis({ port: 1, host: '127.0.0.1', enableOfflineQueue: false })
    away.on('error', () => {})
    const insuranceLimiter = new RateLimiterMemory({ points: 2, duration: 60 })
    const flexible = new RateLimiterThrottle({ limiter: new Limiter(away), points: 5, duration: 60, blockDuration: 30, insuranceLimiter })
    assert.equal(insuranceLimiter.blockDuration, 30)
    assert.deepEqual([(await flexible.consume('k')).remainingPoints, (await flexible.consume('k')).remainingPoints], [1, 0])
    await assert.rejects(flexible.consume('k'), RateLimiterRes)
    assert.ok(((await flexible.get('k'))?.consumedPoints ?? 0) > 2)
    assert.equal(await flexible.delete('k'), true)
    assert.equal((await flexible.penalty('k')).consumedPoints, 1)
    assert.equal((await flexible.reward('k')).consumedPoints, 0)
    await flexible.block('k', 60)
    await assert.rejects(flexible.consume('k'), RateLimiterRes)
    away.disconnect()
    const mistaken = new RateLimiterThrottle({ limiter, points: 5, duration: 60, insuranceLimiter })
    await server.do('SET', 'rate-limiter-flexible:rlflx:text', 'x')
    await assert.rejects(mistaken.consume('text'), /WRONGTYPE/)
  })
})
