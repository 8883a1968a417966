// A storage for @nestjs/throttler.
//
//     ThrottlerModule.forRoot({ throttlers: [{ ttl: 60_000, limit: 100 }], storage: new ThrottleStorage({ limiter }) })
//
// The interface says all that a call needs. Each request is one call for each throttler: no interval of ttl lets more than the
// limit through, and with a blockDuration a request over the limit bans its key for so long. The interface is the limit where
// there are several throttlers: it asks for one after the other, so a request that the second denies has been charged to the
// first. The middleware in redis-throttle/express charges several limits at once or none.
import type { ThrottlerStorage } from '@nestjs/throttler'
import { window } from './limit'
import type { Limiter } from './limiter'

export interface ThrottleStorageOptions {
  limiter: Limiter
  /** What the keys begin with: `throttler:`, if it is left out. */
  prefix?: string
}

type ThrottlerRecord = Awaited<ReturnType<ThrottlerStorage['increment']>>

const seconds = (ms: number) => Math.ceil(ms / 1000)

export class ThrottleStorage implements ThrottlerStorage {
  readonly #limiter: Limiter
  readonly #prefix: string

  constructor({ limiter, prefix = 'throttler:' }: ThrottleStorageOptions) {
    this.#limiter = limiter
    this.#prefix = prefix
  }

  async increment(key: string, ttl: number, limit: number, blockDuration: number, throttlerName: string): Promise<ThrottlerRecord> {
    if (limit < 1) return { totalHits: 1, timeToExpire: seconds(ttl), isBlocked: true, timeToBlockExpire: seconds(ttl) }
    const ban = blockDuration > 0 ? { ban: `${Math.ceil(blockDuration)}ms` } : {}
    const result = await this.#limiter.limit(`${this.#prefix}${throttlerName}:${key}`, window(limit, `${ttl}ms`), ban)
    return {
      totalHits: limit - result.remaining + (result.limited ? 1 : 0),
      timeToExpire: seconds(result.resetAfterMs),
      isBlocked: result.limited,
      // The call that bans its key is told when its limit lets it in again.
      timeToBlockExpire: result.limited ? seconds(result.banned ? result.retryAfterMs : Math.max(result.retryAfterMs, blockDuration)) : 0,
    }
  }
}
