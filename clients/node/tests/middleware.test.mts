// What the middlewares take for a key, an address and an answer, in every framework.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import http from 'node:http'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { after, afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { getRequestListener } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import Koa from 'koa'
import { clientAddress, fixed, headerFields, Limiter, problemDocument, rate, window } from '@redis-throttle/client'
import * as onExpress from '@redis-throttle/client/express'
import * as onFastify from '@redis-throttle/client/fastify'
import * as onHono from '@redis-throttle/client/hono'
import * as onKoa from '@redis-throttle/client/koa'
import { fromUrl } from '@redis-throttle/client/redis'
import { client, server } from './served.mjs'
import { Server } from './servers.mjs'

type Options = Omit<onExpress.RateLimitOptions<never>, 'key'> & { key?: () => unknown }

/** Each framework with one middleware, and whether it believes proxies by its own setting. */
const frameworks: Record<string, (options: Options, trust?: boolean) => Promise<http.Server>> = {
  'node:http': async (options) => {
    const use = onExpress.rateLimit(options as never)
    return await Promise.resolve(http.createServer((req, res) => void use(req as never, res, (error) => { res.statusCode = error ? 500 : 200; res.end('hello') })))
  },
  Express: async (options, trust) => {
    const app = express()
    if (trust) app.set('trust proxy', 1)
    app.use(onExpress.rateLimit(options as never))
    app.get('/', (_, res) => void res.send('hello'))
    app.use((_: unknown, __: unknown, res: express.Response, ___: unknown) => void res.status(500).end())
    return await Promise.resolve(http.createServer(app))
  },
  Fastify: async (options, trust = false): Promise<http.Server> => {
    const app = fastify({ trustProxy: trust })
    await app.register(onFastify.rateLimit, options as never)
    app.get('/', () => 'hello')
    await app.ready()
    return app.server
  },
  Koa: async (options, trust = false) => {
    const app = new Koa({ proxy: trust })
    app.silent = true
    app.use(onKoa.rateLimit(options as never))
    app.use((ctx) => { ctx.body = 'hello' })
    return await Promise.resolve(http.createServer(app.callback()))
  },
  Hono: async (options) => {
    const app = new Hono()
    app.onError((_, c) => c.text('bad', 500))
    app.use(onHono.rateLimit(options as never))
    app.get('/', (c) => c.text('hello'))
    return await Promise.resolve(http.createServer(getRequestListener(app.fetch)))
  },
}

let limiter: Limiter
const folder = mkdtempSync(path.join(tmpdir(), 'throttle-socket-'))
const warnings: string[] = []
after(() => {
  rmSync(folder, { recursive: true })
})
beforeEach(async () => {
  limiter = new Limiter(client, { timeout: '10s' })
  await server.do('FLUSHALL')
  warnings.length = 0
  mock.method(console, 'warn', (line: string) => void warnings.push(line))
})
afterEach(() => {
  mock.restoreAll()
})

const bodies = new WeakMap<http.IncomingMessage, string>()

type Get = (forwarded?: string) => Promise<http.IncomingMessage>

/** Serves at an address of this machine, or at a Unix socket. */
async function at(site: http.Server, where: { host: string } | { path: string }, run: (get: Get) => Promise<unknown>): Promise<void> {
  await once(site.listen('path' in where ? where : { ...where, port: 0 }), 'listening')
  const bound = site.address()
  const target = typeof bound === 'string' ? { socketPath: bound } : { host: (where as { host: string }).host, port: bound?.port }
  try {
    await run(async (forwarded) => {
      const request = http.get({ ...target, agent: false, ...(forwarded !== undefined && { headers: { 'x-forwarded-for': forwarded } }) })
      const [response] = (await once(request, 'response')) as [http.IncomingMessage]
      bodies.set(response, await text(response))
      return response
    })
  } finally {
    site.closeAllConnections()
    site.close()
  }
}

const keys = async () => ((await server.do('KEYS', '*')) as string[]).sort()
const local = { host: '127.0.0.1' }

