// A limiter for rate-limiter-flexible.
//
//     const limiter = new RateLimiterThrottle({ limiter, points: 5, duration: 1 })
//     await limiter.consume(userId, 2)
//
// No interval of duration lets more than points through. These parts of the interface are refused: a duration
// of 0 (points that never come back), `customDuration`, `execEvenly` (limiter.wait() lets callers in at a steady rate) and `set`
// (the server has no such command). Points that are denied are not counted.
import { type RateLimiterAbstract, RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import { type Limit, window } from './limit'
import type { Limiter } from './limiter'
import type { Result } from './result'

export interface RateLimiterThrottleOptions {
  limiter: Limiter
  points: number
  /** In seconds. */
  duration: number
  /** For how many seconds a denied call bans its key. */
  blockDuration?: number
  keyPrefix?: string
}

// The library exports the type of this class only.
const Base = Object.getPrototypeOf(RateLimiterMemory) as typeof RateLimiterAbstract

export class RateLimiterThrottle extends Base {
  readonly #limiter: Limiter
  readonly #limit: Limit

  constructor(options: RateLimiterThrottleOptions) {
    super(options)
    if ('execEvenly' in options) throw new TypeError('execEvenly: use limiter.wait()')
    this.#limiter = options.limiter
    this.#limit = window(options.points, `${options.duration}s`)
  }

  override async consume(key: string | number, points = 1, options?: object): Promise<RateLimiterRes> {
    refuse(options)
    const ban = this.blockDuration > 0 ? { ban: `${this.blockDuration}s` } : {}
    const result = await this.#limiter.limit(this.getKey(key), this.#limit, { cost: points, ...ban })
    // eslint-disable-next-line @typescript-eslint/only-throw-error -- the interface rejects with what is no error
    if (result.limited) throw this.#shown(result, this.blockDuration * 1000)
    return this.#shown(result)
  }

  override async penalty(key: string | number, points = 1, options?: object): Promise<RateLimiterRes> {
    refuse(options)
    return this.#shown(await this.#limiter.limit(this.getKey(key), this.#limit, { cost: points, force: true }))
  }

  override async reward(key: string | number, points = 1, options?: object): Promise<RateLimiterRes> {
    refuse(options)
    return this.#shown(await this.#limiter.refund(this.getKey(key), this.#limit, { cost: points }))
  }

  override async get(key: string | number): Promise<RateLimiterRes | null> {
    const result = await this.#limiter.peek(this.getKey(key), this.#limit, { cost: 0 })
    return !result.limited && result.remaining === result.limit ? null : this.#shown(result)
  }

  override async block(key: string | number, secDuration: number): Promise<RateLimiterRes> {
    const ms = await this.#limiter.ban(this.getKey(key), `${secDuration}s`)
    return new RateLimiterRes(0, ms, this.points + 1)
  }

  override async delete(key: string | number): Promise<boolean> {
    return await this.#limiter.reset(this.getKey(key))
  }

  override set(): Promise<RateLimiterRes> {
    return Promise.reject(new TypeError('set: the server has no such command; use penalty, reward, block or delete'))
  }

  #shown(result: Result, blockMs = 0): RateLimiterRes {
    const consumed = result.limit - result.remaining
    const next = result.limited ? Math.max(result.retryAfterMs, result.banned ? 0 : blockMs) : result.resetAfterMs
    return new RateLimiterRes(result.remaining, next === Infinity ? -1 : next, consumed, !result.limited && consumed === result.granted)
  }
}

function refuse(options: object | undefined): void {
  if (options && 'customDuration' in options) throw new TypeError('customDuration: the limit of a key does not change from call to call')
}
