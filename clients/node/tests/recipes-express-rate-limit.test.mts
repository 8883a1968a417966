// Recipes of the manuals of express-rate-limit and express-slow-down: our store beside that in memory and that for
// Redis.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { describe, test } from 'node:test'
import express from 'express'
import { ipKeyGenerator, MemoryStore, type Options, rateLimit, type Store } from 'express-rate-limit'
import { slowDown } from 'express-slow-down'
import { Redis } from 'ioredis'
import { RedisStore } from 'rate-limit-redis'
import { fromNetworks, Limiter } from '@redis-throttle/client'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import { compare, onAServer, ownPrefix, type Recipe } from './recipes.mjs'

const there = onAServer()

/** Makes stores of one application. Each has a prefix of its own, as the manual asks for. */
type Make = (prefix?: string) => Store

const theirs: Record<string, () => Make> = {
  'in memory': () => () => new MemoryStore(),
  'rate-limit-redis': () => {
    const own = ownPrefix()
    return (prefix = '') => new RedisStore({ prefix: own + prefix,
      sendCommand: (...words: string[]) => there.client.call(...(words as [string])) as Promise<never> })
  },
}
const ours = () => {
  const own = ownPrefix()
  return (prefix = '') => new ThrottleStore({ limiter: new Limiter(there.client, { timeout: '10s' }), prefix: own + prefix })
}

type Ask = (path: string, headers?: Record<string, string>) => Promise<number>

/**
 * Sends requests to an application with these middlewares, and returns what `run` returns. Clients are told apart by
 * X-Forwarded-For.
 */
async function site(set: (app: express.Express) => unknown, run: (ask: Ask) => Promise<unknown>): Promise<unknown> {
  const app = express()
  app.set('trust proxy', 1)
  set(app)
  app.get('/bad', (_, res) => void res.sendStatus(500))
  app.get('/login/:password', (req, res) => void res.sendStatus(req.params.password === 'right' ? 200 : 401))
  app.use((_, res) => void res.send('hello'))
  app.use((_: unknown, __: unknown, res: express.Response, ___: unknown) => void res.sendStatus(503))
  const listening = app.listen(0, '127.0.0.1')
  await once(listening, 'listening')
  const { port } = listening.address() as AddressInfo
  try {
    return await run(async (path, headers = {}) => {
      const response = await fetch(`http://127.0.0.1:${port}/${path}`, { headers: { connection: 'close', 'x-forwarded-for': '203.0.113.7', ...headers } })
      await response.text()
      return response.status
    })
  } finally {
    listening.close()
  }
}

async function all(ask: Ask, ...requests: (string | [string, Record<string, string>])[]): Promise<number[]> {
  const statuses = []
  for (const request of requests) statuses.push(await (typeof request === 'string' ? ask(request) : ask(...request)))
  return statuses
}

const hour = 3_600_000
const from = (address: string): [string, Record<string, string>] => ['', { 'x-forwarded-for': address }]
const as = (user: string): [string, Record<string, string>] => ['', { 'x-user': user }]
const userOf = (req: express.Request) => req.headers['x-user']

function limit(options: Partial<Options>) {
  return rateLimit({ windowMs: hour, standardHeaders: 'draft-8', legacyHeaders: false, ...options })
}

