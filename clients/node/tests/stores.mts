// The stores of this package beside those that the libraries have for Redis, and what gets through around the boundary
// of a window.
import { setTimeout as sleep } from 'node:timers/promises'
import fastifyRateLimit from '@fastify/rate-limit'
import type { Store as ExpressStore, Options } from 'express-rate-limit'
import fastify from 'fastify'
import type { Redis } from 'ioredis'
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { RedisStore } from 'rate-limit-redis'
import type { createClient } from 'redis'
import { Limiter } from '@redis-throttle/client'
import { ThrottleStore } from '@redis-throttle/client/express-rate-limit'
import { throttleStore } from '@redis-throttle/client/fastify-rate-limit'
import { ThrottleStorage } from '@redis-throttle/client/nestjs'
import { RateLimiterThrottle } from '@redis-throttle/client/rate-limiter-flexible'

export interface Rule {
  limit: number
  windowMs: number
}

/** Tells whether a hit got through. */
export type Hit = (key: string) => Promise<boolean>

interface Clients {
  redis: ReturnType<typeof createClient>
  ioredis: Redis
}

interface Store {
  /** Whether no interval of windowMs lets more than the limit through. */
  exact: boolean
  open: (clients: Clients, rule: Rule) => Promise<Hit>
}

async function express(store: Pick<ExpressStore, 'init' | 'increment'>, { limit, windowMs }: Rule, told = true): Promise<Hit> {
  // The middleware gives all of its options. A store that is not told of the last two expects refunds.
  await store.init?.({ limit: told ? limit : () => limit, windowMs, skipFailedRequests: false, skipSuccessfulRequests: false } as Options)
  return async (key) => (await store.increment(key)).totalHits <= limit
}

async function onFastify({ limit, windowMs }: Rule, store: object): Promise<Hit> {
  const app = fastify()
  await app.register(fastifyRateLimit, { max: limit, timeWindow: windowMs, keyGenerator: (request) => String(request.headers['x-key']), ...store })
  app.get('/', () => 'hello')
  return async (key) => (await app.inject({ url: '/', headers: { 'x-key': key } })).statusCode === 200
}

function flexible(limiter: { consume: (key: string) => Promise<unknown> }): Hit {
  return (key) => limiter.consume(key).then(
    () => true,
    (error: unknown) => {
      if (error instanceof RateLimiterRes) return false
      throw error
    },
  )
}

export const stores: Record<string, Store> = {
  'rate-limit-redis': {
    exact: false,
    open: async ({ redis }, rule) => await express(new RedisStore({ sendCommand: (...words: string[]) => redis.sendCommand(words) as Promise<string> }), rule),
  },
  '@redis-throttle/client/express-rate-limit': {
    exact: true,
    open: async ({ redis }, rule) => await express(new ThrottleStore({ limiter: new Limiter(redis) }), rule),
  },
  '@redis-throttle/client/express-rate-limit, not told the limit': {
    exact: false,
    open: async ({ redis }, rule) => await express(new ThrottleStore({ limiter: new Limiter(redis) }), rule, false),
  },
  '@fastify/rate-limit with redis': {
    exact: false,
    open: async ({ ioredis }, rule) => await onFastify(rule, { redis: ioredis }),
  },
  '@redis-throttle/client/fastify-rate-limit': {
    exact: true,
    open: async ({ ioredis }, rule) => await onFastify(rule, { store: throttleStore({ limiter: new Limiter(ioredis) }) }),
  },
  'rate-limiter-flexible RateLimiterRedis': {
    exact: false,
    open: async ({ ioredis }, { limit, windowMs }) => flexible(new RateLimiterRedis({ storeClient: ioredis, points: limit, duration: windowMs / 1000 })),
  },
  '@redis-throttle/client/rate-limiter-flexible': {
    exact: true,
    open: async ({ ioredis }, { limit, windowMs }) => flexible(new RateLimiterThrottle({ limiter: new Limiter(ioredis), points: limit,
      duration: windowMs / 1000 })),
  },
  '@redis-throttle/client/nestjs': {
    exact: true,
    open: async ({ ioredis }, { limit, windowMs }) => {
      const storage = new ThrottleStorage({ limiter: new Limiter(ioredis) })
      return async (key) => !(await storage.increment(key, windowMs, limit, 0, 'default')).isBlocked
    },
  },
}

/**
 * Sends 2 x n hits around the boundary of a window, and returns how many got through, and how many at most within one
 * interval of windowMs. The first hit begins a window. n - 1 come right before its end and n right after. The first of
 * an interval counts from before it is sent, the others from their replies, so all did get through within it.
 */
export async function aroundABoundary(hit: Hit, key: string, { windowMs }: Rule, n: number): Promise<{ all: number; within: number }> {
  const passed: { sent: number; answered: number }[] = []
  const began = performance.now()
  for (const [start, hits] of [[0, 1], [0.9, n - 1], [1.01, n]] as const) {
    while (performance.now() - began < start * windowMs) await sleep(1)
    for (let i = 0; i < hits; i++) {
      const sent = performance.now()
      if (await hit(key)) passed.push({ sent, answered: performance.now() })
    }
  }
  const within = passed.map(({ sent }) => passed.filter((other) => other.sent >= sent && other.answered < sent + windowMs).length)
  return { all: passed.length, within: Math.max(...within) }
}
