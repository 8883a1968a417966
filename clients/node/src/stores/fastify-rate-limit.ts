// A store for @fastify/rate-limit.
//
//     await app.register(rateLimit, { max: 100, timeWindow: '1 minute', store: throttleStore({ limiter }) })
//
// The interface says all that a call needs: no interval of timeWindow lets more than max through. A request that is
// denied leaves a mark until the next one can come, so that `{ increment: false }` reads that the limit is exceeded.
// With `continueExceeding` it charges and bans its key for a whole timeWindow, so that a client that keeps retrying
// stays out. With `ban` the server counts the requests that are denied within a timeWindow, and bans the key for a
// timeWindow when there are as many. `exponentialBackoff` needs a count that goes on, which the store refuses. The
// plugin in @redis-throttle/client/fastify takes several limits and keys in one call.
import { one } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import { fixed, type Limit, Namer, window } from '../limit.js'
import { Limiter } from '../limiter.js'
import type { Result } from '../result.js'
import { counting, greatest, hitsOf, Marks } from './over.js'

/** Options of the store. */
export interface ThrottleStoreOptions {
  /** A `Limiter`, or another decider. */
  limiter: Decider
  /** What the keys begin with: `fastify-rate-limit:`, if it is left out. */
  prefix?: string
  /**
   * The policy that `max` and `timeWindow` are the default of: with a limiter of `policies`, its hash may say
   * otherwise. The header fields go on to show `max`.
   */
  policy?: string
}

interface PluginOptions {
  continueExceeding?: boolean
  exponentialBackoff?: boolean
  ban?: number
  routeInfo?: { method?: string | string[]; url?: string }
}

type Callback = (error: Error | null, result?: { current: number; ttl: number }) => void

/**
 * Returns a class for the option `store` of @fastify/rate-limit.
 *
 *     await app.register(fastifyRateLimit, { max: 100, timeWindow: '1 minute', store: throttleStore({ limiter }) })
 */
export function throttleStore({ limiter: decider, prefix = 'fastify-rate-limit:', policy, ...others }: ThrottleStoreOptions) {
  for (const option of Object.keys(others)) throw new TypeError(`throttleStore: there is no option ${option}; it takes limiter, prefix and policy`)
  const namer = new Namer(policy)
  const limiter = new Limiter(asDecider(decider))
  const marks = new Marks(limiter)
  return class ThrottleStore {
    readonly options: PluginOptions
    readonly prefix: string

    constructor(options: object, under = prefix) {
      this.options = options
      this.prefix = under
      if (this.options.exponentialBackoff) throw new TypeError('exponentialBackoff: this store does not count requests that are denied')
    }

    incr(key: string, callback: Callback, timeWindow: number, max: number): void {
      answer(callback, async () => {
        const limit = namer.one(limitOf(max, timeWindow))
        const strict = this.options.continueExceeding === true
        const bans = bansOf(this.options)
        const period = `${timeWindow}ms` as const
        const options = strict ? { charge: 'strict' as const, ban: period } : bans >= 0 ? { ban: period, ...(bans > 0 && { banAfter: `${bans}/${period}` }) } : {}
        const result = await limiter.decide(one('limit', this.prefix + key, limit, options))
        if (strict && result.limited) return { current: max + 1, ttl: timeWindow }
        if (result.banned) return banned(max, this.options, result)
        await marks.set(this.prefix + key, limit, result, `${timeWindow}ms`)
        return shown(result, limit, limit.capacity)
      })
    }

    read(key: string, callback: Callback, timeWindow: number, max: number): void {
      answer(callback, async () => {
        const limit = namer.one(limitOf(max, timeWindow))
        if (limit.capacity === 0) return { current: 1, ttl: timeWindow }
        const many = counting(limit)
        const [result, marked] = await Promise.all([limiter.peek(this.prefix + key, many, { cost: 0 }), marks.get(this.prefix + key, limit)])
        if (result.banned) return banned(max, this.options, result)
        return marked > 0 ? { current: max + 1, ttl: marked } : shown(result, many, limit.capacity)
      })
    }

    child(options: object): ThrottleStore {
      const { method = '', url = '' } = (options as PluginOptions).routeInfo ?? {}
      return new ThrottleStore(options, `${prefix}${String(method)}${url}:`)
    }
  }
}

/** After how many denied requests a key is banned, as the plugin reads its option: -1 is never. */
function bansOf({ ban }: PluginOptions): number {
  return typeof ban === 'number' && Number.isFinite(ban) && ban >= 0 ? Math.trunc(ban) : -1
}

/** What the plugin takes for a banned key: it answers more than `ban` denied requests with status 403. */
function banned(max: number, options: PluginOptions, result: Result): { current: number; ttl: number } {
  return { current: max + Math.max(bansOf(options), 0) + 1, ttl: result.retryAfterMs ?? 0 }
}

/** How many requests there were: more than max when the last one was denied. */
function shown(result: Result, limit: Limit, max: number): { current: number; ttl: number } {
  if (result.limited) return { current: max + 1, ttl: result.retryAfterMs ?? limit.seconds * 1000 }
  return { current: result.policies ? hitsOf(result, max) : result.limit - result.remaining, ttl: result.resetAfterMs }
}

function limitOf(max: number, timeWindow: number): Limit {
  if (max > greatest) return fixed(1_000_000_000_000, `${timeWindow}ms`, { first: true })
  return window(Math.max(Math.floor(max), 0), `${timeWindow}ms`)
}

function answer(callback: Callback, ask: () => Promise<{ current: number; ttl: number }>): void {
  ask().then(
    (result) => {
      callback(null, result)
    },
    (error: unknown) => {
      callback(error as Error)
    },
  )
}