const recipes: Record<string, Recipe<Make>> = {
  'requests of networks that are skipped': {
    run: (make) => site((app) => app.use(limit({ limit: 1, store: make(), skip: fromNetworks(['10.0.0.0/8'], { trusted: ['127.0.0.1'] }) })), (ask) =>
      all(ask, from('10.2.3.4'), from('10.2.3.4'), from('10.2.3.4, 203.0.113.8'), from('10.2.3.4, 203.0.113.8'))),
    gets: [200, 200, 200, 429],
  },
  'an application as a whole, each client by itself': {
    run: (make) => site((app) => app.use(limit({ limit: 2, store: make() })), (ask) => all(ask, '', 'other', '', from('203.0.113.8'))),
    gets: [200, 200, 429, 200],
  },
  'several instances: one for a part, and one within it': {
    run: (make) => site((app) => {
      app.use('/api', limit({ limit: 4, store: make('api:') }))
      app.use('/api/accounts', limit({ limit: 1, store: make('accounts:') }))
    }, (ask) => all(ask, 'api', 'api/accounts', 'api/accounts', 'api', 'api', 'page')),
    gets: [200, 200, 429, 200, 429, 200],
  },
  'a limit by user, which may come later': {
    run: (make) => site((app) => app.use(limit({ limit: async (req) => await Promise.resolve(userOf(req) === 'pro' ? 3 : 1), store: make(),
      keyGenerator: (req) => String(userOf(req)) })), (ask) => all(ask, as('pro'), as('pro'), as('pro'), as('pro'), as('ann'), as('ann'))),
    gets: [200, 200, 200, 429, 200, 429],
  },
  'a limit of 0': {
    run: (make) => site((app) => app.use(limit({ limit: 0, store: make(), validate: false })), (ask) => all(ask, '', '')),
    gets: [429, 429],
  },
  'login protection: only failures count': {
    run: (make) => site((app) => app.use('/login', limit({ limit: 3, store: make(), skipSuccessfulRequests: true })),
      (ask) => all(ask, ...Array<string>(5).fill('login/right'), ...Array<string>(5).fill('login/wrong'), 'login/right')),
    gets: [200, 200, 200, 200, 200, 401, 401, 401, 429, 429, 429],
  },
  'only successes count': {
    run: (make) => site((app) => app.use(limit({ limit: 2, store: make(), skipFailedRequests: true })), (ask) => all(ask, 'bad', 'bad', 'bad', '', '', '', 'bad')),
    gets: [500, 500, 500, 200, 200, 429, 429],
  },
  'a client that proves itself starts anew': {
    run: (make) => site((app) => {
      const limiter = limit({ limit: 2, store: make() })
      app.get('/captcha', (req, res, next) => {
        limiter.resetKey(ipKeyGenerator(req.ip ?? ''))
        setImmediate(next)
      })
      app.get('/', limiter)
    }, (ask) => all(ask, '', '', '', 'captcha', '', '', '')),
    gets: [200, 200, 429, 200, 200, 200, 429],
  },
  'how many hits a client has': {
    run: (make) => {
      const limiter = limit({ limit: 3, store: make(), keyGenerator: () => 'k' })
      return site((app) => app.get('/', limiter), async (ask) => {
        const hits = [(await limiter.getKey('k'))?.totalHits || 0] // rate-limit-redis says NaN
        for (let i = 0; i < 2; i++) {
          await ask('')
          hits.push((await limiter.getKey('k'))?.totalHits || 0)
        }
        return hits
      })
    },
    gets: [0, 1, 2],
  },
  'what is done once, at the first hit over the limit': {
    run: async (make) => {
      let reached = 0
      await site((app) => app.use(limit({ limit: 2, store: make(), handler: (req, res) => {
        const { used, limit: most } = (req as unknown as { rateLimit: { used: number; limit: number } }).rateLimit
        if (used === most + 1) reached++
        res.sendStatus(429)
      } })), (ask) => all(ask, '', '', '', '', ''))
      return reached
    },
    gets: 1,
    ours: 3,
    because: 'a hit that is denied is not counted, so each of them is the first over the limit',
  },
  'slowing down instead of refusing, with a refusal further on': {
    run: async (make) => {
      const delays: number[] = []
      const statuses = await site((app) => {
        app.use(slowDown({ windowMs: hour, delayAfter: 1, delayMs: (used) => used, store: make('slow:') }))
        app.use((req, _, next) => {
          delays.push((req as unknown as { slowDown: { delay: number } }).slowDown.delay)
          next()
        })
        app.use(limit({ limit: 3, store: make('limit:') }))
      }, (ask) => all(ask, '', '', '', ''))
      return [statuses, delays]
    },
    gets: [[200, 200, 200, 429], [0, 2, 3, 4]],
  },
}

describe('what gets through with the recipes of the manuals', () => {
  compare(recipes, theirs, ours)
})

test('instances in several processes share their hits', async () => {
  for (const make of [theirs['rate-limit-redis']?.() ?? assert.fail(), ours()]) {
    const middlewares = [0, 1].map(() => limit({ limit: 3, store: make() }))
    const statuses = []
    for (const i of [0, 1, 0, 1]) statuses.push(await site((app) => app.use(middlewares[i] ?? assert.fail()), (ask) => ask('')))
    assert.deepEqual(statuses, [200, 200, 200, 429])
  }
})

test('a rolling deploy from rate-limit-redis: old and new instances each keep to the limit', async () => {
  const old = limit({ limit: 2, store: new RedisStore({ sendCommand: (...words: string[]) => there.client.call(...(words as [string])) as Promise<never> }) })
  const fresh = limit({ limit: 2, store: new ThrottleStore({ limiter: new Limiter(there.client, { timeout: '10s' }) }) })
  for (const status of [200, 200, 429]) {
    for (const middleware of [old, fresh]) assert.equal(await site((app) => app.use(middleware), (ask) => ask('')), status)
  }
})

test('without a store requests go on or not, as the application says', async () => {
  const gone = new Redis({ port: 1, host: '127.0.0.1', enableOfflineQueue: false })
  gone.on('error', () => {})
  for (const passOnStoreError of [true, false]) {
    const quiet = { error() {}, warn() {} }
    const statuses = await site((app) => app.use(limit({ limit: 1, store: new ThrottleStore({ limiter: new Limiter(gone) }), passOnStoreError,
      logger: quiet })), (ask) => all(ask, '', '', ''))
    assert.deepEqual(statuses, passOnStoreError ? [200, 200, 200] : [503, 503, 503])
  }
  gone.disconnect()
})
