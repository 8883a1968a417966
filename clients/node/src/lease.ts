// Leases: at most so many callers at a time, in all processes together.
import { randomUUID } from 'node:crypto'
import { type Call, check, type Leave, type OptionsOf } from './call.js'
import type { Decider } from './decider.js'
import { type Duration, milliseconds } from './duration.js'
import { passes } from './endings.js'
import { LeaseLostError, OutageError } from './errors.js'
import type { Result } from './result.js'

/** Options of `lease`. */
export type LeaseOptions = OptionsOf<'lease'>

// How long a lease lasts at first. It is extended when the holder has the reply: until then nobody knows whether there
// is a holder, and a call that the server runs after its caller has left must not shut the slot for long.
const first = 3000

/** What a take that failed may have left on the server is ended later than a lease lasts. */
export const lateMs = 5000

/** Returns how long a lease lasts at first. */
export function firstTtl(ttl: Duration): Duration {
  const ms = Math.min(milliseconds(ttl, 'ttl'), first)
  if (ms < 1) throw new RangeError(`ttl: '${ttl}' is shorter than a millisecond`)
  return `${Math.floor(ms)}ms`
}

/** Ends in the background, within `ms`, what the server may hold for a take that failed. */
export type Abandon = (call: Call, ms: number) => void

/** Tells whether the server may hold what a call asked for that failed. It does not if it said itself what is wrong. */
export function mayBeHeld(error: unknown, { signal }: Leave): boolean {
  return error instanceof OutageError || signal?.aborted === true
}

/** A lease of one key, which renews itself three times within its ttl until it is ended. */
class Held {
  #lasts: number
  #until = -Infinity
  #ended = false
  #timer: NodeJS.Timeout | undefined

  constructor(
    readonly decider: Decider,
    readonly key: string,
    readonly id: string,
    readonly ttl: Duration,
    readonly tell: () => void,
  ) {
    this.#lasts = milliseconds(firstTtl(ttl), 'ttl')
  }

  begin(granted: number): void {
    this.#believe(granted)
    // Now there is a holder, so it may last for the whole ttl.
    if (this.#lasts < milliseconds(this.ttl, 'ttl')) void this.#renew()
    else this.#renewIn(this.#lasts / 3)
  }

  get lost(): boolean {
    return performance.now() >= this.#until
  }

  end(): void {
    this.#ended = true
    this.#until = -Infinity
    clearTimeout(this.#timer)
  }

  // Until when the holder takes the lease for its own: a little less, since timers of a busy process are late.
  #believe(began: number): void {
    this.#until = began + this.#lasts * 0.95
  }

  #renewIn(pause: number): void {
    const left = this.#until - performance.now()
    this.#timer = setTimeout(() => void this.#renew(), Math.max(Math.min(pause, left, 2 ** 31 - 1), 0)).unref()
  }

  async #renew(): Promise<void> {
    const sent = performance.now()
    const left = this.#until - sent
    if (left <= 0) {
      this.#lose()
      return
    }
    let renewed: boolean | undefined
    try {
      const call: Call = { verb: 'renew', keys: [{ name: this.key, ttl: this.ttl }], id: this.id }
      renewed = !(await this.decider.decide(call, { signal: AbortSignal.timeout(Math.ceil(left)) })).limited
    } catch {
      // Until it lapses, the next attempt may get through.
    }
    if (this.#ended) return
    if (renewed === undefined) {
      this.#renewIn(this.#lasts / 10)
    } else if (renewed) {
      this.#lasts = milliseconds(this.ttl, 'ttl')
      this.#believe(sent)
      this.#renewIn(this.#lasts / 3)
    } else {
      this.#lose()
    }
  }

  #lose(): void {
    this.#until = -Infinity
    this.tell()
  }
}

/** Leases that are held under one id until they are ended. */
export abstract class Holding implements AsyncDisposable {
  protected readonly decider: Decider
  readonly #held: Held[]
  readonly #lost = new AbortController()
  #ended = false