for (const [name, open] of Object.entries(frameworks)) {
  describe(`middleware of ${name}`, () => {
    test('its default key has the policy, so limits of two middlewares are two', async () => {
      await at(await open({ limiter, limits: rate(10, '1m', { take: 1, name: 'all' }) }), local, (get) => get())
      await at(await open({ limiter, limits: [rate(3, '1h', { burst: 5 }), fixed(9, '1d', { zone: 'Europe/Berlin', shadow: true })] }), local, (get) => get())
      await at(await open({ limiter, limits: () => window(3, '1h') }), local, (get) => get())
      await at(await open({ limiter, limits: rate(10, '1m'), name: 'login' }), local, (get) => get())
      assert.deepEqual(await keys(), [
        'http:RATE 10/1m:127.0.0.1',
        'http:RATE 3/1h BURST 5 FIXED 9/1d TZ Europe/Berlin:127.0.0.1',
        'http:WINDOW 3/1h:127.0.0.1',
        'http:login:127.0.0.1',
      ])
      assert.deepEqual(warnings, [])
    })

    test('two with the same limits and no name are one, which is said', async () => {
      const limits = rate(7, `${50 + Object.keys(frameworks).indexOf(name)}m`) // what was said is not said again
      for (let i = 0; i < 3; i++) await open({ limiter, limits })
      await open({ limiter, limits, name: 'named' })
      await open({ limiter, limits, key: () => 'k' })
      assert.equal(warnings.length, 1)
      assert.match(warnings[0] ?? '', /two middlewares have the limits RATE 7\/\d+m and neither a name nor a key/)
    })

    test('clients of one IPv6 network are one', async () => {
      await at(await open({ limiter, limits: rate(10, '1m') }), { host: '::1' }, (get) => get())
      await at(await open({ limiter, limits: rate(10, '1m'), name: 'n', ipv6: 128 }), { host: '::1' }, (get) => get())
      assert.deepEqual(await keys(), ['http:RATE 10/1m:::/64', 'http:n:::1/128'])
    })

    test('a Unix socket has one limit for all, unless its proxy says whom a request is from', async () => {
      const site = await open({ limiter, limits: rate(2, '1h') })
      await at(site, { path: path.join(folder, 'socket') }, async (get) => {
        assert.deepEqual([(await get()).statusCode, (await get()).statusCode, (await get()).statusCode], [200, 200, 429])
        assert.deepEqual([(await get('203.0.113.7')).statusCode, (await get('198.51.100.1, 203.0.113.7')).statusCode], [200, 200])
      })
      assert.deepEqual(await keys(), ['http:RATE 2/1h:203.0.113.7', 'http:RATE 2/1h:@'])
      if (name !== 'node:http') assert.equal(warnings.filter((text) => text.startsWith(`redis-throttle: ${name}: a request has no address`)).length, name === 'Express' ? 0 : 1)
    })

    test('X-Forwarded-For counts if the proxy is trusted, and else it is said once that none is', async () => {
      await at(await open({ limiter, limits: rate(10, '1m') }), local, async (get) => {
        for (let i = 0; i < 3; i++) await get('203.0.113.7')
      })
      await at(await open({ limiter, limits: rate(10, '1m'), name: 'n', trusted: ['127.0.0.0/8'] }), local, (get) => get('198.51.100.1, 2001:db8:1:2::7'))
      const expected = ['http:RATE 10/1m:127.0.0.1', 'http:n:2001:db8:1:2::/64']
      if (name !== 'node:http' && name !== 'Hono') {
        await at(await open({ limiter, limits: rate(10, '1m'), name: 'own' }, true), local, (get) => get('203.0.113.8'))
        expected.push('http:own:203.0.113.8')
      }
      assert.deepEqual(await keys(), expected.sort())
      const said = warnings.filter((text) => text.includes('no proxy is trusted'))
      assert.equal(said.length, name === 'Express' ? 0 : 1, 'node:http, which is the same middleware, has said it before')
    })

    test('a limit of 0 lets nobody through', async () => {
      for (const limits of [rate(0, '1h'), window(0, '1h'), fixed(0, '1h'), [rate(5, '1h', { name: 'some' }), fixed(0, '1d', { name: 'none' })]]) {
        await at(await open({ limiter, limits, key: () => 'k', xRateLimit: 'seconds' }), local, async (get) => {
          const { statusCode, headers } = await get()
          assert.equal(statusCode, 429)
          assert.equal(headers['retry-after'], undefined)
          assert.equal(headers['x-ratelimit-limit'], '0')
          assert.equal(headers['ratelimit'], Array.isArray(limits) ? '"some";r=5, "none";r=0' : '"default";r=0')
        })
      }
      await at(await open({ limiter, limits: [rate(1, '1h'), fixed(0, '1d', { shadow: true })], key: () => 'k' }), local, async (get) => {
        const first = await get()
        assert.equal(first.headers['ratelimit-policy'], '"limit-1";q=1;w=3600')
        assert.deepEqual([first.statusCode, (await get()).statusCode], [200, 429])
      })
    })

    test('requests of networks are skipped, by the peer and trusted, whatever the framework believes', async () => {
      const limits = rate(0, '1h')
      const statuses = async (options: Partial<Options>, ...forwarded: (string | undefined)[]) => {
        const all: (number | undefined)[] = []
        for (const trust of [false, true]) {
          await at(await open({ limiter, limits, key: () => 'k', ...options } as Options, trust), local, async (get) => {
            for (const one of forwarded) all.push((await get(one)).statusCode)
          })
        }
        return all
      }
      assert.deepEqual(await statuses({ skip: ['127.0.0.0/8'] }, undefined, '10.2.3.4', '10.2.3.4, 127.0.0.1'), [200, 429, 429, 200, 429, 429])
      if (name !== 'Express') /* node:http has said it */ assert.match(warnings.join(), /skip has networks.*name the proxies by trusted/)
      const behind = { skip: ['10.0.0.0/8', '2001:db8::/32'], trusted: ['127.0.0.1'] }
      assert.deepEqual(await statuses(behind, undefined, '10.2.3.4', '10.2.3.4, 203.0.113.7', '2001:DB8::1'), [429, 200, 429, 200, 429, 200, 429, 200])
      assert.deepEqual(await statuses({ ...behind, trusted: ['127.0.0.1'], skip: [] }, '10.2.3.4'), [429, 429])
    })

    test('some requests are skipped, and the key of one that is denied is banned', async () => {
      const limits = rate(1, '1h')
      await at(await open({ limiter, limits, key: () => 'k', skip: () => true }), local, async (get) => {
        assert.equal((await get()).headers['ratelimit'], undefined)
      })
      assert.deepEqual(await keys(), [])
      await at(await open({ limiter, limits, key: () => 'k', skip: () => Promise.resolve(false), ban: '2h' }), local, async (get) => {
        const statuses = [(await get()).statusCode, (await get()).statusCode]
        const banned = await get()
        assert.deepEqual([...statuses, banned.statusCode], [200, 429, 429])
        assert.ok(Number(banned.headers['retry-after']) > 7000)
      })
      assert.equal((await limiter.peek('k', limits)).banned, true)
      await at(await open({ limiter, limits, key: () => 'login', ban: '2h', banAfter: '3/1d' }), local, async (get) => {
        await get()
        const after = []
        for (let i = 0; i < 3; i++) after.push(Number((await get()).headers['retry-after']) > 7000)
        assert.deepEqual(after, [false, false, true], 'the third denial bans')
      })
      await assert.rejects(async () => await open({ limiter, limits, banAfter: '3/1d' }), /banAfter goes with ban/)
      await assert.rejects(async () => await open({ limiter, limits, ban: '1h', banAfter: '3' }), /banAfter/)
    })

    test('a request that is denied gets an answer of your own, with the fields of its limits', async () => {
      for (const [own, status, type, body] of [[{ body: 'slow down' }, 429, 'text/plain; charset=utf-8', 'slow down'],
        [{ status: 503, body: { error: 'busy' } }, 503, 'application/json; charset=utf-8', '{"error":"busy"}'],
        [{ type: 'text/html', body: '<p>' }, 429, 'text/html', '<p>']] as const) {
        await at(await open({ limiter, limits: rate(0, '1h'), key: () => 'k',
          denied: (_: unknown, result: { key: string }) => (result.key === 'k' ? own : assert.fail()) } as Options), local, async (get) => {
          const response = await get()
          assert.deepEqual([response.statusCode, response.headers['content-type'], response.headers['ratelimit']], [status, type, '"default";r=0'])
          assert.equal(bodies.get(response), body)
        })
      }
    })

    test('a key that is no text is a mistake, and so is what a function throws', async () => {
      const wrong: [Partial<Options>, RegExp][] = [
        [{ key: () => 0 }, /key must be a string that is not empty, not a number/],
        [{ key: () => '' }, /not an empty one/],
        [{ key: () => null }, /not a object|not an? object/],
        [{ key: () => { throw new Error('of the key') } }, /of the key/],
        [{ key: () => Promise.reject(new Error('of the key')) }, /of the key/],
        [{ cost: () => { throw new Error('of the cost') } }, /of the cost/],
        [{ cost: () => 'many' as never }, /cost must be an integer/],
        [{ limits: () => { throw new Error('of the limits') } }, /of the limits/],
        [{ limits: () => rate(1, '1h', { name: 'größe' }) }, /is printable ASCII/],
      ]
      for (const [options, says] of wrong) {
        for (const [mistake, status] of [[undefined, 500], ['deny', 503], ['allow', 200]] as const) {
          const seen: Error[] = []
          const onError = (error: Error) => void seen.push(error)
          await at(await open({ limiter, limits: rate(1, '1h'), ...options, onError, ...(mistake && { mistake }) } as Options), local, async (get) => {
            assert.equal((await get()).statusCode, status, String(says))
          })
          assert.match(String(seen), says)
        }
      }
      assert.deepEqual(await keys(), [], 'nothing was charged')
    })
  })
}

