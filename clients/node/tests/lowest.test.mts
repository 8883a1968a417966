// The oldest versions of frameworks that the package names as peers.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { test } from 'node:test'
// @ts-expect-error it has no types
import express from 'express-4'
import expressRateLimit from 'express-rate-limit-7'
import fastify from 'fastify-5.0'
import fastifyRateLimit from 'fastify-rate-limit-10'
import { Hono } from 'hono-4.0'
// @ts-expect-error it has no types
import Koa from 'koa-2'
import { rate } from 'redis-throttle'
import { concurrency, rateLimit as forExpress } from 'redis-throttle/express'
import { ThrottleStore } from 'redis-throttle/express-rate-limit'
import { rateLimit as forFastify } from 'redis-throttle/fastify'
import { throttleStore } from 'redis-throttle/fastify-rate-limit'
import { rateLimit as forHono } from 'redis-throttle/hono'
import { rateLimit as forKoa } from 'redis-throttle/koa'
import { FakeLimiter } from 'redis-throttle/testing'
import { packageFolder } from './servers.mjs'

// Their types are those of other versions.
/* eslint-disable @typescript-eslint/no-explicit-any */
const limits = rate(2, '1h')

async function statuses(server: http.Server): Promise<number[]> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const got: number[] = []
  for (let i = 0; i < 3; i++) got.push((await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, { headers: { connection: 'close' } })).status)
  server.close()
  return got
}

const served: Record<string, (limiter: FakeLimiter) => Promise<number[]>> = {
  'express 4.18': (limiter) => {
    const app = (express as any)()
    app.use(forExpress({ limiter, limits }))
    app.use(concurrency({ limiter, slots: 5 }))
    app.get('/', (_: unknown, res: { send(text: string): void }) => res.send('ok'))
    return statuses(http.createServer(app))
  },
  'express-rate-limit 7': (limiter) => {
    const app = (express as any)()
    app.use((expressRateLimit as any)({ windowMs: 3_600_000, limit: 2, store: new ThrottleStore({ limiter }) }))
    app.get('/', (_: unknown, res: { send(text: string): void }) => res.send('ok'))
    return statuses(http.createServer(app))
  },
  'koa 2.15': (limiter) => {
    const app = new (Koa as any)()
    app.use(forKoa({ limiter, limits }))
    app.use((ctx: { body: string }) => { ctx.body = 'ok' })
    return statuses(http.createServer(app.callback()))
  },
  'hono 4.0': async (limiter) => {
    const app = new (Hono as any)()
    app.use('*', forHono({ limiter, limits, key: () => 'k' }))
    app.get('/', (c: { text(text: string): unknown }) => c.text('ok'))
    const got: number[] = []
    for (let i = 0; i < 3; i++) got.push((await app.request('/')).status)
    return got
  },
  'fastify 5.0': async (limiter) => {
    const app = (fastify as any)()
    await app.register(forFastify, { limiter, limits, key: () => 'k' })
    app.get('/', () => 'ok')
    const got: number[] = []
    for (let i = 0; i < 3; i++) got.push((await app.inject('/')).statusCode)
    await app.close()
    return got
  },
  '@fastify/rate-limit 10': async (limiter) => {
    const app = (fastify as any)()
    await app.register(fastifyRateLimit, { max: 2, timeWindow: 3_600_000, store: throttleStore({ limiter }) })
    app.get('/', () => 'ok')
    const got: number[] = []
    for (let i = 0; i < 3; i++) got.push((await app.inject('/')).statusCode)
    await app.close()
    return got
  },
}

for (const [name, get] of Object.entries(served)) {
  test(name, async () => assert.deepEqual(await get(new FakeLimiter()), [200, 200, 429]))
}

test('peers have bounds, are optional, and the oldest are what is tested', () => {
  const { peerDependencies, peerDependenciesMeta, devDependencies } = JSON.parse(readFileSync(path.join(packageFolder, 'package.json'), 'utf8')) as Record<string, Record<string, string>>
  for (const [peer, bounds] of Object.entries(peerDependencies ?? {})) {
    assert.match(bounds, /^>=\d[\d.]* <\d+$/, peer)
    assert.deepEqual(peerDependenciesMeta?.[peer], { optional: true })
    assert.ok(devDependencies?.[peer], `${peer}: the newest is tested`)
  }
})