  /** `sent` is when the call was sent that took the leases. */
  protected constructor(decider: Decider, readonly id: string, leases: readonly { name: string; ttl: Duration }[], result: Result, sent: number) {
    this.decider = decider
    // Nobody holds what a policy lets through, so there is nothing to renew and nothing to give back.
    const known = result.by === 'policy' ? [] : leases
    this.#held = known.map(({ name, ttl }) => new Held(decider, name, id, ttl, () => { this.#lost.abort(new LeaseLostError()) }))
    // The ttl begins when the slot is granted: after the wait, which was rounded up.
    for (const held of this.#held) held.begin(sent + Math.max(result.waitMs - 1, 0))
  }

  /** Is aborted, with a `LeaseLostError`, as soon as somebody else may have the slot. Pass it to the work. */
  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** Whether somebody else may have the slot. */
  get lost(): boolean {
    return this.#ended || this.#held.some(({ lost }) => lost)
  }

  /** Throws a `LeaseLostError` if somebody else may have the slot. Call it between the steps of the work. */
  check(): void {
    if (this.lost) throw new LeaseLostError()
  }

  /** Gives back what is held. */
  abstract release(): Promise<void>

  /** Ends the leases here, and tells whether there is something to tell the server: once. */
  protected end(): boolean {
    const first = !this.#ended
    this.#ended = true
    for (const held of this.#held) held.end()
    return first && this.#held.length > 0
  }

  /** Whether the holding is over for its holder. */
  protected get ended(): boolean {
    return this.#ended
  }

  /** Gives back what is held, and throws a `LeaseLostError` if it was lost before the block was over. */
  async [Symbol.asyncDispose](): Promise<void> {
    const lost = !this.#ended && this.lost
    await this.release()
    if (lost) throw new LeaseLostError()
  }
}

/**
 * A slot that is held until it is released. It renews itself three times within its ttl.
 *
 *     await using lease = await limiter.lease('reports', { slots: 3, ttl: '1m' })
 *     await work(lease.signal)
 */
export class Lease extends Holding {
  readonly #ttl: Duration

  private constructor(
    decider: Decider,
    /** Whose slot it is. */
    readonly key: string,
    id: string,
    ttl: Duration,
    result: Result,
    sent: number,
  ) {
    super(decider, id, [{ name: key, ttl }], result, sent)
    this.#ttl = ttl
  }

  /** Takes a slot, or throws a `LimitedError`. */
  static async take(decider: Decider, key: string, options: LeaseOptions, abandon: Abandon): Promise<Lease> {
    check('lease', options)
    const { slots, ttl, timeout, group, weight, priority, signal } = options
    const id = options.id ?? randomUUID()
    const lasts = firstTtl(ttl)
    const call: Call = {
      verb: 'lease',
      keys: [{ name: key, leased: true, slots, ttl: lasts }],
      id,
      ...(timeout !== undefined && { maxWait: timeout }),
      ...(group !== undefined && { group }),
      ...(weight !== undefined && { weight }),
      ...(priority !== undefined && { priority }),
    }
    const sent = performance.now()
    let result
    try {
      result = await decider.decide(call, signal ? { signal } : {})
    } catch (error) {
      // The server may have granted it all the same, or do so yet. One that stood still runs what it finds in its
      // sockets in any order.
      if (mayBeHeld(error, options)) abandon(released(key, ttl, id), milliseconds(lasts, 'ttl') + lateMs)
      throw error
    }
    return new Lease(decider, key, id, ttl, result.orThrow(), sent)
  }

  /**
   * Gives the slot back. If the server is away, that goes on in the background until it is back, and the slot is free
   * after `ttl` in any case.
   */
  override async release(): Promise<void> {
    if (!this.end()) return
    try {
      await this.decider.decide(released(this.key, this.#ttl, this.id))
    } catch (error) {
      if (!passes(error)) throw error
    }
  }
}

function released(key: string, ttl: Duration, id: string): Call {
  return { verb: 'release', keys: [{ name: key, leased: true, ttl }], id }
}
