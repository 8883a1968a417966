// A flood: more requests than a process can serve, whose handlers compute. At every door at most the limit passes, and
// a server that is up is never taken for one that is away. With THROTTLE_LOAD it is one of the size that services meet.
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { promisify } from 'node:util'
import fastifyRateLimit from '@fastify/rate-limit'
import { serve } from '@hono/node-server'
import { Controller, Get, type INestApplication, type MiddlewareConsumer, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
import express from 'express'
import { rateLimit as expressRateLimit } from 'express-rate-limit'
import fastify from 'fastify'
import { Hono } from 'hono'
import { rateLimiter as honoRateLimiter } from 'hono-rate-limiter'
import Koa from 'koa'
import { type Call, type Decider, type Leave, Limiter, ThrottleError, window } from '@redis-throttle/client'
import * as onExpress from '@redis-throttle/client/express'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import * as onFastify from '@redis-throttle/client/fastify'
import { throttleStore } from '@redis-throttle/client/fastify-rate-limit'
import * as onHono from '@redis-throttle/client/hono'
import { fromUrl as fromIoredis } from '@redis-throttle/client/ioredis'
import * as onKoa from '@redis-throttle/client/koa'
import { ThrottleStorage } from '@redis-throttle/client/nestjs'
import { RateLimiterThrottle } from '@redis-throttle/client/rate-limiter-flexible'
import { fromUrl as fromRedis } from '@redis-throttle/client/redis'
import { Server, until } from './servers.mjs'

const full = Boolean(process.env['THROTTLE_LOAD'])
const [callers, requests, most] = full ? [2000, 6000, 100] : [250, 600, 40]
const hour = 3_600_000
const run = promisify(execFile)
const unlimited = 'Express without a limiter'

const clients = { 'node-redis': fromRedis, ioredis: fromIoredis }

interface Site {
  listener: http.Server
  close: () => unknown
}

/** What a site does for each request: it computes, as to render a page. */
type Serve = () => string

const site = (handler: http.RequestListener): Site => {
  const listener = http.createServer(handler)
  return { listener, close: () => { listener.closeAllConnections(); listener.close() } }
}

const ignored = () => {}

/** Each door, set up as services do: requests pass while Redis is away. */
const doors: Record<string, (limiter: Decider, count: number, serve: Serve) => Site | Promise<Site>> = {
  Express: (limiter, count, serve) => {
    const app = express()
    app.use(onExpress.rateLimit({ limiter, limits: window(count, '1h'), onError: ignored }))
    app.get('/', (_, res) => { res.send(serve()) })
    return site(app)
  },
  [unlimited]: (_limiter, _count, serve) => {
    const app = express()
    app.get('/', (_, res) => { res.send(serve()) })
    return site(app)
  },
  'node:http': (limiter, count, serve) => {
    const use = onExpress.rateLimit({ limiter, limits: window(count, '1h'), onError: ignored })
    return site((req, res) => void use(req, res, () => res.end(serve())))
  },
  Fastify: async (limiter, count, serve) => {
    const app = fastify()
    await app.register(onFastify.rateLimit, { limiter, limits: window(count, '1h'), onError: ignored })
    app.get('/', () => serve())
    await app.ready()
    return { listener: app.server as http.Server, close: () => { app.server.closeAllConnections(); return app.close() } }
  },
  Koa: (limiter, count, serve) => {
    const app = new Koa()
    app.use(onKoa.rateLimit({ limiter, limits: window(count, '1h'), onError: ignored }))
    app.use((ctx) => { ctx.body = serve() })
    return site(app.callback() as http.RequestListener)
  },
  Hono: (limiter, count, serve) => {
    const app = new Hono()
    app.use('*', onHono.rateLimit({ limiter, limits: window(count, '1h'), onError: ignored }))
    app.get('/', (c) => c.text(serve()))
    return ofHono(app)
  },
  'NestJS with the middleware': (limiter, count, serve) => {
    const use = onExpress.rateLimit({ limiter, limits: window(count, '1h'), onError: ignored })
    class App { configure(consumer: MiddlewareConsumer) { consumer.apply(use).forRoutes('*') } }
    return ofNest(App, {}, serve)
  },
  '@nestjs/throttler': (limiter, count, serve) => {
    class App {}
    const imports = [ThrottlerModule.forRoot({ throttlers: [{ ttl: hour, limit: count }], storage: new ThrottleStorage({ limiter }) })]
    return ofNest(App, { imports, providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }] }, serve)
  },
  'express-rate-limit': (limiter, count, serve) => {
    const app = express()
    app.use(expressRateLimit({ windowMs: hour, limit: count, validate: false, passOnStoreError: true, store: new ThrottleStore({ limiter }) }))
    app.get('/', (_, res) => { res.send(serve()) })
    return site(app)
  },
  'hono-rate-limiter': (limiter, count, serve) => {
    const app = new Hono()
    app.use(honoRateLimiter({ windowMs: hour, limit: count, keyGenerator: () => 'k', store: new ThrottleStore({ limiter }) as never }) as never)
    app.get('/', (c) => c.text(serve()))
    return ofHono(app)
  },
  '@fastify/rate-limit': async (limiter, count, serve) => {
    const app = fastify()
    await app.register(fastifyRateLimit, { max: count, timeWindow: hour, skipOnError: true, store: throttleStore({ limiter }) })
    app.get('/', () => serve())
    await app.ready()
    return { listener: app.server as http.Server, close: () => { app.server.closeAllConnections(); return app.close() } }
  },
  'rate-limiter-flexible': (limiter, count, serve) => {
    const flexible = new RateLimiterThrottle({ limiter: new Limiter(limiter), points: count, duration: hour / 1000 })
    return site((_req, res) => {
      flexible.consume('k').then(() => res.end(serve()), (error: unknown) => {
        if (error instanceof ThrottleError && error.code === 'OUTAGE') return res.end(serve())
        res.statusCode = error instanceof Error ? 503 : 429
        return res.end()
      })
    })
  },
}

