// Policies in middlewares and in the stores of other libraries, which take the name of one.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import fastifyRateLimit from '@fastify/rate-limit'
import express from 'express'
import expressRateLimit from 'express-rate-limit'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { LimitedError, Limiter, policies, policy, rate } from '@redis-throttle/client'
import { rateLimit as forExpress } from '@redis-throttle/client/express'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import { rateLimit as forFastify } from '@redis-throttle/client/fastify'
import { throttleStore } from '@redis-throttle/client/fastify-rate-limit'
import { limitedFetch } from '@redis-throttle/client/fetch'
import { rateLimit as forHono } from '@redis-throttle/client/hono'
import { rateLimit as forKoa } from '@redis-throttle/client/koa'
import { ThrottleStorage } from '@redis-throttle/client/nestjs'
import { RateLimiterThrottle } from '@redis-throttle/client/rate-limiter-flexible'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { RateLimiterRes } from 'rate-limiter-flexible'

const quiet = { error: () => {}, info: () => {} }
const over = (hash: Record<string, string>) => new Limiter(policies(new FakeLimiter(), () => Promise.resolve(hash), { logger: quiet }))
const limits = rate(100, '1h')
const key = () => 'user:42'

type Answered = { status: number; headers: Headers; body: string }

async function served(server: http.Server, n: number): Promise<Answered[]> {
  if (!server.listening) await once(server.listen(0, '127.0.0.1'), 'listening')
  const answers: Answered[] = []
  for (let i = 0; i < n; i++) {
    const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, { headers: { connection: 'close' } })
    answers.push({ status: response.status, headers: response.headers, body: await response.text() })
  }
  server.close()
  return answers
}

const apps: Record<string, (limiter: Limiter) => Promise<(n: number) => Promise<Answered[]>>> = {
  express: async (limiter) => {
    const app = express()
    app.use(forExpress({ limiter, limits, policy: 'api', key }))
    app.get('/', (_, res) => void res.send('ok'))
    return (n) => served(http.createServer(app), n)
  },
  fastify: async (limiter) => {
    const app = fastify()
    await app.register(forFastify, { limiter, limits: () => limits, policy: 'api', key })
    app.get('/', () => 'ok')
    return async (n) => {
      const answers: Answered[] = []
      for (let i = 0; i < n; i++) {
        const { statusCode, headers, body } = await app.inject('/')
        answers.push({ status: statusCode, headers: new Headers(headers as Record<string, string>), body })
      }
      return answers
    }
  },
  koa: async (limiter) => {
    const app = new Koa()
    app.use(forKoa({ limiter, limits: policy('api', limits), key }))
    app.use((ctx) => { ctx.body = 'ok' })
    return (n) => served(http.createServer(app.callback()), n)
  },
  hono: async (limiter) => {
    const app = new Hono()
    app.use(forHono({ limiter, keys: () => ({ 'user:42': policy('api', limits) }) }))
    app.get('/', (c) => c.text('ok'))
    return async (n) => {
      const answers: Answered[] = []
      for (let i = 0; i < n; i++) {
        const response = await app.request('/')
        answers.push({ status: response.status, headers: response.headers, body: await response.text() })
      }
      return answers
    }
  },
}

describe('a middleware', () => {
  for (const [name, make] of Object.entries(apps)) {
    test(`of ${name} has the limits that count`, async () => {
      const [first, , denied] = await (await make(over({ api: 'RATE 2/h', 'api/user:*': 'RATE 2/h' })))(3)
      assert.deepEqual([first?.status, first?.headers.get('ratelimit-policy'), first?.headers.get('ratelimit')], [200, '"api";q=2;w=3600', '"api";r=1;t=1800'])
      assert.deepEqual([denied?.status, denied?.headers.get('retry-after')], [429, '1800'])
      assert.match(denied?.body ?? '', /"violated-policies":\["api"\]/)
      const [free] = await (await make(over({ api: 'NONE' })))(1)
      assert.deepEqual([free?.status, free?.headers.get('ratelimit-policy'), free?.headers.get('ratelimit')], [200, null, null])
      const [plain] = await (await make(over({})))(1)
      assert.deepEqual([plain?.headers.get('ratelimit-policy'), plain?.headers.get('ratelimit')], ['"api";q=100;w=3600', '"api";r=99;t=36'])
    })
  }

  test('refuses what is no policy', () => {
    const limiter = new FakeLimiter()
    assert.throws(() => forExpress({ limiter, limits, policy: 'a b' }), /the name of a policy/)
    assert.throws(() => forExpress({ limiter, keys: () => ({}), policy: 'api' } as never), /policy: it goes with limits/)
  })

  test('that is of outgoing requests has them, too', async () => {
    const send = limitedFetch({ limiter: over({ partner: 'RATE 1/h' }), limits, policy: 'partner', key: 'partner', fetch: () => Promise.resolve(new Response('ok')) })
    await send('http://partner.example/')
    await assert.rejects(send('http://partner.example/'), LimitedError)
  })
})

