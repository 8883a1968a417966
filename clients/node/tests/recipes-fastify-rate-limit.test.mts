// Recipes of the manual of @fastify/rate-limit: our store beside that in memory and that for Redis.
import { describe } from 'node:test'
import fastifyRateLimit from '@fastify/rate-limit'
import fastify, { type FastifyInstance, type FastifyRequest } from 'fastify'
import { Redis } from 'ioredis'
import { fromNetworks, Limiter } from '@redis-throttle/client'
import { throttleStore } from '@redis-throttle/client/fastify-rate-limit'
import { compare, onAServer, ownPrefix, type Recipe } from './recipes.mjs'

const there = onAServer()

type Ask = (path: string, headers?: Record<string, string>) => Promise<number>

/**
 * Sends requests to an application with the plugin, and returns what `run` returns. `storing` are the plugin's options
 * of a store.
 */
async function site(storing: object, options: object, set: (app: FastifyInstance) => unknown, run: (ask: Ask) => Promise<unknown>): Promise<unknown> {
  const app = fastify()
  await app.register(fastifyRateLimit, { timeWindow: '1 hour', ...options, ...storing })
  set(app)
  app.get('/', () => 'hello')
  try {
    return await run(async (path, headers = {}) => (await app.inject({ url: `/${path}`, headers })).statusCode)
  } finally {
    await app.close()
  }
}

async function all(ask: Ask, ...requests: (string | [string, Record<string, string>])[]): Promise<number[]> {
  const statuses = []
  for (const request of requests) statuses.push(await (typeof request === 'string' ? ask(request) : ask(...request)))
  return statuses
}

const hello = () => 'hello'
const nothing = () => {}
const as = (user: string): [string, Record<string, string>] => ['', { 'x-user': user }]
const userOf = (request: FastifyRequest) => String(request.headers['x-user'] ?? request.ip)

const from = (address: string): [string, Record<string, string>] => ['', { 'x-forwarded-for': address }]

