// A store for express-rate-limit.
//
//     app.use(expressRateLimit({ windowMs: 60_000, limit: 100, store: new ThrottleStore({ limiter }) }))
//
// With a `limit` that is a number, no interval of windowMs ever lets more through. The interface is the limit here: it
// counts hits, and `increment(key)` is not told a limit that is a function. The store then counts in windows that begin
// with the first hit, which let through up to twice the limit around their end. The middleware in
// @redis-throttle/client/express takes limits that are functions, several at a time, and costs.
//
// hono-rate-limiter and express-slow-down take the same stores.
import { AsyncLocalStorage } from 'node:async_hooks'
import type { ClientRateLimitInfo, Options, Store } from 'express-rate-limit'
import { one } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import { fixed, type Limit, Namer, window } from '../limit.js'
import { Limiter } from '../limiter.js'
import { hitsOf } from './over.js'

/** Options of the store. */
export interface ThrottleStoreOptions {
  /** A `Limiter`, or another decider. */
  limiter: Decider
  /**
   * What the keys begin with: `express-rate-limit:` and the limit, if it is left out. Stores with the same prefix and
   * limit share their hits. Take one that no store of another library has, also while you replace it: neither can read
   * what the other has written.
   */
  prefix?: string
  /**
   * The policy that the limit is the default of: with a limiter of `policies`, its hash may say otherwise. It needs a
   * `limit` that is a number above 0, which the header fields go on to show.
   */
  policy?: string
}

type Initial = Pick<Options, 'limit' | 'windowMs'> & Partial<Options>

/** A hit of a request: whether it was denied, and so not charged. */
interface Hit {
  key: string
  denied?: boolean
  returned?: boolean
}

/**
 * A store for express-rate-limit, hono-rate-limiter and express-slow-down, one for each middleware.
 *
 *     app.use(rateLimit({ windowMs: 60_000, limit: 100, store: new ThrottleStore({ limiter }) }))
 */
export class ThrottleStore implements Store {
  readonly localKeys = false
  readonly #limiter: Limiter
  readonly #own: string | undefined
  readonly #namer: Namer
  readonly #denials = new Denials()
  readonly #hits = new AsyncLocalStorage<Hit | undefined>()
  #limit: Limit | undefined
  #begun: string | undefined // with which options
  #wrong: Error | undefined = new Error('the store has no limit yet: the middleware calls its init')
  #counts = false
  #refunds = true

  constructor({ limiter, prefix, policy, ...others }: ThrottleStoreOptions) {
    for (const option of Object.keys(others)) throw new TypeError(`ThrottleStore: there is no option ${option}; it takes limiter, prefix and policy`)
    this.#namer = new Namer(policy)
    this.#limiter = new Limiter(asDecider(limiter))
    this.#own = prefix
  }

  /** What the keys begin with. */
  get prefix(): string {
    return this.#own ?? `express-rate-limit:${this.#limit?.policy ?? ''}:`
  }

  /** The middlewares print what this throws and go on, so every increment throws it, too. */
  init(options: Initial): void {
    const { limit, windowMs } = options
    const begun = JSON.stringify([typeof limit === 'function' ? 'a function' : String(limit), windowMs])
    if (this.#begun !== undefined && this.#begun !== begun) {
      this.#wrong = new Error('one store serves two middlewares with different limits; give each a store of its own')
      throw this.#wrong
    }
    this.#begun = begun
    try {
      // express-slow-down has a limit of 0, goes by the count of hits, and turns off what express-rate-limit says to
      // such a limit.
      const slows = limit === 0 && typeof options.validate === 'object' && options.validate['limit'] === false
      this.#counts = typeof limit !== 'number' || slows
      if (this.#namer.name !== undefined && (this.#counts || limit === 0)) throw new TypeError('policy: it needs a limit that is a number above 0')
      // More than anybody hits, and so little that replies stay exact.
      this.#limit = this.#counts ? fixed(1_000_000_000_000, `${windowMs}ms`, { first: true }) : this.#namer.one(window(limit as number, `${windowMs}ms`))
      this.#refunds = options.skipFailedRequests !== false || options.skipSuccessfulRequests !== false
      this.#wrong = undefined
    } catch (error) {
      this.#wrong = error as Error
      throw error
    }
  }

  async get(key: string): Promise<ClientRateLimitInfo | undefined> {
    const limit = this.#checked()
    if (limit.capacity === 0) return { totalHits: 1, resetTime: inMs(limit.seconds * 1000) }
    const result = await this.#limiter.peek(this.prefix + key, limit)
    if (!result.limited && result.remaining === result.limit) return undefined
    return { totalHits: result.policies ? hitsOf(result, limit.capacity) : result.limit - result.remaining,
      resetTime: inMs(result.limited ? (result.retryAfterMs ?? limit.seconds * 1000) : result.resetAfterMs) }
  }

  async increment(key: string): Promise<ClientRateLimitInfo> {
    const hit: Hit = { key }
    // Before anything is awaited: so the rest of the request finds it, and the refund of a middleware comes from there.
    if (this.#refunds) this.#hits.enterWith(hit)
    const limit = this.#checked()
    const result = await this.#limiter.decide(one('limit', this.prefix + key, limit, {}))
    hit.denied = result.limited
    if (result.limited && this.#refunds) this.#denials.add(key, limit.seconds * 1000)
    // The middlewares deny more than the limit.
    const totalHits = result.policies ? hitsOf(result, limit.capacity) : result.limit - result.remaining + (result.limited ? 1 : 0)
    return { totalHits, resetTime: inMs(result.limited ? (result.retryAfterMs ?? limit.seconds * 1000) : result.resetAfterMs) }
  }

  /** Returns a hit. One that was denied has cost nothing, so there is nothing to return. */
  async decrement(key: string): Promise<void> {
    const limit = this.#checked()
    const hit = this.#hits.getStore()
    const denied = hit?.key === key && !hit.returned ? hit.denied : undefined
    if (hit?.key === key) hit.returned = true
    // Without its request it could be any hit, and is taken for one that was denied as long as there are any.
    if ((denied !== false && this.#denials.take(key)) || denied === true) return
    await this.#limiter.refund(this.prefix + key, limit)
  }

  async resetKey(key: string): Promise<void> {
    this.#denials.forget(key)
    await this.#limiter.reset(this.prefix + key)
  }

  #checked(): Limit {
    if (this.#wrong || !this.#limit) throw new Error(`ThrottleStore: ${this.#wrong?.message ?? 'there is no limit'}`, { cause: this.#wrong })
    return this.#limit
  }
}

const most = 100_000

/** How many hits of each key were denied, for as long as they may be returned. */
class Denials {
  readonly #denied = new Map<string, { n: number; until: number }>()

  add(key: string, ms: number): void {
    const n = this.#of(key) + 1
    this.#denied.delete(key) // so that the oldest are first
    this.#denied.set(key, { n, until: performance.now() + ms })
    for (const [oldest, { until }] of this.#denied) {
      if (this.#denied.size <= most && until > performance.now()) break
      this.#denied.delete(oldest)
    }
  }

  /** Takes one of them back, and tells whether there was one. */
  take(key: string): boolean {
    const n = this.#of(key)
    const there = this.#denied.get(key)
    if (n > 1 && there) there.n = n - 1
    else this.#denied.delete(key)
    return n > 0
  }

  forget(key: string): void {
    this.#denied.delete(key)
  }

  #of(key: string): number {
    const there = this.#denied.get(key)
    return there && there.until > performance.now() ? there.n : 0
  }
}

function inMs(ms: number): Date {
  return new Date(Date.now() + ms)
}
