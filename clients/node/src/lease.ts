// Leases: at most so many callers at a time, in all processes together.
import { randomUUID } from 'node:crypto'
import { type Call, check } from './call'
import { type Duration, milliseconds } from './duration'
import { LeaseLostError, OutageError, OverloadError } from './errors'
import type { Limiter } from './limiter'

export interface LeaseOptions {
  /** How many callers may hold one at a time. */
  slots: number
  /** After which time the slot of a process that has died is free. */
  ttl: Duration
  /** How long to wait for a slot. Without it the answer comes at once. */
  timeout?: Duration
  /** Callers that wait take turns by group. */
  group?: string
  /** Callers with a higher priority come first. */
  priority?: number
  /** Whose lease it is: a random text, if it is left out. */
  id?: string
  /** Ends the wait for a slot. */
  signal?: AbortSignal
}

// How long a lease lasts at first. It is extended when the holder has the reply: until then nobody knows whether there is a
// holder, and a call that the server runs after its caller has left must not shut the slot for long.
const first = 3000

/** Ends a lease in the background. */
export type Abandon = (call: Call, ms: number) => void

/** A slot that is held until it is released. It renews itself three times within its ttl. */
export class Lease implements AsyncDisposable {
  readonly #limiter: Limiter
  readonly #ttl: Duration
  readonly #lost = new AbortController()
  #lasts: number
  #until = -Infinity
  #released = false
  #timer: NodeJS.Timeout | undefined

  private constructor(
    limiter: Limiter,
    readonly key: string,
    readonly id: string,
    options: LeaseOptions,
  ) {
    this.#limiter = limiter
    this.#ttl = options.ttl
    this.#lasts = Math.min(milliseconds(options.ttl, 'ttl'), first)
    if (this.#lasts < 1) throw new RangeError(`ttl: '${options.ttl}' is shorter than a millisecond`)
  }

  /** Takes a slot, or throws a `LimitedError`. */
  static async take(limiter: Limiter, key: string, options: LeaseOptions, abandon: Abandon): Promise<Lease> {
    check('lease', options)
    const { slots, timeout, group, priority, signal } = options
    const lease = new Lease(limiter, key, options.id ?? randomUUID(), options)
    const call: Call = {
      verb: 'lease',
      keys: [{ name: key, leased: true, slots, ttl: `${Math.floor(lease.#lasts)}ms` }],
      id: lease.id,
      ...(timeout !== undefined && { maxWait: timeout }),
      ...(group !== undefined && { group }),
      ...(priority !== undefined && { priority }),
    }
    const sent = performance.now()
    let result
    try {
      result = await limiter.decide(call, signal ? { signal } : {})
    } catch (error) {
      // The server may have granted it all the same, or do so yet, unless it said itself what is wrong. One that stood still runs what
      // it finds in its sockets in any order.
      if (error instanceof OutageError || signal?.aborted) abandon(lease.#ended(), lease.#lasts + 5000)
      throw error
    }
    result.orThrow()
    // The ttl begins when the slot is granted: after the wait, which was rounded up.
    lease.#believe(sent + Math.max(result.waitMs - 1, 0))
    // Now there is a holder, so it may last for the whole ttl.
    if (lease.#lasts < milliseconds(options.ttl, 'ttl')) void lease.#renew()
    else lease.#renewIn(lease.#lasts / 3)
    return lease
  }

  /** Is aborted, with a `LeaseLostError`, as soon as somebody else may have the slot. Pass it to the work. */
  get signal(): AbortSignal {
    return this.#lost.signal
  }

  /** Whether somebody else may have the slot. */
  get lost(): boolean {
    return performance.now() >= this.#until
  }

  /** Throws a `LeaseLostError` if somebody else may have the slot. Call it between the steps of the work. */
  check(): void {
    if (this.lost) throw new LeaseLostError()
  }

  /** Gives the slot back. If the server is away, that goes on in the background until it is back, and the slot is free after `ttl` in any case. */
  async release(): Promise<void> {
    if (this.#released) return
    this.#released = true
    this.#until = -Infinity
    clearTimeout(this.#timer)
    try {
      await this.#limiter.decide(this.#ended())
    } catch (error) {
      if (!(error instanceof OutageError || error instanceof OverloadError)) throw error
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.release()
  }

  #ended(): Call {
    return { verb: 'release', keys: [{ name: this.key, leased: true, ttl: this.#ttl }], id: this.id }
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
      renewed = !(await this.#limiter.renew(this.key, { id: this.id, ttl: this.#ttl, signal: AbortSignal.timeout(Math.ceil(left)) })).limited
    } catch {
      // Until it lapses, the next attempt may get through.
    }
    if (this.#released) return
    if (renewed === undefined) {
      this.#renewIn(this.#lasts / 10)
    } else if (renewed) {
      this.#lasts = milliseconds(this.#ttl, 'ttl')
      this.#believe(sent)
      this.#renewIn(this.#lasts / 3)
    } else {
      this.#lose()
    }
  }

  #lose(): void {
    this.#until = -Infinity
    this.#lost.abort(new LeaseLostError())
  }
}
