// Recipes of the manual of @nestjs/throttler: our storage beside its own, in memory.
import 'reflect-metadata'
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { Controller, type ExecutionContext, Get, Module } from '@nestjs/common'
import { APP_GUARD, NestFactory } from '@nestjs/core'
import { SkipThrottle, Throttle, ThrottlerGuard, ThrottlerModule, type ThrottlerModuleOptions, type ThrottlerStorage, ThrottlerStorageService } from '@nestjs/throttler'
import { fromNetworks, Limiter, makeResult } from '@redis-throttle/client'
import { ThrottleStorage } from '@redis-throttle/client/nestjs'
import { compare, onAServer, ownPrefix, type Recipe } from './recipes.mjs'
import { root, until } from './servers.mjs'

const there = onAServer()

const hour = 3_600_000
const named = [{ name: 'short', ttl: hour, limit: 2 }, { name: 'long', ttl: hour, limit: 4 }]

@Controller()
class Site {
  @Get()
  index(): string {
    return 'hello'
  }

  @Get('other')
  other(): string {
    return 'hello'
  }

  @SkipThrottle({ short: true })
  @Get('long')
  long(): string {
    return 'hello'
  }

  @Throttle({ default: { limit: 1, ttl: hour }, short: { limit: 3 } })
  @Get('overridden')
  overridden(): string {
    return 'hello'
  }
}

type Ask = (path: string, headers?: Record<string, string>) => Promise<number>
type AskWhole = (...asked: Parameters<Ask>) => Promise<Response>

/** Sends requests to an application with these options, and returns what `run` returns. */
function site(storage: ThrottlerStorage, options: object, run: (ask: Ask) => Promise<unknown>): Promise<unknown> {
  return serving(storage, options, (ask) => run(async (...asked) => (await ask(...asked)).status))
}

async function serving(storage: ThrottlerStorage, options: object, run: (ask: AskWhole) => Promise<unknown>): Promise<unknown> {
  @Module({
    imports: [ThrottlerModule.forRoot({ storage, ...options } as ThrottlerModuleOptions)],
    controllers: [Site],
    providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  })
  class App {}

  const app = await NestFactory.create(App, { logger: false })
  await app.listen(0, '127.0.0.1')
  try {
    const url = await app.getUrl()
    return await run(async (path, headers = {}) => {
      const response = await fetch(`${url}/${path}`, { headers: { connection: 'close', ...headers } })
      await response.text()
      return response
    })
  } finally {
    await app.close()
  }
}

async function all(ask: Ask, ...requests: (string | [string, Record<string, string>])[]): Promise<number[]> {
  const statuses = []
  for (const request of requests) statuses.push(await (typeof request === 'string' ? ask(request) : ask(...request)))
  return statuses
}

const as = (user: string): [string, Record<string, string>] => ['', { 'x-user': user }]
const userOf = (context: ExecutionContext) => context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers['x-user']

/** The fields of a response that the guard has set. Times are until the end of an hour. */
function fieldsOf({ headers }: Response): Record<string, string> {
  const own = [...headers].filter(([name]) => /^(x-ratelimit|retry-after)/.test(name))
  return Object.fromEntries(own.map(([name, value]) => [name, /reset|after/.test(name) && Number(value) > 3500 && Number(value) <= 3600 ? 'an hour' : value]))
}