test('keys may be a Map or entries, and none does not limit', async () => {
  const twice = rate(2, '1h')
  for (const [given, through] of [[new Map([['a', twice]]), 2], [[['a', twice]], 2], [{ a: twice }, 2], [new Map(), 3], [[], 3], [{}, 3]] as const) {
    const handle = onExpress.rateLimit({ limiter, keys: () => given as Readonly<Record<string, never>> })
    const site = http.createServer((req, res) => void handle(req, res, () => res.end()))
    const statuses: unknown[] = []
    await at(site, local, async (get) => {
      for (let i = 0; i < 3; i++) statuses.push((await get()).statusCode)
    })
    assert.equal(statuses.filter((status) => status === 200).length, through)
    await server.do('FLUSHALL')
  }
})

test('routes written by hand have the same fields and problem documents', async () => {
  const limits = [rate(2, '1h', { name: 'burst' }), fixed(9, '1d', { name: 'day' })]
  const first = await limiter.limit('k', limits, { each: true })
  assert.deepEqual(headerFields(limits, first).slice(0, 1), [['RateLimit-Policy', '"burst";q=2;w=3600, "day";q=9;w=86400']])
  assert.match(String(headerFields(limits, first)[1]), /^RateLimit,"burst";r=1;t=1800, "day";r=8;t=\d+$/)
  const denied = await limiter.limit('k', limits, { cost: 2, each: true })
  if (!denied.limited) assert.fail()
  assert.deepEqual(headerFields(limits, denied, { xRateLimit: 'seconds' }).map(([name]) => name), ['RateLimit-Policy', 'RateLimit', 'Retry-After', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset'])
  assert.deepEqual(problemDocument(limits, denied), { type: 'https://iana.org/assignments/http-problem-types#quota-exceeded', title: 'Quota Exceeded', status: 429, 'violated-policies': ['burst'] })
  const keyed = { '{a}:1': rate(1, '1h', { name: 'user' }), '{a}': rate(9, '1h', { name: 'all' }) }
  assert.equal(headerFields(keyed, await limiter.limitAll(keyed, { each: true }))[0]?.[1], '"user";q=1;w=3600, "all";q=9;w=3600')
  await limiter.ban('k', '1m')
  const banned = await limiter.limit('k', limits)
  if (!banned.limited) assert.fail()
  assert.equal(problemDocument(limits, banned).title, 'Abnormal Usage Detected')
})

describe('options of middlewares', () => {
  test('are checked when it is made', () => {
    const limits = rate(1, '1h')
    for (const option of ['outage', 'overload', 'mistake']) {
      for (const [old, now] of [['unavailable', 'deny'], ['error', 'raise']]) {
        assert.throws(() => onExpress.rateLimit({ limiter, limits, [option]: old }), new RegExp(`${option} must be allow, deny or raise, not '${old}', which is '${now}' now`))
      }
      assert.throws(() => onExpress.rateLimit({ limiter, limits, [option]: 'dney' }), new RegExp(`${option} must be allow, deny or raise, not 'dney'`))
    }
    assert.throws(() => onExpress.rateLimit({ limiter, limits, xRateLimit: 'secs' as never }), /xRateLimit must be seconds or unix, not 'secs'/)
    for (const retryAfter of [1.5, -1, '5s']) assert.throws(() => onExpress.rateLimit({ limiter, limits, retryAfter: retryAfter as number }), /retryAfter must be a whole number/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits, name: '' }), /name must be a string/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits, key: () => 'k', name: 'n' }), /name: it is a part of the default key/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits, key: 'k' as never }), /key must be a function/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits, ban: 5 as never }), /ban: 5 needs a unit/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits, skip: true as never }), /skip must be a function/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits, ipv6: 200 }), /ipv6 must be a prefix length/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits, trusted: ['nowhere'] }), /trusted: 'nowhere' is neither/)
    assert.throws(() => onExpress.rateLimit({ limiter, limits: rate(1, '1h', { name: 'größe' }) }), /is printable ASCII/)
  })
})

