// Recipes of the manual of hono-rate-limiter: our store beside its own, in memory and in Redis, and beside that of
// rate-limit-redis.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { type Context, Hono } from 'hono'
import { MemoryStore, RedisStore, rateLimiter, type Store } from 'hono-rate-limiter'
import { RedisStore as RateLimitRedis } from 'rate-limit-redis'
import { Limiter } from '@redis-throttle/client'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import { compare, onAServer, ownPrefix, type Recipe } from './recipes.mjs'

const there = onAServer()

/** Makes stores of one application. Each has a prefix of its own. */
type Make = (prefix?: string) => Store

const theirs: Record<string, () => Make> = {
  'in memory': () => () => new MemoryStore(),
  'RedisStore': () => {
    const own = ownPrefix()
    const client = {
      scriptLoad: async (script: string) => (await there.client.script('LOAD', script)) as string,
      evalsha: async <Args extends unknown[], Data>(sha: string, keys: string[], args: Args) => (await there.client.evalsha(sha, keys.length, ...keys,
        ...(args as string[]))) as Data,
      decr: (key: string) => there.client.decr(key),
      del: (key: string) => there.client.del(key),
    }
    return (prefix = '') => new RedisStore({ client, prefix: own + prefix })
  },
  'rate-limit-redis': () => {
    const own = ownPrefix()
    return (prefix = '') => new RateLimitRedis({ prefix: own + prefix,
      sendCommand: (...words: string[]) => there.client.call(...(words as [string])) as Promise<never> }) as unknown as Store
  },
}
const ours = (): Make => {
  const own = ownPrefix()
  return (prefix = '') => new ThrottleStore({ limiter: new Limiter(there.client, { timeout: '10s' }), prefix: own + prefix }) as unknown as Store
}

const client = (c: Context) => c.req.header('x-forwarded-for') ?? ''
const user = (c: Context) => c.req.header('x-user') ?? ''
const hour = { windowMs: 3_600_000, keyGenerator: client }
const from = (address: string): [string, Record<string, string>] => ['', { 'x-forwarded-for': address }]
const as = (name: string): [string, Record<string, string>] => ['', { 'x-user': name }]

/** Returns the pattern of all paths below a path. */
const below = (path: string) => [path, '*'].join('/')

type Request = string | [string, Record<string, string>]

/** Sends requests to an application, and returns what `of` says of the responses. */
async function answers<T>(set: (app: Hono) => unknown, requests: Request[], of: (response: Response) => T | Promise<T>): Promise<T[]> {
  const app = new Hono()
  set(app)
  app.get('/bad', (c) => c.text('bad', 500))
  app.get('/login/:password', (c) => c.text('', c.req.param('password') === 'right' ? 200 : 401))
  app.get('*', (c) => c.text('hello'))
  const found = []
  for (const request of requests) {
    const [path, headers] = typeof request === 'string' ? [request, {}] : request
    found.push(await of(await app.request(`/${path}`, { headers: { 'x-forwarded-for': '203.0.113.7', ...headers } })))
  }
  return found
}

const statuses = (set: (app: Hono) => unknown, ...requests: Request[]) => answers(set, requests, ({ status }) => status)

