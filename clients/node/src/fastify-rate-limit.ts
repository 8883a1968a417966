// A store for @fastify/rate-limit.
//
//     await app.register(rateLimit, { max: 100, timeWindow: '1 minute', store: throttleStore({ limiter }) })
//
// The interface says all that a call needs: no interval of timeWindow lets more than max through. `continueExceeding` charges
// requests that are denied, too, so that a client that keeps retrying stays out. `ban` and `exponentialBackoff` need a count of
// requests that were denied, which exact limits do not keep: the store refuses them. The plugin in redis-throttle/fastify takes
// several limits and keys in one call, and limiter.ban() bans.
import { type Limit, window } from './limit'
import type { Limiter } from './limiter'
import type { Result } from './result'

export interface ThrottleStoreOptions {
  limiter: Limiter
  /** What the keys begin with: `fastify-rate-limit:`, if it is left out. */
  prefix?: string
}

interface PluginOptions {
  continueExceeding?: boolean
  exponentialBackoff?: boolean
  ban?: number
  routeInfo?: { method?: string | string[]; url?: string }
}

type Callback = (error: Error | null, result?: { current: number; ttl: number }) => void

/** Returns a class for the plugin's option `store`. */
export function throttleStore({ limiter, prefix = 'fastify-rate-limit:' }: ThrottleStoreOptions) {
  return class ThrottleStore {
    readonly options: PluginOptions
    readonly prefix: string

    constructor(options: object, under = prefix) {
      this.options = options
      this.prefix = under
      if (this.options.exponentialBackoff) throw new TypeError('exponentialBackoff: this store does not count requests that are denied')
      if ((this.options.ban ?? -1) >= 0) throw new TypeError('ban: this store does not count requests that are denied; limiter.ban() bans a key')
    }

    incr(key: string, callback: Callback, timeWindow: number, max: number): void {
      const strict = this.options.continueExceeding === true
      answer(callback, max, (limit) => limiter.limit(this.prefix + key, limit, { strict }), timeWindow)
    }

    read(key: string, callback: Callback, timeWindow: number, max: number): void {
      answer(callback, max, (limit) => limiter.peek(this.prefix + key, limit, { cost: 0 }), timeWindow)
    }

    child(options: object): ThrottleStore {
      const { method = '', url = '' } = (options as PluginOptions).routeInfo ?? {}
      return new ThrottleStore(options, `${prefix}${String(method)}${url}:`)
    }
  }
}

function answer(callback: Callback, max: number, ask: (limit: Limit) => Promise<Result>, timeWindow: number): void {
  if (max < 1) {
    callback(null, { current: 1, ttl: timeWindow })
    return
  }
  ask(window(max, `${timeWindow}ms`)).then(
    (result) => {
      callback(null, { current: max - result.remaining + (result.limited ? 1 : 0), ttl: result.limited ? result.retryAfterMs : result.resetAfterMs })
    },
    (error: unknown) => {
      callback(error as Error)
    },
  )
}