const recipes: Record<string, Recipe<ThrottlerStorage>> = {
  'one throttler, and each route by itself': {
    run: (storage) => site(storage, { throttlers: [{ ttl: hour, limit: 2 }] }, (ask) => all(ask, '', '', '', 'other', 'other', 'other')),
    gets: [200, 200, 429, 200, 200, 429],
  },
  'several throttlers, one of them left out, another overridden': {
    run: (storage) => site(storage, { throttlers: named },
      async (ask) => [await all(ask, '', '', ''), await all(ask, 'long', 'long', 'long', 'long', 'long'),
      await all(ask, 'overridden', 'overridden', 'overridden', 'overridden')]),
    gets: [[200, 200, 429], [200, 200, 200, 200, 429], [200, 200, 200, 429]],
  },
  'fields that have the name of their throttler': {
    run: (storage) => serving(storage, { throttlers: [...named, { ttl: hour, limit: 9 }] }, async (ask) => {
      await ask('')
      return [fieldsOf(await ask('')), fieldsOf(await ask('')), fieldsOf(await ask('overridden'))]
    }),
    gets: [
      {
        'x-ratelimit-limit-short': '2', 'x-ratelimit-remaining-short': '0', 'x-ratelimit-reset-short': 'an hour',
        'x-ratelimit-limit-long': '4', 'x-ratelimit-remaining-long': '2', 'x-ratelimit-reset-long': 'an hour',
        'x-ratelimit-limit': '9', 'x-ratelimit-remaining': '7', 'x-ratelimit-reset': 'an hour',
      },
      { 'retry-after-short': 'an hour' },
      {
        'x-ratelimit-limit-short': '3', 'x-ratelimit-remaining-short': '2', 'x-ratelimit-reset-short': 'an hour',
        'x-ratelimit-limit-long': '4', 'x-ratelimit-remaining-long': '3', 'x-ratelimit-reset-long': 'an hour',
        'x-ratelimit-limit': '1', 'x-ratelimit-remaining': '0', 'x-ratelimit-reset': 'an hour',
      },
    ],
  },
  'requests of networks that are left out': {
    run: (storage) => {
      const inside = fromNetworks(['10.0.0.0/8'], { trusted: ['127.0.0.1'] })
      const from = (address: string): [string, Record<string, string>] => ['', { 'x-forwarded-for': address }]
      return site(storage, { throttlers: [{ ttl: hour, limit: 1 }],
        skipIf: (context: ExecutionContext) => inside(context.switchToHttp().getRequest()) }, (ask) =>
        all(ask, from('10.2.3.4'), from('10.2.3.4'), from('10.2.3.4, 203.0.113.7'), from('10.2.3.4, 203.0.113.7'), from('unknown, 10.2.3.4')))
    },
    gets: [200, 200, 200, 429, 429],
  },
  'a limit by request': {
    run: (storage) => site(storage, { throttlers: [{ ttl: hour, limit: (context: ExecutionContext) => (userOf(context) === 'pro' ? 3 : 1) }],
      getTracker: (req: { headers: Record<string, string> }) => req.headers['x-user'] ?? '' }, (ask) =>
      all(ask, as('pro'), as('pro'), as('pro'), as('pro'), as('ann'), as('ann'))),
    gets: [200, 200, 200, 429, 200, 429],
  },
  'a block that is shorter than the ttl: after it there is all of the limit': {
    run: (storage) => site(storage, { throttlers: [{ ttl: hour, limit: 2, blockDuration: 500 }] }, async (ask) => {
      const first = await all(ask, '', '', '')
      await until(async () => (await ask('')) === 200, 'the block ends') // which no request prolongs
      return [...first, ...(await all(ask, '', ''))]
    }),
    gets: [200, 200, 429, 200, 429],
  },
  'no block: the oldest request makes room': {
    run: (storage) => site(storage, { throttlers: [{ ttl: 500, limit: 1, blockDuration: 0 }] }, async (ask) => {
      for (const status of [200, 429, 200]) await until(async () => (await Promise.all([ask(''), ask('')])).includes(status), `a request gets ${status}`)
    }),
    gets: undefined,
  },
}

describe('what gets through with the recipes of the manual', () => {
  compare(recipes, { 'in memory': () => new ThrottlerStorageService() },
    () => new ThrottleStorage({ limiter: new Limiter(there.client, { timeout: '10s' }), prefix: ownPrefix() }))
})

interface Row { rule: string; networks?: string[]; trusted?: string[]; peer: string; forwarded?: string[]; skipped: boolean }

test('the guard lets through whom networks.json says', async () => {
  const table = JSON.parse(readFileSync(path.join(root, 'spec/clients/networks.json'), 'utf8')) as { networks: string[]; trusted: string[]; requests: Row[] }
  const storage = new ThrottleStorage({ limiter: { decide: () => Promise.resolve(makeResult({ limited: true })) } })
  let inside = fromNetworks([])
  const skipIf = (context: ExecutionContext) => inside(context.switchToHttp().getRequest())
  await site(storage, { throttlers: named, skipIf }, async (ask) => {
    for (const { rule, networks = table.networks, trusted = table.trusted, peer, forwarded = [], skipped } of table.requests) {
      const said = [...forwarded, ...(peer ? [peer] : [])] // by this test, which is the proxy in front
      if (said.length === 0) continue
      inside = fromNetworks(networks, { trusted: [...trusted, '127.0.0.1'] })
      assert.equal(await ask('', { 'x-forwarded-for': said.join(', '), 'x-real-ip': '10.2.3.4' }), skipped ? 200 : 429, rule)
    }
  })
})
