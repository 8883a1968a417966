// What services meet: a server that hangs, requests of unusual kinds, callers that leave, and the package loaded more
// than once.
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import net, { type AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { runInNewContext } from 'node:vm'
import fastifyRateLimit from '@fastify/rate-limit'
import { serve } from '@hono/node-server'
import { Controller, Get, type MiddlewareConsumer, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { ThrottlerGuard, ThrottlerModule } from '@nestjs/throttler'
import express from 'express'
import { rateLimit as expressRateLimit } from 'express-rate-limit'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { clientAddress, type Decider, guard, isOutage, Limiter, rate } from '@redis-throttle/client'
import * as onExpress from '@redis-throttle/client/express'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import * as onFastify from '@redis-throttle/client/fastify'
import { throttleStore } from '@redis-throttle/client/fastify-rate-limit'
import * as onHono from '@redis-throttle/client/hono'
import * as onKoa from '@redis-throttle/client/koa'
import { fromUrl as fromIoredis } from '@redis-throttle/client/ioredis'
import { ThrottleStorage } from '@redis-throttle/client/nestjs'
import { RateLimiterThrottle } from '@redis-throttle/client/rate-limiter-flexible'
import { fromUrl as fromRedis } from '@redis-throttle/client/redis'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { packageFolder, Server, until } from './servers.mjs'

const quiet = { error() {}, info() {} }
const perHour = rate(2, '1h')

interface Site {
  listener: http.Server
  close: () => unknown
}

function site(handler: http.RequestListener): Site {
  const listener = http.createServer(handler)
  return { listener, close: () => { listener.closeAllConnections(); listener.close() } }
}

type Make = (limiter: Decider, limits?: ReturnType<typeof rate>, where?: 'site' | 'route') => Promise<Site>

/**
 * Each adapter, in a site that answers ok. It limits the whole site, or its route, where the framework has routes of
 * methods.
 */
const adapters: Record<string, Make> = {
  express: (limiter, limits = perHour, where = 'site') => {
    const app = express()
    const use = onExpress.rateLimit({ limiter, limits, onError() {} })
    if (where === 'site') app.use(use)
    app.get('/', ...(where === 'route' ? [use] : []), (_, res) => { res.send('ok') })
    return Promise.resolve(site(app))
  },
  'node:http': (limiter, limits = perHour) => {
    const use = onExpress.rateLimit({ limiter, limits, onError() {} })
    return Promise.resolve(site((req, res) => void use(req, res, () => res.end('ok'))))
  },
  koa: (limiter, limits = perHour) => {
    const app = new Koa()
    app.use(onKoa.rateLimit({ limiter, limits, onError() {} }))
    app.use((ctx) => { ctx.body = 'ok' })
    return Promise.resolve(site(app.callback() as http.RequestListener))
  },
  hono: (limiter, limits = perHour, where = 'site') => {
    const app = new Hono()
    const use = onHono.rateLimit({ limiter, limits, onError() {} })
    if (where === 'site') app.use('*', use)
    else app.get('/', use)
    app.get('/', (c) => c.text('ok'))
    const listener = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as http.Server
    return Promise.resolve({ listener, close: () => { listener.closeAllConnections(); listener.close() } })
  },
  fastify: async (limiter, limits = perHour) => {
    const app = fastify()
    await app.register(onFastify.rateLimit, { limiter, limits, onError() {} })
    app.get('/', () => 'ok')
    await app.ready()
    return { listener: app.server as http.Server, close: () => { app.server.closeAllConnections(); return app.close() } }
  },
}

const stores: typeof adapters = {
  'express-rate-limit': (limiter) => {
    const app = express()
    app.use(expressRateLimit({ windowMs: 3_600_000, limit: 2, validate: false, store: new ThrottleStore({ limiter }) }))
    app.get('/', (_, res) => { res.send('ok') })
    app.use((_error: unknown, _req: express.Request, res: express.Response, _next: unknown) => { res.sendStatus(500) })
    return Promise.resolve(site(app))
  },
  '@nestjs/throttler': async (limiter) => {
    class Cats { hello() { return 'ok' } }
    Get()(Cats.prototype, 'hello', Object.getOwnPropertyDescriptor(Cats.prototype, 'hello') as PropertyDescriptor)
    Controller()(Cats)
    class App {}
    Module({
      imports: [ThrottlerModule.forRoot({ throttlers: [{ ttl: 3_600_000, limit: 2 }], storage: new ThrottleStorage({ limiter }) })],
      controllers: [Cats],
      providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
    })(App)
    const app = await NestFactory.create(App, { logger: false })
    await app.init()
    return { listener: app.getHttpServer() as http.Server, close: () => app.close() }
  },
  '@fastify/rate-limit': async (limiter) => {
    const app = fastify()
    await app.register(fastifyRateLimit, { max: 2, timeWindow: 3_600_000, store: throttleStore({ limiter }) })
    app.get('/', () => 'ok')
    await app.ready()
    return { listener: app.server as http.Server, close: () => { app.server.closeAllConnections(); return app.close() } }
  },
  'rate-limiter-flexible': (limiter) => {
    const flexible = new RateLimiterThrottle({ limiter, points: 2, duration: 3600 })
    return Promise.resolve(site((_req, res) => {
      flexible.consume('k').then(() => res.end('ok'), (error: unknown) => {
        res.statusCode = error instanceof Error ? 500 : 429
        res.end()
      })
    }))
  },
}

async function listen({ listener }: Site, where: { path: string } | { host: string } = { host: '127.0.0.1' }): Promise<http.RequestOptions> {
  if (!listener.listening) await once('path' in where ? listener.listen(where.path) : listener.listen(0, where.host), 'listening')
  return 'path' in where ? { socketPath: where.path } : { host: where.host === '::' ? '127.0.0.1' : where.host, port: (listener.address() as AddressInfo).port }
}

async function ask(at: http.RequestOptions, options: http.RequestOptions = {}): Promise<http.IncomingMessage & { ms: number }> {
  const began = performance.now()
  const request = http.request({ ...at, path: '/', agent: false, ...options }).end()
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  response.resume()
  await once(response, 'end')
  return Object.assign(response, { ms: performance.now() - began })
}

describe('a server that hangs', () => {
  for (const [client, fromUrl] of Object.entries({ 'node-redis': fromRedis, ioredis: fromIoredis })) {
    for (const [name, make] of Object.entries({ ...adapters, ...stores })) {
      test(`${name} over ${client} answers, says what it is meant to, and is right again afterwards`, async () => {
        await using server = await Server.start()
        await using limiter = await fromUrl(server.url, { logger: quiet, breaker: { pause: '50ms', logger: quiet }, timeout: '1s' })
        const made = await make(limiter)
        const at = await listen(made)
        try {
          assert.equal((await ask(at)).statusCode, 200)
          server.pause()
          const statuses = new Set<number | undefined>()
          const asked = []
          for (let i = 0; i < 20; i++) asked.push(ask(at))
          for (const { statusCode } of await Promise.all(asked)) statuses.add(statusCode)
          assert.deepEqual([...statuses], [name in adapters ? 200 : 500])
          server.resume()
          // What was sent before may be decided now, and nothing more than that: both units may be gone.
          await until(async () => ((await limiter.peek('other', perHour).catch(() => undefined)) !== undefined), 'it is back')
          const after = [(await ask(at)).statusCode, (await ask(at)).statusCode, (await ask(at)).statusCode]
          assert.equal(after[2], 429, String(after))
        } finally {
          await made.close()
        }
      })
    }
  }

  test('a guard lets requests through that a store would fail', async () => {
    await using server = await Server.start()
    await using limiter = await fromRedis(server.url, { logger: quiet, timeout: '1s' })
    const local = guard(limiter, { policy: 'local', logger: quiet })
    for (const make of Object.values(stores)) {
      const made = await make(new Limiter(local))
      const at = await listen(made)
      server.pause()
      const statuses = []
      for (let i = 0; i < 3; i++) statuses.push((await ask(at)).statusCode)
      server.resume()
      assert.deepEqual(statuses, [200, 200, 429])
      await made.close()
    }
  })
})

describe('requests', () => {
  for (const [name, make] of Object.entries(adapters)) {
    test(`${name}: HEAD and OPTIONS count, and a denied HEAD has no body`, async () => {
      const made = await make(new FakeLimiter())
      const at = await listen(made)
      try {
        await ask(at, { method: 'OPTIONS' })
        assert.equal((await ask(at, { method: 'HEAD' })).headers['ratelimit'], '"default";r=0;t=1800')
        const denied = await ask(at, { method: 'HEAD' })
        assert.deepEqual([denied.statusCode, denied.headers['retry-after']], [429, '1800'])
        assert.equal((await ask(at)).statusCode, 429)
      } finally {
        await made.close()
      }
    })

    test(`${name}: a limit of a route for GET is one for HEAD`, async () => {
      const made = await make(new FakeLimiter(), rate(2, '1h'), 'route')
      const at = await listen(made)
      try {
        const statuses = []
        for (const method of ['GET', 'HEAD', 'HEAD', 'GET']) statuses.push((await ask(at, { method })).statusCode)
        assert.deepEqual(statuses, [200, 200, 429, 429])
      } finally {
        await made.close()
      }
    })

    test(`${name}: an IPv4 address at a socket of IPv6 is that address, and requests at a Unix socket share the key @`, async () => {
      const limiter = new FakeLimiter()
      const keys = () => limiter.asked.map(({ call }) => call.keys[0]?.name.split(':').at(-1))
      if (name !== 'hono') {
        const made = await make(limiter)
        await ask(await listen(made, { host: '::' }))
        assert.deepEqual(keys(), ['127.0.0.1'])
        await made.close()
        const local = await make(limiter)
        const socket = path.join(tmpdir(), `throttle-${process.pid}-${Math.random().toString(36).slice(2)}.sock`)
        const at = await listen(local, { path: socket })
        assert.equal((await ask(at)).statusCode, 200)
        assert.deepEqual(keys(), ['127.0.0.1', '@'])
        await local.close()
      }
    })

    test(`${name}: callers that leave are charged, and nothing breaks`, async () => {
      const limiter = new FakeLimiter()
      const made = await make(limiter)
      const { port } = (await listen(made)) as { port: number }
      try {
        limiter.hang()
        for (let i = 0; i < 2; i++) {
          const socket = net.connect(port, '127.0.0.1')
          socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
          await until(() => limiter.blocked === i + 1, 'it is asked')
          socket.destroy()
          await once(socket, 'close')
        }
        limiter.heal()
        assert.equal((await ask({ host: '127.0.0.1', port })).statusCode, 429)
      } finally {
        await made.close()
      }
    })
  }

  test('an address is one, however it is written', () => {
    const from = (remoteAddress: string | undefined) => clientAddress({ headers: {}, socket: { remoteAddress } })
    for (const address of ['10.0.0.1', '::ffff:10.0.0.1', '::FFFF:10.0.0.1', '::ffff:a00:1', '0:0:0:0:0:ffff:10.0.0.1']) assert.equal(from(address), '10.0.0.1', address)
    assert.equal(from('fe80::1%eth0'), from('fe80::2%eth1'))
    assert.equal(from(undefined), '@')
  })
})

test('in NestJS, requests at a time are limited by the middleware for Express', async () => {
  const limiter = new FakeLimiter()
  const held: (() => void)[] = []
  class Cats { hello() { return new Promise((resolve) => { held.push(() => { resolve('ok') }) }) } }
  Get()(Cats.prototype, 'hello', Object.getOwnPropertyDescriptor(Cats.prototype, 'hello') as PropertyDescriptor)
  Controller()(Cats)
  class App { configure(consumer: MiddlewareConsumer) { consumer.apply(onExpress.concurrency({ limiter, slots: 2, key: () => 'reports' })).forRoutes('*') } }
  Module({ controllers: [Cats] })(App)
  const app = await NestFactory.create(App, { logger: false })
  await app.listen(0, '127.0.0.1')
  const at = await listen({ listener: app.getHttpServer() as http.Server, close: () => {} })
  try {
    const first = [ask(at), ask(at)]
    await until(() => held.length === 2, 'two are served')
    const third = await ask(at)
    assert.deepEqual([third.statusCode, third.headers['content-type']], [429, 'application/problem+json'])
    for (const go of held.splice(0)) go()
    assert.deepEqual((await Promise.all(first)).map(({ statusCode }) => statusCode), [200, 200])
    await until(() => limiter.asked.filter(({ call, done }) => call.verb === 'release' && done).length === 2, 'the slots are free')
    const leaving = http.request({ ...at, path: '/', agent: false }).end()
    leaving.on('error', () => {})
    await until(() => held.length === 1, 'it is served')
    leaving.destroy()
    await until(() => limiter.asked.filter(({ call, done }) => call.verb === 'release' && done).length === 3, 'a client that leaves frees its slot')
  } finally {
    for (const go of held) go()
    await app.close()
  }
})

describe('the package more than once', () => {
  let server: Server
  before(async () => { server = await Server.start() })
  after(() => server.stop())

  test('an error of another realm, as those of Node.js are in jest, is told apart', () => {
    const error: unknown = runInNewContext("Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:6379'), { code: 'ECONNREFUSED' })")
    assert.equal(error instanceof Error, false)
    assert.equal(isOutage(error), true)
  })

  test('CommonJS and ES modules of one program, and worker threads, share limits and know the errors of each other', () => {
    const script = `
      import { createRequire } from 'node:module'
      import { Worker, isMainThread, parentPort, workerData } from 'node:worker_threads'
      import * as esm from '@redis-throttle/client'
      import { rateLimit } from '@redis-throttle/client/express'
      import { fromUrl } from '@redis-throttle/client/redis'
      const require = createRequire(process.cwd() + '/x.cjs')
      const cjs = require('@redis-throttle/client')
      const { fromUrl: fromOther } = require('@redis-throttle/client/ioredis')
      const { FakeLimiter } = require('@redis-throttle/client/testing')
      const limits = cjs.rate(20, '1h')
      const one = await fromUrl('${server.url}', { timeout: '30s' })
      const other = await fromOther('${server.url}', { timeout: '30s' })
      const told = []
      for (const limiter of [one, other, new esm.Limiter(other), new cjs.Limiter(one), new cjs.Limiter(esm.guard(other))]) told.push((await limiter.limit('both', limits)).remaining)
      const fake = new FakeLimiter()
      fake.fail()
      const fails = await new esm.Limiter(fake).limit('k', limits).catch((error) => error)
      told.push(fails instanceof esm.OutageError, fails instanceof cjs.OutageError, fails instanceof esm.MistakeError)
      const worker = new Worker(\`
        import('@redis-throttle/client/redis').then(async ({ fromUrl }) => {
          const { rate } = await import('@redis-throttle/client')
          const { parentPort } = await import('node:worker_threads')
          const limiter = await fromUrl('${server.url}', { timeout: '30s' })
          parentPort.postMessage((await limiter.limit('both', rate(20, '1h'))).remaining)
          await limiter.close()
        })\`, { eval: true })
      told.push(await new Promise((resolve, reject) => { worker.once('message', resolve); worker.once('error', reject) }))
      await one.close()
      await other.close()
      console.log(told.join())`
    assert.equal(execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: packageFolder, encoding: 'utf8' }), '19,18,17,16,15,true,true,false,14\n')
  })
})