function ofHono(app: Hono): Site {
  const listener = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as http.Server
  return { listener, close: () => { listener.closeAllConnections(); listener.close() } }
}

async function ofNest(App: new () => object, options: object, serve: Serve): Promise<Site> {
  class Cats { hello() { return serve() } }
  Get()(Cats.prototype, 'hello', Object.getOwnPropertyDescriptor(Cats.prototype, 'hello') as PropertyDescriptor)
  Controller()(Cats)
  Module({ ...options, controllers: [Cats] })(App)
  const app: INestApplication = await NestFactory.create(App, { logger: false })
  await app.init()
  return { listener: app.getHttpServer() as http.Server, close: () => app.close() }
}

/** Counts what a limiter decides. */
class Counting implements Decider {
  readonly errors: Record<string, number> = {}
  decided = 0

  constructor(readonly next: Decider) {}

  async decide(call: Call, options?: Leave) {
    try {
      const result = await this.next.decide(call, options)
      this.decided++
      return result
    } catch (error) {
      const code = error instanceof ThrottleError ? error.code : String(error)
      this.errors[code] = (this.errors[code] ?? 0) + 1
      throw error
    }
  }
}

interface Flood {
  served: number
  statuses: Record<string, number>
  errors: Record<string, number>
  lines: string[]
  tookMs: number[]
}

/** Floods a door, and returns what came of it. */
async function flood(door: string, client: keyof typeof clients, server: Server, count: number, ms: number, of = callers, all = requests): Promise<Flood> {
  const lines: string[] = []
  const logger = { info: (line: string) => { lines.push(line) }, error: (line: string) => { lines.push(line) } }
  await using limiter = await clients[client](server.url, { logger })
  await until(() => limiter.reset('warm').then(() => true, () => false), 'the server answers')
  lines.length = 0 // a busy machine may keep the server from its first answer: that is not the flood's doing
  const counting = new Counting(limiter)
  let served = 0
  const make = doors[door] as (typeof doors)[string]
  const { listener, close } = await make(counting, count, () => {
    served++
    for (const ends = performance.now() + ms; performance.now() < ends; );
    return 'ok'
  })
  try {
    listener.keepAliveTimeout = 0 // or it ends a connection that is idle for 5 s just as the flooder sends
    if (!listener.listening) await once(listener.listen(0, '127.0.0.1', 4096), 'listening')
    const { port } = listener.address() as AddressInfo
    const words = [path.join(import.meta.dirname, 'flooder.mjs'), String(port), String(of), String(all)]
    const { stdout } = await run(process.execPath, words, { maxBuffer: 1 << 30 })
    return { served, errors: counting.errors, lines, ...(JSON.parse(stdout) as Pick<Flood, 'statuses' | 'tookMs'>) }
  } finally {
    await close()
  }
}

describe(`${callers} callers at a time, ${requests} requests, handlers that compute for 10 ms`, () => {
  let server: Server
  before(async () => { server = await Server.start('--maxclients', '10000') })
  after(() => server.stop())
  for (const door of Object.keys(doors)) {
    if (door === unlimited) continue
    for (const client of Object.keys(clients) as (keyof typeof clients)[]) {
      test(`${door} over ${client}: the limit passes, and no more`, async () => {
        await server.do('FLUSHALL')
        const { served, errors, lines, statuses } = await flood(door, client, server, most, 10)
        const told = JSON.stringify({ served, errors, statuses, lines })
        assert.equal(errors['OUTAGE'], undefined, told)
        assert.equal(served, most, told)
        assert.deepEqual(lines, [], told)
      })
    }
  }

  test('a limit that is far: nobody is let through undecided, and nobody is refused', async () => {
    for (const client of Object.keys(clients) as (keyof typeof clients)[]) {
      await server.do('FLUSHALL')
      const { served, errors, statuses } = await flood('Express', client, server, 1_000_000, full ? 10 : 4)
      assert.deepEqual([served, errors, statuses], [requests, {}, { 200: requests }])
    }
  })

  // A limit that is far and none in turn: what callers wait for in both is the processor.
  for (const of of [50, 1000]) {
    for (const client of Object.keys(clients) as (keyof typeof clients)[]) {
      test(`${of} callers of Express over ${client} wait as without a limiter`, { skip: !full && 'make test-load runs it' }, async (t) => {
        await server.do('FLUSHALL')
        const all = Math.max(of, 300)
        const tookMs: Record<string, number[]> = { [unlimited]: [], Express: [] }
        for (const door of [unlimited, 'Express', unlimited, 'Express']) {
          const { served, errors, lines, statuses, tookMs: these } = await flood(door, client, server, 1_000_000, 10, of, all)
          assert.deepEqual([served, errors, lines, statuses], [all, {}, [], { 200: all }], door)
          tookMs[door]?.push(...these)
        }
        for (const [door, took] of Object.entries(tookMs)) {
          const [half, late] = [0.5, 0.99].map((part) => took.sort((a, b) => a - b)[Math.floor(took.length * part)]?.toFixed())
          t.diagnostic(`${door}: half within ${half} ms, 99 % within ${late} ms`)
        }
        await server.do('FLUSHALL')
        const { served, errors, lines } = await flood('Express', client, server, 20, 10, of, all)
        assert.deepEqual([served, errors['OUTAGE'], lines], [20, undefined, []])
      })
    }
  }
})
