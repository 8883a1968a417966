// A storage for @nestjs/throttler.
//
//     ThrottlerModule.forRoot({ throttlers: [{ ttl: 60_000, limit: 100 }], storage: new ThrottleStorage({ limiter }) })
//
// The interface says all that a call needs. Each request is one call for each throttler: no interval of ttl lets more
// than the limit through. With a blockDuration a request over the limit bans its key for so long, after which the key
// starts with its whole limit. The interface is the limit where there are several throttlers: it asks for one after the
// other, so a request that the second denies has been charged to the first. The middleware in
// @redis-throttle/client/express charges several limits at once or none.
import type { ThrottlerStorage } from '@nestjs/throttler'
import { one } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import { fixed, type Limit, Namer, window } from '../limit.js'
import { Limiter } from '../limiter.js'
import { greatest, hitsOf, startAnew } from './over.js'

/** Options of a `ThrottleStorage`. */
export interface ThrottleStorageOptions {
  /** A `Limiter`, or another decider. */
  limiter: Decider
  /** What the keys begin with: `throttler:`, if it is left out. */
  prefix?: string
  /**
   * The policy that the limit of each throttler is the default of, or a function that returns that of a throttler by
   * its name: with a limiter of `policies`, its hash may say otherwise. The header fields go on to show the throttler's
   * own limit.
   */
  policy?: string | ((throttlerName: string) => string | undefined)
}

type ThrottlerRecord = Awaited<ReturnType<ThrottlerStorage['increment']>>

const seconds = (ms: number) => Math.ceil(ms / 1000)

/**
 * A storage for @nestjs/throttler. Several throttlers are asked one after the other.
 *
 *     ThrottlerModule.forRoot({ throttlers: [{ ttl: 60_000, limit: 100 }], storage: new ThrottleStorage({ limiter }) })
 */
export class ThrottleStorage implements ThrottlerStorage {
  readonly #limiter: Limiter
  readonly #prefix: string
  readonly #policyOf: (throttlerName: string) => string | undefined

  constructor({ limiter, prefix = 'throttler:', policy, ...others }: ThrottleStorageOptions) {
    for (const option of Object.keys(others)) throw new TypeError(`ThrottleStorage: there is no option ${option}; it takes limiter, prefix and policy`)
    this.#policyOf = typeof policy === 'function' ? policy : () => policy
    if (typeof policy !== 'function') new Namer(policy)
    this.#limiter = new Limiter(asDecider(limiter))
    this.#prefix = prefix
  }

  /** Counts a request: the guard of the library calls it. */
  async increment(key: string, ttl: number, limit: number, blockDuration: number, throttlerName: string): Promise<ThrottlerRecord> {
    const policy = this.#policyOf(throttlerName)
    const most = policy === undefined ? limitOf(limit, ttl) : limitOf(limit, ttl).with({ policy })
    const ban = blockDuration > 0 ? { ban: `${Math.ceil(blockDuration)}ms` as const } : {}
    const name = `${this.#prefix}${throttlerName}:${key}`
    const result = await this.#limiter.decide(one('limit', name, most, ban))
    const begins = result.limited && !result.banned && result.retryAfterMs !== null && blockDuration > 0
    // What was used before a longer block is gone by its end.
    if (begins && blockDuration < ttl) await startAnew(this.#limiter, name, most)
    const retryAfterMs = begins ? blockDuration : (result.retryAfterMs ?? ttl)
    return {
      totalHits: result.policies ? hitsOf(result, most.capacity) : result.limit - result.remaining + (result.limited ? 1 : 0),
      timeToExpire: seconds(result.limit === 0 && result.by !== 'none' ? ttl : result.resetAfterMs),
      isBlocked: result.limited,
      timeToBlockExpire: result.limited ? seconds(retryAfterMs) : 0,
    }
  }
}

/**
 * Returns the limit of what the guard gives: fractions and Infinity, too, and texts, which come from the environment.
 */
function limitOf(limit: unknown, ttl: number): Limit {
  const most = typeof limit === 'string' && limit.trim() !== '' ? Number(limit) : limit
  if (typeof most !== 'number' || Number.isNaN(most)) throw new TypeError(`limit must be a number, not ${String(limit)}`)
  if (most > greatest) return fixed(1_000_000_000_000, `${ttl}ms`, { first: true })
  return window(Math.max(Math.floor(most), 0), `${ttl}ms`)
}
