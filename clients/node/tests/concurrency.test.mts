// So many requests at a time: each holds a slot until its response is closed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import { describe, test } from 'node:test'
import express from 'express'
import fastify from 'fastify'
import Koa from 'koa'
import { concurrency as forExpress } from '@redis-throttle/client/express'
import { concurrency as forFastify } from '@redis-throttle/client/fastify'
import { concurrency as forKoa } from '@redis-throttle/client/koa'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { until } from './servers.mjs'

/** Holds requests until they are let go. */
class Gate {
  readonly #held: (() => void)[] = []
  get size(): number {
    return this.#held.length
  }
  wait = () => new Promise<void>((resolve) => this.#held.push(resolve))
  open(): void {
    for (const go of this.#held.splice(0)) go()
  }
}

type Options = Omit<Parameters<typeof forExpress>[0], 'limiter'>
type Serve = (limiter: FakeLimiter, gate: Gate, options: Options) => Promise<{ port: number; close(): Promise<unknown> }>

async function listening(server: http.Server): Promise<{ port: number; close(): Promise<unknown> }> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as { port: number }).port,
    close: () => { server.closeAllConnections(); return new Promise((resolve) => server.close(resolve)) } }
}

const frameworks: Record<string, Serve> = {
  Express: (limiter, gate, options) => {
    const app = express()
    app.use(forExpress({ limiter, ...options }))
    app.get('/', async (_req, res) => { await gate.wait(); res.send('served') })
    return listening(http.createServer(app))
  },
  'node:http': (limiter, gate, options) => {
    const take = forExpress({ limiter, ...options })
    return listening(http.createServer((req, res) => { void take(req, res, () => { void gate.wait().then(() => res.end('served')) }) }))
  },
  Koa: (limiter, gate, options) => {
    const app = new Koa()
    app.use(forKoa({ limiter, ...options } as unknown as Parameters<typeof forKoa>[0]))
    app.use(async (ctx) => { await gate.wait(); ctx.body = 'served' })
    return listening(http.createServer(app.callback()))
  },
  Fastify: async (limiter, gate, options) => {
    const app = fastify()
    await app.register(forFastify, { limiter, ...options } as unknown as Parameters<typeof forFastify>[1])
    app.get('/', async () => { await gate.wait(); return 'served' })
    await app.listen({ port: 0, host: '127.0.0.1' })
    return { port: (app.server.address() as { port: number }).port, close: () => { app.server.closeAllConnections(); return app.close() } }
  },
}

for (const [name, serve] of Object.entries(frameworks)) {
  describe(name, () => {
    const within = async (options: Options, act: (get: (signal?: AbortSignal) => Promise<Response>, gate: Gate, limiter: FakeLimiter) => Promise<void>) => {
      const limiter = new FakeLimiter()
      const gate = new Gate()
      const { port, close } = await serve(limiter, gate, options)
      try {
        await act((signal) => fetch(`http://127.0.0.1:${port}/`, { headers: { connection: 'close' }, ...(signal && { signal }) }), gate, limiter)
      } finally {
        gate.open()
        await close()
      }
    }
    const held = (limiter: FakeLimiter) => {
      const released = new Set(limiter.asked.filter(({ call, done }) => call.verb === 'release' && done).map(({ call }) => call.id))
      return limiter.asked.filter(({ call, result }) => call.verb === 'lease' && result?.allowed && !released.has(call.id)).length
    }

    test('one more than there are slots gets 429, and one after another is served', async () => {
      await within({ slots: 2 }, async (get, gate, limiter) => {
        const first = [get(), get()]
        await until(() => gate.size === 2, 'two are served')
        const third = await get()
        assert.deepEqual([third.status, third.headers.get('retry-after'), third.headers.get('content-type')], [429, '1', 'application/problem+json'])
        assert.equal(((await third.json()) as { detail: string }).detail, 'too many requests at a time')
        gate.open()
        assert.deepEqual((await Promise.all(first)).map(({ status }) => status), [200, 200])
        await until(() => held(limiter) === 0, 'the slots are free')
        const next = get()
        await until(() => gate.size === 1, 'the next is served')
        gate.open()
        assert.equal(await (await next).text(), 'served')
        assert.equal(limiter.asked[0]?.words[1], 'http:concurrency:127.0.0.1')
      })
    })

    test('with a timeout it waits for its turn', async () => {
      await within({ slots: 1, timeout: '1m', key: () => 'reports' }, async (get, gate, limiter) => {
        const first = get()
        await until(() => gate.size === 1, 'one is served')
        const second = get()
        await until(() => limiter.blocked === 1, 'the other waits')
        gate.open()
        assert.equal((await first).status, 200)
        await until(() => gate.size === 1, 'the other is served')
        gate.open()
        assert.equal((await second).status, 200)
      })
    })

    test('a client that leaves frees its slot, and its place in the line', async () => {
      await within({ slots: 1, timeout: '1m', key: () => 'reports' }, async (get, gate, limiter) => {
        const leaving = new AbortController()
        const first = get(leaving.signal)
        await until(() => gate.size === 1, 'one is served')
        const alsoLeaving = new AbortController()
        const second = get(alsoLeaving.signal)
        await until(() => limiter.blocked === 1, 'the other waits')
        alsoLeaving.abort()
        await assert.rejects(second)
        await until(() => limiter.blocked === 0, 'it has left the line')
        leaving.abort()
        await assert.rejects(first)
        await until(() => held(limiter) === 0, 'the slot is free')
      })
    })

    test('outage, skip, an absent key, and 0 slots', async () => {
      for (const [options, status] of [[{ slots: 1, outage: 'deny' }, 503], [{ slots: 1 }, 200]] as const) {
        await within(options, async (get, gate, limiter) => {
          limiter.fail()
          const asked = get()
          if (status === 200) await until(() => gate.size === 1, 'it is served')
          gate.open()
          assert.equal((await asked).status, status)
        })
      }
      for (const options of [{ slots: 0, skip: () => true }, { slots: 0, skip: ['127.0.0.0/8'] }, { slots: 0, key: () => undefined }]) {
        await within(options, async (get, gate, limiter) => {
          const asked = get()
          await until(() => gate.size === 1, 'it is served')
          gate.open()
          assert.equal((await asked).status, 200)
          assert.equal(limiter.asked.length, 0)
        })
      }
      await within({ slots: 0 }, async (get) => assert.equal((await get()).status, 429))
    })
  })
}

test('options are checked', () => {
  const limiter = new FakeLimiter()
  for (const [options, error] of [
    [{ slots: -1 }, /slots must be an integer from 0/], [{ slots: 1, timeout: '0' }, /timeout must not be 0/], [{ slots: 1, ttl: 5 }, /ttl: 5 needs a unit/],
    [{ slots: 1, outage: 'open' }, /outage must be allow, deny or raise/], [{ slots: 1, limits: [] }, /concurrency: there is no option limits/], [{ slots: 1, key: 'k' }, /key must be a function/],
    [{ slots: 1, skip: ['10.1.2.3/8'] }, /skip: '10.1.2.3\/8' is neither/], [{ slots: 1, skip: 'x' }, /skip must be a function, or a list/],
    [{ slots: 1, key: () => 'k', name: 'x' }, /name: it is a part of the default key/],
  ] as const) assert.throws(() => forExpress({ limiter, ...options } as unknown as Parameters<typeof forExpress>[0]), error)
})
