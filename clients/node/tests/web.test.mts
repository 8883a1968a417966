// The middlewares and the stores under the frameworks themselves.
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import { serve } from '@hono/node-server'
import { Controller, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
import express from 'express'
import { rateLimit as expressRateLimit } from 'express-rate-limit'
import fastify from 'fastify'
import { Hono } from 'hono'
import { Redis } from 'ioredis'
import Koa from 'koa'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { fixed, Limiter, OutageError, type Problem, rate, window } from '@redis-throttle/client'
import * as onExpress from '@redis-throttle/client/express'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import * as onFastify from '@redis-throttle/client/fastify'
import * as onHono from '@redis-throttle/client/hono'
import * as onKoa from '@redis-throttle/client/koa'
import { ThrottleStorage } from '@redis-throttle/client/nestjs'
import { RateLimiterThrottle } from '@redis-throttle/client/rate-limiter-flexible'
import { client, server } from './served.mjs'

interface Site {
  url: string
  close: () => unknown
}

interface Common {
  limiter: Limiter
  limits?: Parameters<typeof rate>[0] extends number ? ReturnType<typeof rate> | ReturnType<typeof rate>[] : never
  keys?: () => Record<string, ReturnType<typeof rate>>
  key?: () => string | undefined
  outage?: 'allow' | 'deny' | 'raise'
  onError?: (error: Error) => void
  xRateLimit?: 'seconds' | 'unix'
}

async function listen(server: http.Server): Promise<Site> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, close: () => { server.closeAllConnections(); server.close() } }
}

/** Each framework with middlewares, the outermost first. */
const frameworks: Record<string, (...options: Common[]) => Promise<Site>> = {
  'node:http': async (...options) => {
    const [use, ...none] = options.map((each) => onExpress.rateLimit(each as never))
    if (none.length > 0 || !use) return await (frameworks['Express'] as (...o: Common[]) => Promise<Site>)(...options)
    return await listen(http.createServer((req, res) => void use(req, res, (error) => { res.statusCode = error ? 500 : 200; res.end('hello') })))
  },
  Express: async (...options) => {
    const app = express()
    for (const each of options) app.use(onExpress.rateLimit(each as never))
    app.get('/', (_, res) => void res.send('hello'))
    app.use((_: unknown, __: unknown, res: express.Response, ___: unknown) => void res.status(500).end())
    return await listen(http.createServer(app))
  },
  Fastify: async (...options) => {
    const app = fastify()
    for (const each of options) await app.register(onFastify.rateLimit, each as never)
    app.get('/', () => 'hello')
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
  Koa: async (...options) => {
    const app = new Koa()
    app.silent = true
    for (const each of options) app.use(onKoa.rateLimit(each as never))
    app.use((ctx) => { ctx.body = 'hello' })
    return await listen(http.createServer(app.callback()))
  },
  Hono: async (...options) => {
    const app = new Hono()
    for (const each of options) app.use(onHono.rateLimit(each as never))
    app.get('/', (c) => c.text('hello'))
    const server = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as http.Server
    if (!server.listening) await once(server, 'listening')
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, close: () => { server.closeAllConnections(); server.close() } }
  },
}

const limiter = new Limiter(client, { timeout: '10s' })

async function gets(site: Site, n: number): Promise<Response[]> {
  try {
    const responses = []
    for (let i = 0; i < n; i++) {
      const response = await fetch(site.url, { headers: { connection: 'close' } })
      responses.push(response)
    }
    return responses
  } finally {
    await site.close()
  }
}

const statuses = (responses: Response[]) => responses.map(({ status }) => status)

