// What the middlewares share that limit how many requests are served at a time: each holds a lease while it is served.
import type { EventEmitter } from 'node:events'
import type { AddressOptions } from './address.js'
import { asDecider, type Decider } from '../decider.js'
import { type Duration, forever, nanoseconds } from '../duration.js'
import type { Lease } from '../lease.js'
import { integer } from '../limit.js'
import { Limiter } from '../limiter.js'
import { refuseOthers } from '../options.js'
import { LimitedError } from '../result.js'
import { isPreflight } from './cors.js'
import { checkedKey, Clients, type Decision, type FailureOptions, Failures, refuseUnused, skipping } from './http.js'

type Maybe<T> = T | Promise<T>

/** Options of `concurrency`. */
export interface ConcurrencyOptions<Request> extends FailureOptions<Request>, AddressOptions {
  /** A `Limiter`, or another decider. */
  readonly limiter: Decider
  /**
   * How many requests of a key are served at a time, in all processes together, or a function that returns that: with 0
   * none is.
   */
  readonly slots: number | ((request: Request) => Maybe<number>)
  /**
   * Whose slots a request takes. If it is left out: `http:`, the name, and `clientAddress`. A request whose key is
   * undefined needs no slot. A key of slots is not one of limits.
   */
  readonly key?: (request: Request) => Maybe<string | undefined>
  /** What the default key begins with, after `http:`: `concurrency`, if it is left out. */
  readonly name?: string
  /**
   * How long a request waits for a slot: not at all, if it is left out; `forever` as long as it takes, or until its
   * client leaves.
   */
  readonly timeout?: Duration | typeof forever
  /** After which time the slots of a process that has died are free: `30s`, if it is left out. */
  readonly ttl?: Duration
  /**
   * Which requests need no slot: none, if it is left out. A function, or addresses and networks, as in
   * `RateLimitOptions`.
   */
  readonly skip?: ((request: Request) => Maybe<boolean>) | readonly string[]
}

const known = ['limiter', 'slots', 'key', 'name', 'timeout', 'ttl', 'skip', 'outage', 'overload', 'mistake', 'retryAfter', 'onError', 'ipv6', 'trusted'] as const satisfies (keyof ConcurrencyOptions<object>)[]

const full: Decision = {
  headers: [],
  response: { status: 429, headers: [['Retry-After', '1'], ['Content-Type', 'application/problem+json']], body: `${JSON.stringify({ type: 'about:blank', title: 'Too Many Requests', status: 429, detail: 'too many requests at a time' })}\n` },
}

/** Gives requests of a framework their slots. */
export class Places<Request extends object> {
  readonly #options: ConcurrencyOptions<Request>
  readonly #limiter: Limiter
  readonly #failures: Failures<Request>
  readonly #clients: Clients<Request>
  readonly #skip: ((request: Request) => Maybe<boolean>) | undefined

  constructor(framework: string, options: ConcurrencyOptions<Request>, trusts: (request: Request) => boolean) {
    const { limiter, slots, key, skip, name, timeout, ttl = '30s', trusted } = options
    refuseOthers('concurrency', options, known)
    this.#limiter = new Limiter(asDecider(limiter))
    if (typeof slots !== 'function') integer('slots', slots, 0)
    if (key !== undefined && typeof key !== 'function') throw new TypeError(`key must be a function, not a ${typeof key}`)
    if (key) refuseUnused(options, 'is a key')
    this.#skip = skipping(framework, skip, trusted)
    if (name !== undefined && (typeof name !== 'string' || name === '')) throw new TypeError('name must be a string that is not empty')
    if (timeout !== undefined && timeout !== forever && nanoseconds(timeout, 'timeout') === 0n) throw new RangeError('timeout must not be 0: leave it out to wait not at all')
    if (nanoseconds(ttl, 'ttl') < 1_000_000n) throw new RangeError(`ttl: '${ttl}' is shorter than a millisecond`)
    this.#options = options
    this.#failures = new Failures(options)
    this.#clients = new Clients(framework, options, trusts)
  }

  /** Takes a slot for a request, until its response is closed. Returns what to answer if there is none. */
  async take(request: Request, response: EventEmitter & { readonly closed?: boolean; readonly destroyed?: boolean }): Promise<Decision | undefined> {
    const leaving = new AbortController()
    const closed = () => {
      leaving.abort()
    }
    response.once('close', closed)
    try {
      const lease = await this.#lease(request, leaving.signal)
      if (!lease) return undefined
      const release = () => {
        // What meets an outage goes on in the background.
        lease.release().catch((error: unknown) => {
          try {
            this.#failures.decide(request, error)
          } catch {
            // Its response is over: nobody can be told but onError.
          }
        })
      }
      if (response.closed || response.destroyed || leaving.signal.aborted) release()
      else response.once('close', release)
      return undefined
    } catch (error) {
      if (error instanceof LimitedError) return full
      if (leaving.signal.aborted && error === leaving.signal.reason) return full // nobody reads it
      return this.#failures.decide(request, error)
    } finally {
      response.off('close', closed)
    }
  }

  async #lease(request: Request, signal: AbortSignal): Promise<Lease | undefined> {
    const { slots, key, name = 'concurrency', timeout, ttl = '30s' } = this.#options
    if (isPreflight(request) || (await this.#skip?.(request))) return undefined
    const own: unknown = await key?.(request)
    if (key && own === undefined) return undefined
    const whose = key ? checkedKey(own) : this.#clients.key(request, name)
    return await this.#limiter.lease(whose, { slots: typeof slots === 'function' ? await slots(request) : slots, ttl, signal,
      ...(timeout !== undefined && { timeout }) })
  }
}
