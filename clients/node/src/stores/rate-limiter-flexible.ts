// A limiter for rate-limiter-flexible.
//
//     const limiter = new RateLimiterThrottle({ limiter, points: 5, duration: 1 })
//     await limiter.consume(userId, 2)
//
// No interval of duration lets more than points through. With a duration of 0 points never come back. After a block,
// which may be shorter than the duration, a key has all its points again. These parts of the interface are refused:
// `customDuration`, `execEvenly` (limiter.wait() lets callers in at a steady rate), `blockOnConsumed`, the blocks in
// memory and `set` (the server has no such command). Points that are denied are not counted. A denied call leaves a
// mark until it could succeed, so that `get` shows more points than there are.
import { type RateLimiterAbstract, RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible'
import { one } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import { isOutage, isOverload } from '../errors.js'
import { type Limit, Namer, window } from '../limit.js'
import { Limiter } from '../limiter.js'
import { counting, hitsOf, Marks, startAnew } from './over.js'
import { makeResult, type Result } from '../result.js'

/** Options of a `RateLimiterThrottle`. */
export interface RateLimiterThrottleOptions {
  /** A `Limiter`, or another decider. */
  limiter: Decider
  /** How many there are; with 0 nobody is let through. */
  points: number
  /** In seconds; with 0 points never come back. */
  duration: number
  /**
   * For how many seconds a denied call bans its key, which then has all its points again: for none, if it is left out.
   */
  blockDuration?: number
  /**
   * What the keys begin with, after `rate-limiter-flexible:`: `rlflx`, as with the library's own limiters, if it is
   * left out.
   */
  keyPrefix?: string
  /**
   * The policy that points and duration are the default of: with a limiter of `policies`, its hash may say otherwise.
   */
  policy?: string
  /**
   * Decides while Redis is away, and while this process asks for more than its client carries. Without it the promise
   * is rejected.
   */
  insuranceLimiter?: RateLimiterAbstract
}

// The library does not export the class of limiters that may have an insurance, above that of those with a store.
// RLWrapperTimeouts knows them by it.
const Base = Object.getPrototypeOf(Object.getPrototypeOf(RateLimiterRedis)) as typeof RateLimiterAbstract

const known = new Set(['limiter', 'points', 'duration', 'blockDuration', 'keyPrefix', 'policy', 'insuranceLimiter'])
const always = 36_500 // days, which is what a ban that never ends comes to
const msAlways = always * 86_400_000

/**
 * A limiter of rate-limiter-flexible that the server decides.
 *
 *     const limiter = new RateLimiterThrottle({ limiter: new Limiter(client), points: 5, duration: 1 })
 *     await limiter.consume('user:42')
 */
export class RateLimiterThrottle extends Base {
  readonly #limiter: Limiter
  readonly #marks: Marks
  readonly #namer: Namer
  #limit: Limit | undefined
  #of: readonly [points?: number, duration?: number] = []
  /** Its `blockDuration` becomes that of this limiter. */
  declare insuranceLimiter: RateLimiterAbstract | undefined

  constructor(options: RateLimiterThrottleOptions) {
    super(options)
    if ('execEvenly' in options) throw new TypeError('execEvenly: use limiter.wait()')
    for (const option of Object.keys(options)) if (!known.has(option)) throw new TypeError(`${option}: this limiter has no such option; it takes ${[...known].join(', ')}`)
    this.#limiter = new Limiter(asDecider(options.limiter))
    this.#marks = new Marks(this.#limiter)
    this.#namer = new Namer(options.policy)
    this.#limitNow() // which tells at once what is wrong with points and duration
  }

  /** Takes points. Resolves with how many remain, and rejects with when there are some again. */
  override consume(key: string | number, points = 1, options?: object): Promise<RateLimiterRes> {
    return this.#insured(options, (other) => other.consume(key, points), async () => {
      const ban = this.blockDuration > 0 ? { ban: `${this.blockDuration}s` as const } : {}
      const result = await this.#limiter.decide(one('limit', this.#keyOf(key), this.#limitNow(), { cost: points, ...ban }))
      if (!result.limited) return this.#shown(result)
      if (!(this.blockDuration > 0)) await this.#marks.set(this.#keyOf(key), this.#limitNow(), result, this.#period())
      else if (begins(result)) await this.#startAnew(key, this.blockDuration)
      // eslint-disable-next-line @typescript-eslint/only-throw-error -- the interface rejects with what is no error
      throw this.#shown(result, this.blockDuration * 1000)
    })
  }

  override penalty(key: string | number, points = 1, options?: object): Promise<RateLimiterRes> {
    return this.#insured(options, (other) => other.penalty(key, points),
      () => this.#limiter.limit(this.#keyOf(key), counting(this.#limitNow()), { cost: points, charge: 'force' }).then((result) => this.#shown(result)))
  }

  override reward(key: string | number, points = 1, options?: object): Promise<RateLimiterRes> {
    return this.#insured(options, (other) => other.reward(key, points), async () => {
      const result = await this.#limiter.decide(one('refund', this.#keyOf(key), counting(this.#limitNow()), { cost: points }))
      await this.#marks.lift(this.#keyOf(key), this.#limitNow())
      return this.#shown(result)
    })
  }

  override get(key: string | number): Promise<RateLimiterRes | null> {
    return this.#insured(undefined, (other) => other.get(key), async () => {
      const limit = this.#limitNow()
      if (limit.capacity === 0) return this.#shown(makeResult({ limited: true, retryAfterMs: null }))
      const [result, marked] = await Promise.all([this.#limiter.peek(this.#keyOf(key), counting(limit), { cost: 0 }), this.#marks.get(this.#keyOf(key), limit)])
      if (marked > 0 && !result.limited) return new RateLimiterRes(0, marked, Math.max(result.limit - result.remaining, this.points + 1))
      return !result.limited && result.remaining === result.limit ? null : this.#shown(result)
    })
  }

  /** Bans a key for so many seconds, or for ever: 0. */
  override block(key: string | number, secDuration: number): Promise<RateLimiterRes> {
    return this.#insured(undefined, (other) => other.block(key, secDuration), async () => {
      const ms = await this.#limiter.ban(this.#keyOf(key), secDuration > 0 ? `${secDuration}s` : `${always}d`)
      await this.#startAnew(key, secDuration)
      return new RateLimiterRes(0, untilNext(ms), this.points + 1)
    })
  }

  override delete(key: string | number): Promise<boolean> {
    return this.#insured(undefined, (other) => other.delete(key), async () => {
      const [there] = await Promise.all([this.#limiter.reset(this.#keyOf(key)), this.#marks.lift(this.#keyOf(key), this.#limitNow())])
      return there
    })
  }

  override set(): Promise<RateLimiterRes> {
    return Promise.reject(new TypeError('set: the server has no such command; use penalty, reward, block or delete'))
  }

  // The library's own stores write other values under the same names: both can run side by side during a deployment.
  #keyOf(key: string | number): string {
    return `rate-limiter-flexible:${this.getKey(key)}`
  }

  #limitNow(): Limit {
    const [points, duration] = this.#of
    if (!this.#limit || points !== this.points || duration !== this.duration) {
      this.#limit = this.#namer.one(window(this.points, this.#period()))
      this.#of = [this.points, this.duration]
    }
    return this.#limit
  }

  #period(): `${number}${'s' | 'd'}` {
    return this.duration === 0 ? `${always}d` : `${this.duration}s`
  }

  /**
   * Has a key that is blocked for so many seconds start with all points after it. What was used before a longer block
   * is gone by then.
   */
  async #startAnew(key: string | number, secDuration: number): Promise<void> {
    if (this.duration === 0 || (secDuration > 0 && secDuration < this.duration)) await startAnew(this.#limiter, this.#keyOf(key), this.#limitNow())
  }

  async #insured<T>(options: object | undefined, instead: (other: RateLimiterAbstract) => Promise<T>, act: () => Promise<T>): Promise<T> {
    if (options && 'customDuration' in options) throw new TypeError('customDuration: the limit of a key does not change from call to call')
    try {
      return await act()
    } catch (error) {
      if (this.insuranceLimiter && (isOutage(error) || isOverload(error))) return await instead(this.insuranceLimiter)
      throw error
    }
  }

  #shown(result: Result, blockMs = 0): RateLimiterRes {
    // A denied call shows what is left for smaller ones, and a banned key nothing.
    const over = result.limited && (result.banned || result.remaining === 0)
    const used = over ? this.points + 1 : result.policies ? hitsOf({ ...result, limited: false } as Result, this.points) : result.limit - result.remaining
    const next = !result.limited ? result.resetAfterMs : blockMs > 0 && begins(result) ? blockMs : (result.retryAfterMs ?? (this.duration * 1000 || msAlways))
    const remaining = result.policies && !over && result.by !== 'none' ? result.remaining : Math.max(this.points - used, 0)
    return new RateLimiterRes(remaining, untilNext(next), used, !result.limited && used === result.granted)
  }
}

/** Tells whether a call that may ban its key did: not one that the ban denied, nor one that never can succeed. */
function begins(result: Result): boolean {
  return result.limited && !result.banned && result.retryAfterMs !== null
}

/** Returns how long a key is kept out, as the library has it. */
function untilNext(ms: number): number {
  return ms > msAlways / 2 ? -1 : ms
}