test('one outage is one line, however many middlewares and requests meet it', async () => {
  await using away = await Server.start()
  await using limiter = await fromUrl(away.url)
  const lines: string[] = []
  for (const level of ['error', 'warn', 'info'] as const) mock.method(console, level, (line: string) => void lines.push(line))
  try {
    const app = express()
    for (const name of ['a', 'b', 'c']) app.use(onExpress.rateLimit({ limiter, limits: rate(100, '1m'), name }))
    app.get('/', (_, res) => { res.send('ok') })
    await at(http.createServer(app), local, async (get) => {
      assert.equal((await get()).statusCode, 200)
      await away.kill()
      for (let i = 0; i < 20; i++) assert.equal((await get()).statusCode, 200)
      await sleep(1500) // after which an outage that no breaker has told of is logged
      for (let i = 0; i < 20; i++) await get()
    })
    assert.equal(lines.length, 1, lines.join('\n'))
    assert.match(lines[0] ?? '', /^redis-throttle: Redis is out of reach, the policy is fail: .*ECONN/)
  } finally {
    mock.restoreAll()
  }
})

test('a Request of fetch is of the client that the proxy in front names, if you say that there is one', () => {
  const from = (forwarded?: string) => new Request('http://service.example/', forwarded === undefined ? {} : { headers: { 'X-Forwarded-For': forwarded } })
  assert.throws(() => clientAddress(from('203.0.113.7')), /a Request of fetch does not tell whom it is from.*give trusted/)
  assert.equal(clientAddress(from('198.51.100.1, 203.0.113.7'), { trusted: [] }), '203.0.113.7')
  assert.equal(clientAddress(from('198.51.100.1, 203.0.113.7, 10.1.0.2'), { trusted: ['10.1.0.0/24'] }), '203.0.113.7')
  assert.equal(clientAddress(from(), { trusted: [] }), '@')
})
