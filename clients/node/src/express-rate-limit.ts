// A store for express-rate-limit.
//
//     app.use(expressRateLimit({ windowMs: 60_000, limit: 100, store: new ThrottleStore({ limiter }) }))
//
// With a `limit` that is a number, no interval of windowMs ever lets more through. The interface is the limit here: it counts
// hits, and `increment(key)` is not told a limit that is a function. The store then counts in windows that begin with the first
// hit, which let through up to twice the limit around their end. The middleware in redis-throttle/express takes limits that are
// functions, several at a time, and costs.
import type { ClientRateLimitInfo, Options, Store } from 'express-rate-limit'
import { fixed, type Limit, window } from './limit'
import type { Limiter } from './limiter'
import type { Result } from './result'

export interface ThrottleStoreOptions {
  limiter: Limiter
  /** What the keys begin with: `rl:`, if it is left out. */
  prefix?: string
}

export class ThrottleStore implements Store {
  readonly localKeys = false
  readonly prefix: string
  readonly #limiter: Limiter
  #limit: Limit = window(1, '1m')
  #none = false

  constructor({ limiter, prefix = 'rl:' }: ThrottleStoreOptions) {
    this.#limiter = limiter
    this.prefix = prefix
  }

  init({ limit, windowMs }: Pick<Options, 'limit' | 'windowMs'>): void {
    this.#none = limit === 0
    // More than anybody hits, and so little that replies stay exact.
    if (typeof limit !== 'number') this.#limit = fixed(1_000_000_000_000, `${windowMs}ms`, { first: true })
    else if (!this.#none) this.#limit = window(limit, `${windowMs}ms`)
  }

  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const result = await this.#limiter.peek(this.prefix + key, this.#limit)
    if (!result.limited && result.remaining === result.limit) return undefined
    return { totalHits: result.limit - result.remaining, resetTime: inMs(result.limited ? result.retryAfterMs : result.resetAfterMs) }
  }

  async increment(key: string): Promise<ClientRateLimitInfo> {
    const result = await this.#limiter.limit(this.prefix + key, this.#limit)
    return { totalHits: hits(result) + (this.#none ? 1 : 0), resetTime: inMs(result.limited ? result.retryAfterMs : result.resetAfterMs) }
  }

  async decrement(key: string): Promise<void> {
    await this.#limiter.refund(this.prefix + key, this.#limit)
  }

  async resetKey(key: string): Promise<void> {
    await this.#limiter.reset(this.prefix + key)
  }
}

/** How many hits there were, with the one that was denied: the middlewares deny more than the limit. */
function hits(result: Result): number {
  return result.limit - result.remaining + (result.limited ? 1 : 0)
}

function inMs(ms: number): Date {
  return new Date(Date.now() + ms)
}