describe('a store', () => {
  const lower = { api: 'WINDOW 2/h' }
  const higher = { api: 'WINDOW 5/h' }
  /** How many of ten get through at a host's limit of 3. */
  const through: Record<string, (limiter: Limiter) => Promise<number>> = {
    'of express-rate-limit': async (limiter) => {
      const app = express()
      app.use(expressRateLimit({ windowMs: 3_600_000, limit: 3, store: new ThrottleStore({ limiter, policy: 'api' }) }))
      app.get('/', (_, res) => void res.send('ok'))
      return (await served(http.createServer(app), 10)).filter(({ status }) => status === 200).length
    },
    'of @fastify/rate-limit': async (limiter) => {
      const app = fastify()
      await app.register(fastifyRateLimit, { max: 3, timeWindow: 3_600_000, store: throttleStore({ limiter, policy: 'api' }) })
      app.get('/', () => 'ok')
      let n = 0
      for (let i = 0; i < 10; i++) n += (await app.inject('/')).statusCode === 200 ? 1 : 0
      return n
    },
    'of @nestjs/throttler': async (limiter) => {
      const storage = new ThrottleStorage({ limiter, policy: (name) => (name === 'default' ? 'api' : undefined) })
      let n = 0
      for (let i = 0; i < 10; i++) {
        const { isBlocked, totalHits } = await storage.increment('k', 3_600_000, 3, 0, 'default')
        assert.equal(isBlocked, totalHits > 3)
        n += isBlocked ? 0 : 1
      }
      return n
    },
    'of rate-limiter-flexible': async (limiter) => {
      const flexible = new RateLimiterThrottle({ limiter, points: 3, duration: 3600, policy: 'api' })
      let n = 0
      for (let i = 0; i < 10; i++) {
        n += await flexible.consume('k').then(() => 1, (error: unknown) => {
          assert.ok(error instanceof RateLimiterRes && error.consumedPoints > 3 && error.remainingPoints === 0)
          return 0
        })
      }
      if (n < 10) assert.ok(((await flexible.get('k'))?.consumedPoints ?? 0) > 3)
      return n
    },
  }
  for (const [name, ask] of Object.entries(through)) {
    test(`${name} lets through what the policy does, whatever limit the host shows`, async () => {
      assert.equal(await ask(over({})), 3)
      assert.equal(await ask(over(lower)), 2)
      assert.equal(await ask(over(higher)), 5)
      assert.equal(await ask(over({ api: 'NONE' })), 10)
    })
  }

  test('refuses what is no policy, and one without a limit', async () => {
    const limiter = new FakeLimiter()
    assert.throws(() => new ThrottleStore({ limiter, policy: 'a b' }), /the name of a policy/)
    assert.throws(() => throttleStore({ limiter, policy: 'a b' }), /the name of a policy/)
    assert.throws(() => new ThrottleStorage({ limiter, policy: 'a b' }), /the name of a policy/)
    assert.throws(() => new RateLimiterThrottle({ limiter, points: 1, duration: 1, policy: 'a b' }), /the name of a policy/)
    const store = new ThrottleStore({ limiter, policy: 'api' })
    assert.throws(() => { store.init({ limit: () => 3, windowMs: 1000 } as never) }, /policy: it needs a limit that is a number above 0/)
  })
})