for (const [name, open] of Object.entries(frameworks)) {
  describe(`middleware of ${name}`, () => {
    test('answers 429 with the fields and a problem document', async () => {
      await server.do('FLUSHALL')
      const [first, , third] = (await gets(await open({ limiter, limits: rate(2, '1h'), xRateLimit: 'seconds' }), 3)) as [Response, Response, Response]
      assert.deepEqual([first.status, third.status], [200, 429])
      assert.equal(await first.text(), 'hello')
      assert.equal(first.headers.get('RateLimit-Policy'), '"default";q=2;w=3600')
      assert.equal(first.headers.get('RateLimit'), '"default";r=1;t=1800')
      assert.equal(first.headers.get('X-RateLimit-Remaining'), '1')
      assert.equal(first.headers.get('Retry-After'), null)
      assert.match(third.headers.get('RateLimit') ?? '', /^"default";r=0;t=1\d\d\d$/)
      assert.ok(Number(third.headers.get('Retry-After')) > 1700)
      assert.equal(third.headers.get('Content-Type'), 'application/problem+json')
      assert.deepEqual(await third.json(), { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Quota Exceeded', status: 429, 'violated-policies': ['default'] })
    })

    test('has an item for each limit but shadows, and for several keys', async () => {
      await server.do('FLUSHALL')
      const limits = [rate(5, '1h', { burst: 10, name: 'burst' }), fixed(100, '365d', { unit: 'content-bytes' }), window(1, '1h', { shadow: true })]
      const [one] = (await gets(await open({ limiter, limits, key: () => 'k' }), 1)) as [Response]
      assert.equal(one.headers.get('RateLimit-Policy'), '"burst";q=10;w=7200, "limit-2";q=100;qu="content-bytes";w=31536000')
      const both = await gets(await open({ limiter, keys: () => ({ '{a}:1': rate(2, '1h', { name: 'user' }), '{a}': rate(9, '1h', { name: 'all' }) }) }), 3)
      assert.deepEqual(statuses(both), [200, 200, 429])
      assert.equal(both[0]?.headers.get('RateLimit'), '"user";r=1;t=1800, "all";r=8;t=400')
    })

    test('may be nested, and a request without a key is not limited', async () => {
      await server.do('FLUSHALL')
      const site = await open(
        { limiter, limits: rate(5, '1h', { name: 'outer' }), key: () => 'outer' },
        { limiter, limits: rate(9, '1h', { name: 'inner' }), key: () => 'inner' },
      )
      const [both] = (await gets(site, 1)) as [Response]
      assert.equal(both.headers.get('RateLimit-Policy'), '"outer";q=5;w=3600, "inner";q=9;w=3600')
      assert.deepEqual(statuses(await gets(await open({ limiter, limits: rate(1, '1h'), key: () => undefined }), 3)), [200, 200, 200])
    })

    test('names the limits of several middlewares and keys apart', async () => {
      await server.do('FLUSHALL')
      const site = await open(
        { limiter, limits: rate(5, '1h'), key: () => 'outer' },
        { limiter, keys: () => ({ '{a}:1': fixed(1, '365d', { name: 'year' }), '{a}': rate(9, '1h') }) },
        { limiter, limits: rate(1, '1h'), key: () => 'inner' },
      )
      const [first, second] = (await gets(site, 2)) as [Response, Response]
      assert.equal(first.headers.get('RateLimit-Policy'), '"default";q=5;w=3600, "year";q=1;w=31536000, "default-2";q=9;w=3600, "default-3";q=1;w=3600')
      assert.match(first.headers.get('RateLimit') ?? '', /^"default";r=4;t=\d+, "year";r=0;t=\d+, "default-2";r=8;t=\d+, "default-3";r=0;t=\d+$/)
      assert.deepEqual(((await second.json()) as Problem)['violated-policies'], ['year'])
      const inner = await open({ limiter, limits: rate(5, '1h'), key: () => 'outer' }, { limiter, limits: rate(1, '1h'), key: () => 'inner' })
      const [denied] = (await gets(inner, 1)) as [Response]
      assert.deepEqual([denied.status, ((await denied.json()) as Problem)['violated-policies']], [429, ['default-2']])
    })

    test('does in an outage what was chosen', async () => {
      const away = new Redis({ port: 1, host: '127.0.0.1', enableOfflineQueue: false })
      away.on('error', () => {})
      const seen: Error[] = []
      for (const [outage, status] of [[undefined, 200], ['deny', 503], ['raise', 500]] as const) {
        const options = { limiter: new Limiter(away), limits: rate(1, '1h'), onError: (error: Error) => seen.push(error), ...(outage && { outage }) }
        const [response] = (await gets(await open(options), 1)) as [Response]
        assert.equal(response.status, status, String(seen.at(-1)))
        assert.equal(response.headers.get('Retry-After'), status === 503 ? '1' : null)
        assert.ok(seen.at(-1) instanceof OutageError)
      }
      away.disconnect()
    })
  })
}

describe('stores', () => {
  test('express-rate-limit: a limit that is a number is exact', async () => {
    await server.do('FLUSHALL')
    const app = express()
    app.use(expressRateLimit({ windowMs: 3_600_000, limit: 2, store: new ThrottleStore({ limiter }), legacyHeaders: true }))
    app.get('/', (_, res) => void res.send('hello'))
    const responses = await gets(await listen(http.createServer(app)), 4)
    assert.deepEqual(statuses(responses), [200, 200, 429, 429])
    assert.deepEqual(responses.map(({ headers }) => headers.get('X-RateLimit-Remaining')), ['1', '0', '0', '0'])
    assert.ok(Number(responses[3]?.headers.get('Retry-After')) > 3500)
  })

  test('express-rate-limit: a limit that is a function counts', async () => {
    await server.do('FLUSHALL')
    const store = new ThrottleStore({ limiter })
    store.init({ limit: () => 2, windowMs: 60_000 })
    assert.equal(await store.get('k'), undefined)
    assert.deepEqual([(await store.increment('k')).totalHits, (await store.increment('k')).totalHits, (await store.get('k'))?.totalHits], [1, 2, 2])
    await store.decrement('k')
    assert.equal((await store.increment('k')).totalHits, 2)
    await store.resetKey('k')
    assert.equal((await store.increment('k')).totalHits, 1)
    const none = new ThrottleStore({ limiter })
    none.init({ limit: 0, windowMs: 60_000 })
    assert.ok((await none.increment('z')).totalHits > 0)
  })

  test('NestJS', async () => {
    await server.do('FLUSHALL')
    class Hello {
      hello() {
        return 'hello'
      }
    }
    Get()(Hello.prototype, 'hello', Object.getOwnPropertyDescriptor(Hello.prototype, 'hello') as PropertyDescriptor)
    Controller()(Hello)
    class App {}
    Module({
      imports: [ThrottlerModule.forRoot({ throttlers: [{ ttl: 3_600_000, limit: 2, blockDuration: 7_200_000 }], storage: new ThrottleStorage({ limiter }) })],
      controllers: [Hello],
      providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    })(App)
    const app = await NestFactory.create(App, { logger: false })
    await app.listen(0, '127.0.0.1')
    const responses = await gets({ url: await app.getUrl(), close: () => app.close() }, 4)
    assert.deepEqual(statuses(responses), [200, 200, 429, 429])
    assert.deepEqual(responses.slice(0, 2).map(({ headers }) => headers.get('X-RateLimit-Remaining')), ['1', '0'])
    for (const { headers } of responses.slice(2)) assert.ok(Number(headers.get('Retry-After')) > 7100, headers.get('Retry-After') ?? '')
  })

  test('rate-limiter-flexible: blockDuration keeps out as the store for Redis does', async () => {
    await server.do('FLUSHALL')
    const ioredis = new Redis(server.port)
    const options = { points: 2, duration: 3600, blockDuration: 7200, keyPrefix: 'blocked' }
    const got: unknown[] = []
    for (const login of [new RateLimiterRedis({ storeClient: ioredis, ...options }), new RateLimiterThrottle({ limiter, ...options })]) {
      const outcomes: unknown[] = []
      for (let i = 0; i < 4; i++) {
        const outcome = await login.consume('ann').then(({ remainingPoints }) => remainingPoints,
          ({ remainingPoints, msBeforeNext }: RateLimiterRes) => [remainingPoints, Math.round(msBeforeNext / 60_000)])
        outcomes.push(outcome)
      }
      await login.delete('ann')
      outcomes.push((await login.consume('ann')).remainingPoints)
      got.push(outcomes)
    }
    ioredis.disconnect()
    assert.deepEqual(got[1], got[0])
    assert.deepEqual(got[1], [1, 0, [0, 120], [0, 120], 1])
  })

  test('rate-limiter-flexible', async () => {
    await server.do('FLUSHALL')
    const flexible = new RateLimiterThrottle({ limiter, points: 5, duration: 3600, keyPrefix: 'login' })
    assert.equal(await flexible.get('ann'), null)
    const first = await flexible.consume('ann', 3)
    assert.deepEqual([first.remainingPoints, first.consumedPoints, first.isFirstInDuration], [2, 3, true])
    const denied: unknown = await flexible.consume('ann', 3).catch((error: unknown) => error)
    assert.ok(denied instanceof RateLimiterRes && denied.remainingPoints === 2 && denied.msBeforeNext > 3_500_000, String(denied))
    assert.equal((await flexible.reward('ann', 1)).remainingPoints, 3)
    assert.equal((await flexible.penalty('ann', 4)).remainingPoints, 0)
    assert.equal((await flexible.get('ann'))?.remainingPoints, 0)
    assert.equal(await flexible.delete('ann'), true)
    assert.ok((await flexible.block('ann', 60)).msBeforeNext > 59_000)
    await assert.rejects(flexible.consume('ann'), RateLimiterRes)
    await assert.rejects(flexible.set(), /no such command/)
  })
})
