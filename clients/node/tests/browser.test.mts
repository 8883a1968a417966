// Browsers: preflights are not limited, and scripts of another origin read the fields of a response. Tried in Chromium,
// where it is installed.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { promisify } from 'node:util'
import { serve } from '@hono/node-server'
import express from 'express'
import fastify from 'fastify'
import { Hono } from 'hono'
import { cors } from 'hono/cors'
import Koa from 'koa'
import { window } from '@redis-throttle/client'
import * as onExpress from '@redis-throttle/client/express'
import * as onFastify from '@redis-throttle/client/fastify'
import * as onHono from '@redis-throttle/client/hono'
import * as onKoa from '@redis-throttle/client/koa'
import { FakeLimiter } from '@redis-throttle/client/testing'

const run = promisify(execFile)
const limits = window(1, '1h')
const allowed = { 'Access-Control-Allow-Origin': '*', 'Access-Control-Allow-Headers': 'X-Own', 'Access-Control-Allow-Methods': 'GET' }

interface Site {
  listener: http.Server
  close: () => unknown
}

const site = (handler: http.RequestListener): Site => {
  const listener = http.createServer(handler)
  return { listener, close: () => { listener.closeAllConnections(); listener.close() } }
}

interface Options {
  preflights?: boolean
}

/**
 * Each door behind a layer for CORS, which comes first: so its fields are on a 429, too. The layer leaves preflights to
 * what is behind it.
 */
const doors: Record<string, (limiter: FakeLimiter, options?: Options) => Promise<Site>> = {
  Express: async (limiter, options) => {
    const app = express()
    app.use((_req, res, next) => { res.set(allowed); next() })
    app.use(onExpress.rateLimit({ limiter, limits, key: () => 'k', ...options }))
    app.options('/', (_, res) => { res.sendStatus(204) })
    app.get('/', (_, res) => { res.send('ok') })
    return Promise.resolve(site(app))
  },
  Fastify: async (limiter, options) => {
    const app = fastify()
    app.addHook('onRequest', async (_, reply) => { void reply.headers(allowed) })
    await app.register(onFastify.rateLimit, { limiter, limits, key: () => 'k', ...options })
    app.options('/', (_, reply) => reply.code(204).send())
    app.get('/', () => 'ok')
    await app.ready()
    return { listener: app.server as http.Server, close: () => { app.server.closeAllConnections(); return app.close() } }
  },
  Koa: async (limiter, options) => {
    const app = new Koa()
    app.use(async (ctx, next) => { ctx.set(allowed); await next() })
    app.use(onKoa.rateLimit({ limiter, limits, key: () => 'k', ...options }))
    app.use((ctx) => { if (ctx.method === 'OPTIONS') ctx.status = 204; else ctx.body = 'ok' })
    return Promise.resolve(site(app.callback() as http.RequestListener))
  },
  Hono: async (limiter, options) => {
    const app = new Hono()
    app.use(async (c, next) => { await next(); for (const [name, value] of Object.entries(allowed)) c.header(name, value) })
    app.use(onHono.rateLimit({ limiter, limits, key: () => 'k', ...options }))
    app.options('/', (c) => c.body(null, 204))
    app.get('/', (c) => c.text('ok'))
    const listener = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as http.Server
    return Promise.resolve({ listener, close: () => { listener.closeAllConnections(); listener.close() } })
  },
  "Hono with its own layer for CORS": async (limiter, options) => {
    const app = new Hono()
    app.use(cors({ origin: '*', allowHeaders: ['X-Own'] }))
    app.use(onHono.rateLimit({ limiter, limits, key: () => 'k', ...options }))
    app.get('/', (c) => c.text('ok'))
    const listener = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }) as http.Server
    return Promise.resolve({ listener, close: () => { listener.closeAllConnections(); listener.close() } })
  },
}

async function listen(listener: http.Server): Promise<string> {
  if (!listener.listening) await once(listener.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(listener.address() as AddressInfo).port}/`
}

const asksFirst = { method: 'OPTIONS', headers: { Origin: 'http://elsewhere.example', 'Access-Control-Request-Method': 'GET', 'Access-Control-Request-Headers': 'x-own' } }

describe('preflights', () => {
  for (const [name, make] of Object.entries(doors)) {
    test(`${name}: they are not charged, unless they are to be`, async () => {
      for (const preflights of [false, true]) {
        const limiter = new FakeLimiter()
        const { listener, close } = await make(limiter, preflights ? { preflights } : {})
        try {
          const url = await listen(listener)
          for (let i = 0; i < 2; i++) await fetch(url, asksFirst)
          const charged = preflights && !name.includes('own layer') ? 2 : 0 // its own layer answers preflights by itself
          assert.equal(limiter.asked.length, charged)
          await fetch(url, { method: 'OPTIONS', headers: { Origin: 'http://elsewhere.example' } })
          assert.equal(limiter.asked.length > charged, !name.includes('own layer'), 'another OPTIONS counts')
        } finally {
          await close()
        }
      }
    })

    test(`${name}: scripts may read the fields`, async () => {
      const { listener, close } = await make(new FakeLimiter())
      try {
        const url = await listen(listener)
        const get = async () => (await fetch(url, { headers: { Origin: 'http://elsewhere.example' } })).headers.get('access-control-expose-headers')
        assert.equal(await get(), 'RateLimit-Policy, RateLimit')
        assert.equal(await get(), 'RateLimit-Policy, RateLimit, Retry-After')
        assert.equal((await fetch(url)).headers.get('access-control-expose-headers'), null)
      } finally {
        await close()
      }
    })
  }
})

const chromium = ['/usr/bin/chromium', '/usr/bin/chromium-browser'].find(existsSync)

describe('in Chromium', { skip: chromium === undefined && 'there is no chromium' }, () => {
  for (const [name, make] of Object.entries(doors)) {
    test(`${name}: a page of another origin reads when it may ask again`, async () => {
      const { listener, close } = await make(new FakeLimiter())
      const url = await listen(listener)
      const script = `(async () => { let told = ''; for (let i = 0; i < 2; i++) {
        try { const r = await fetch('${url}', { headers: { 'X-Own': '1' } }); told += r.status + ' ' + r.headers.get('RateLimit') + ' ' + r.headers.get('Retry-After') + '; ' } catch (e) { told += e + '; ' }
      } await fetch('/told?' + encodeURIComponent(told)); document.title = 'over' })()`
      let say: (told: string) => void
      const told = new Promise<string>((resolve) => { say = resolve })
      const page = site((req, res) => {
        if (req.url?.startsWith('/told')) say(decodeURIComponent(req.url.slice('/told?'.length)))
        res.setHeader('Content-Type', 'text/html').end(req.url === '/' ? `<script>${script}</script>` : '')
      })
      const home = mkdtempSync(path.join(tmpdir(), 'chromium-'))
      try {
        const browser = run(chromium as string, ['--headless', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', `--user-data-dir=${home}`, '--remote-debugging-port=0', await listen(page.listener)], { timeout: 60_000 })
        browser.catch(() => {}) // it is ended when it has told
        const over = browser.then(() => 'it ended', (error: unknown) => String(error))
        assert.equal(await Promise.race([told, over]), '200 "default";r=0;t=3600 null; 429 "default";r=0;t=3600 3600; ')
        browser.child.kill()
        await over
      } finally {
        page.close()
        await close()
        rmSync(home, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 })
      }
    })
  }
})