const recipes: Record<string, Recipe<Make>> = {
  'an application as a whole, each client by itself': {
    run: (make) => statuses((app) => app.use(rateLimiter({ ...hour, limit: 2, store: make() })), '', 'other', '', from('203.0.113.8')),
    gets: [200, 200, 429, 200],
  },
  'a limit by user, which may come later': {
    run: (make) => statuses((app) => app.use(rateLimiter({ ...hour, limit: async (c) => await Promise.resolve(user(c) === 'pro' ? 3 : 1),
      store: make(), keyGenerator: user })), as('pro'), as('pro'), as('pro'), as('pro'), as('ann'), as('ann')),
    gets: [200, 200, 200, 429, 200, 429],
  },
  'routes with limits of their own, on common options': {
    run: (make) => statuses((app) => {
      app.use(below('/api'), rateLimiter({ ...hour, limit: 4, store: make('api:') }))
      app.use(below('/api/accounts'), rateLimiter({ ...hour, limit: 1, store: make('accounts:') }))
    }, 'api/x', 'api/accounts/1', 'api/accounts/2', 'api/x', 'api/x', 'page'),
    gets: [200, 200, 429, 200, 429, 200],
  },
  'login protection: only failures count': {
    run: (make) => statuses((app) => app.use(below('/login'), rateLimiter({ ...hour, limit: 3, store: make(), skipSuccessfulRequests: true })),
      ...Array<string>(5).fill('login/right'), ...Array<string>(3).fill('login/wrong'), 'login/right'),
    gets: [200, 200, 200, 200, 200, 401, 401, 401, 429],
  },
  'only successes count': {
    run: (make) => statuses((app) => app.use(rateLimiter({ ...hour, limit: 2, store: make(), skipFailedRequests: true })), 'bad', 'bad', 'bad', '', '', ''),
    gets: [500, 500, 500, 200, 200, 429],
  },
  'what an application learns of the limit': {
    run: (make) => answers((app) => {
      app.use(rateLimiter({ ...hour, limit: 3, store: make() }))
      app.get('/info', (c) => {
        const { limit, used, remaining } = c.get('rateLimit' as never) as Record<'limit' | 'used' | 'remaining', number>
        return c.text([limit, used, remaining].join(' '))
      })
    }, ['info', 'info', 'info'], (response) => response.text()),
    gets: ['3 1 2', '3 2 1', '3 3 0'],
  },
  'header fields of the sixth draft and of the seventh': {
    run: (make) => answers((app) => {
      app.use('/six', rateLimiter({ ...hour, limit: 2, store: make('six:') }))
      app.use('/seven', rateLimiter({ ...hour, limit: 2, store: make('seven:'), standardHeaders: 'draft-7' }))
    }, ['six', 'six', 'six', 'seven'], ({ headers }) => [headers.get('ratelimit-remaining') ?? headers.get('ratelimit')?.replace(/reset=.*/, ''), headers.get('ratelimit-policy'), headers.has('retry-after')]),
    gets: [['1', '2;w=3600', false], ['0', '2;w=3600', false], ['0', '2;w=3600', true], ['limit=2, remaining=1, ', '2;w=3600', false]],
  },
  'a client that proves itself starts anew': {
    run: (make) => statuses((app) => {
      const limiter = rateLimiter({ ...hour, limit: 2, store: make() })
      app.get('/captcha', limiter, async (c) => {
        await (c.get('rateLimitStore' as never) as { resetKey: (key: string) => Promise<void> }).resetKey(client(c))
        return c.text('welcome')
      })
      app.get('/', limiter)
    }, '', 'captcha', '', '', ''),
    gets: [200, 200, 200, 200, 429],
  },
  'several processes': {
    run: async (make) => {
      const apps = [make(), make()].map((store) => (app: Hono) => app.use(rateLimiter({ ...hour, limit: 2, store })))
      const found = []
      for (const set of [...apps, ...apps]) found.push(...(await statuses(set, '')))
      return found
    },
    gets: [200, 200, 429, 429],
    without: ['in memory'],
  },
}

describe('hono-rate-limiter', () => {
  compare(recipes, theirs, ours)
})

test('a rolling deploy: old and new processes each keep to the limit', async () => {
  for (const make of [theirs.RedisStore, theirs['rate-limit-redis']]) {
    const stores = [(make ?? assert.fail())()(), ours()()]
    const found = []
    for (let i = 0; i < 6; i++) found.push(...(await statuses((app) => app.use(rateLimiter({ ...hour, limit: 2, store: stores[i % 2] ?? assert.fail() })), '')))
    assert.deepEqual(found, [200, 200, 200, 200, 429, 429])
  }
})