const recipes: Record<string, Recipe<object>> = {
  'requests of networks that always get through': {
    run: (storing) => site(storing, { max: 1, allowList: fromNetworks(['10.0.0.0/8'], { trusted: ['127.0.0.1'] }) }, nothing, (ask) =>
      all(ask, from('10.2.3.4'), from('10.2.3.4'), from('10.2.3.4, 203.0.113.8'), from('10.2.3.4, 203.0.113.8'))),
    gets: [200, 200, 200, 429],
  },
  'an application as a whole, and routes that are left out or have a limit of their own': {
    run: (storing) => site(storing, { max: 2 }, (app) => {
      app.get('/public', { config: { rateLimit: false } }, hello)
      app.get('/private', { config: { rateLimit: { max: 1 } } }, hello)
      app.get('/other', hello)
    }, (ask) => all(ask, 'public', 'public', 'public', 'private', 'private', '', 'other', '')),
    gets: [200, 200, 200, 200, 429, 200, 200, 429],
  },
  'a limit by key, which may come later': {
    run: (storing) => site(storing, { keyGenerator: userOf, max: async (_: unknown, key: string) => await Promise.resolve(key === 'pro' ? 3 : 2),
      timeWindow: () => 3_600_000 }, nothing, (ask) => all(ask, as('pro'), as('pro'), as('pro'), as('pro'), as('ann'), as('ann'), as('ann'))),
    gets: [200, 200, 200, 429, 200, 200, 429],
  },
  'a ban after so many denials': {
    run: (storing) => site(storing, { max: 2, ban: 2 }, nothing, (ask) => all(ask, '', '', '', '', '', '')),
    gets: [200, 200, 429, 429, 403, 403],
  },
  'a ban at once': {
    run: (storing) => site(storing, { max: 1, ban: 0 }, nothing, (ask) => all(ask, '', '', '')),
    gets: [200, 403, 403],
  },
  'a client that goes on stays out': {
    run: (storing) => site(storing, { max: 1, continueExceeding: true }, nothing, (ask) => all(ask, '', '', '')),
    gets: [200, 429, 429],
  },
  'routes of a group, each with the limit of the group': {
    run: (storing) => site(storing, { max: 5 }, (app) => {
      for (const path of ['/send', '/again']) app.get(path, { config: { rateLimit: { max: 2, groupId: 'otp' } } }, hello)
    }, (ask) => all(ask, 'send', 'again', 'send', 'again', 'send', 'again')),
    gets: [200, 200, 200, 200, 429, 429],
  },
  ...Object.fromEntries([{ max: 3 }, { max: 3, continueExceeding: true }, { max: 3, ban: 2 }].map((options) => [`login protection: only failures count, ${JSON.stringify(options)}`, {
    run: (storing: object) => site(storing, { global: false }, (app) => {
      const check = app.createRateLimit(options)
      app.get('/login/:password', async (request, reply) => {
        const before = await check(request, { increment: false })
        if (!before.isAllowed && before.isExceeded) return await reply.code(before.isBanned ? 403 : 429).send()
        if ((request.params as { password: string }).password === 'right') return 'hello'
        await check(request)
        return await reply.code(401).send()
      })
    }, (ask) => all(ask, ...Array<string>(5).fill('login/right'), ...Array<string>(6).fill('login/wrong'), 'login/right')),
    gets: [200, 200, 200, 200, 200, 401, 401, 401, 401, 429, 429, 429],
  }])),
  'what is read after the last denial before a ban': {
    run: (storing) => site(storing, { global: false }, (app) => {
      const check = app.createRateLimit({ max: 1, ban: 1 })
      app.get('/hit', async (request, reply) => await reply.code((await check(request) as { isExceeded: boolean }).isExceeded ? 429 : 200).send())
      app.get('/banned', async (request, reply) => await reply.code(((await check(request,
        { increment: false })) as { isBanned: boolean }).isBanned ? 403 : 200).send())
    }, (ask) => all(ask, 'hit', 'banned', 'hit', 'banned', 'hit', 'banned')),
    gets: [200, 200, 429, 200, 429, 403],
    ours: [200, 200, 429, 403, 429, 403],
    because: 'the server bans the key with the last denial that is answered 429, not with the first that is answered 403',
  },
  'a store that is away: requests go on, or not': {
    run: (storing) => {
      const gone = new Redis({ port: 1, host: '127.0.0.1', enableOfflineQueue: false })
      gone.on('error', () => {})
      const away = 'store' in storing ? { store: throttleStore({ limiter: new Limiter(gone) }) } : { redis: gone }
      return site(away, { max: 1, skipOnError: true }, (app) => {
        app.get('/strict', { config: { rateLimit: { skipOnError: false } } }, hello)
      }, (ask) => all(ask, '', '', '', 'strict')).finally(() => { gone.disconnect() })
    },
    gets: [200, 200, 200, 500],
    without: ['in memory'],
  },
  'instances in several processes, some with the old store: a rolling deploy': {
    run: async (storing) => {
      const all = []
      for (let i = 0; i < 3; i++) all.push(await site(storing, { max: 2 }, nothing, (ask) => ask('')),
        await site({ redis: there.client, nameSpace: (storing as { nameSpace?: string }).nameSpace ?? 'old-' }, { max: 200 }, nothing, (ask) => ask('')))
      return all
    },
    gets: [200, 200, 200, 200, 429, 200],
    without: ['in memory', 'redis'],
  },
}

describe('what gets through with the recipes of the manual', () => {
  compare(recipes, { 'in memory': () => ({}), redis: () => ({ redis: there.client, nameSpace: ownPrefix() }) },
    () => ({ store: throttleStore({ limiter: new Limiter(there.client, { timeout: '10s' }), prefix: ownPrefix() }) }))
})
