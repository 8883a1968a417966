// The limiter: the methods that make calls, over any decider.
import { Admission, type AdmitOptions } from './admission.js'
import { type Call, type CallOptions, check, type Entries, type Keys, type Leave, many, type Method, one, type OptionsOf } from './call.js'
import { type Commands, commandsWords } from './clients/doors.js'
import type { Client } from './clients/transport.js'
import { type Decider, isDecider } from './decider.js'
import { type Duration, forever, milliseconds } from './duration.js'
import { Endings, passes } from './endings.js'
import { bare, type BreakerOptions, breakerOptions, Guard, type Logger } from './guard/guard.js'
import type { Inspection, Inspector } from './inspection.js'
import { Lease, type LeaseOptions } from './lease.js'
import type { Limits, Slots } from './limit.js'
import { MistakeError } from './errors.js'
import { oneOf, refuseOthers, timerMs } from './options.js'
import { Remote } from './remote.js'
import type { Allowed, Result } from './result.js'

/** Options of a `Limiter` over a client. */
export interface LimiterOptions {
  /** How long a call may take that is answered at once: `200ms`, if it is left out. */
  readonly timeout?: Duration
  /**
   * How long a call that waits goes on without a sign of life of the server, which is asked meanwhile: `3s`, if it is
   * left out.
   */
  readonly patience?: Duration
  /**
   * When a server is left alone that does not answer, so that calls fail at once: after five failures in a row, if it
   * is left out; false never does. `guard` decides such calls otherwise.
   */
  readonly breaker?: BreakerOptions | false
  /**
   * Which commands are sent. `auto`, the default, sends those of the module where the server has it, and else calls the
   * functions of the library that this package carries, which it loads if need be. Where functions are refused it sends
   * a script. `module` and `functions` fix the choice.
   */
  readonly commands?: Commands
  /**
   * The longest pause between two questions of a call that waits (`wait`, and `lease` with a timeout) where the server
   * has no module, such as `100ms`. Such callers do not stand in line: who asks at the right moment comes first.
   * Without it they are mistakes.
   */
  readonly poll?: Duration
  /**
   * Gets one line when the way changes in which calls are sent, and those of the breaker: the console, if it is left
   * out.
   */
  readonly logger?: Logger
}

export const limiterOptions = ['timeout', 'patience', 'breaker', 'commands', 'poll', 'logger'] as const satisfies (keyof LimiterOptions)[]

const unknownTtl = 600_000

/** The errors of which somebody further in has taken charge. */
const takenOver = new WeakSet()

/**
 * The methods that make calls, over a client of node-redis or ioredis (for one server, a pool, a cluster or Sentinel)
 * or over another decider. Every method throws an `OutageError`, `OverloadError` or `MistakeError` when there is no
 * decision. The client stays yours.
 *
 *     const limiter = new Limiter(client)
 *     const result = await limiter.limit('user:42', rate(5, '1s', { burst: 10 }))
 */
export class Limiter implements Decider, Inspector {
  readonly #next: Decider
  readonly #inspector: Decider & Partial<Inspector>
  /** The decider on the client, for a guard that takes the place of the breaker. */
  readonly [bare]?: Decider
  readonly #endings = new Endings((call) => this.#next.decide(call))

  constructor(client: Client, options?: LimiterOptions)
  constructor(next: Decider)
  constructor(of: Client | Decider, options: LimiterOptions = {}) {
    if (isDecider(of)) {
      refuseOthers('Limiter', options, [])
      this.#next = this.#inspector = of
      return
    }
    refuseOthers('Limiter', options, limiterOptions)
    if (typeof (of as Client | undefined)?.sendCommand !== 'function') throw new TypeError('client must be one of node-redis or ioredis, or a decider')
    const { timeout = '200ms', patience = '3s', breaker = {}, commands = 'auto', poll, logger = console } = options
    const remote = new Remote(of, {
      timeout: timerMs(timeout, 'timeout'), patience: timerMs(patience, 'patience'), commands: oneOf(commands, 'commands', commandsWords),
      poll: poll === undefined ? undefined : timerMs(poll, 'poll'), logger,
    })
    this[bare] = this.#inspector = remote
    if (breaker === false) {
      this.#next = remote
    } else {
      refuseOthers('breaker', breaker, breakerOptions)
      this.#next = new Guard(remote, { logger, ...breaker })
    }
  }

  /** Takes `cost` units of all limits, or none (CL.LIMIT). */
  limit(key: string, limits: Limits, options: OptionsOf<'limit'> = {}): Promise<Result> {
    return this.#decide('limit', options, (rest) => one('limit', key, limits, rest))
  }

  /** Takes `cost` units of the limits of several keys, all of them or nothing (CL.MLIMIT). */
  limitAll(keys: Keys, options: OptionsOf<'limitAll'> = {}): Promise<Result> {
    return this.#decide('limitAll', options, (rest) => many('limit', keys, rest))
  }

  /**
   * Takes `cost` units of the limits of the first key that has room, in the order of the entries (CL.MLIMIT with ANY).
   * If none has, the result is about the key that has room soonest.
   */
  limitAny(keys: Entries<Limits>, options: OptionsOf<'limitAny'> = {}): Promise<Result> {
    return this.#decide('limitAny', options, (rest) => many('limit', keys, { ...rest, any: true }))
  }

  /**
   * Takes units of limits, and slots, of several keys, all of them or nothing (CL.MLIMIT). Throws a `LimitedError` when
   * they are not there. The slots renew themselves until the admission is settled; at the end of an `await using` block
   * it settles itself.
   *
   *     await using admission = await limiter.admit({ '{7}:tokens': rate(100_000, '1m', { take: 1200 }), '{7}:running': slots(4, '5m') })
   *     await admission.settle({ '{7}:tokens': 734 })
   */
  admit(keys: Keys<Limits | Slots>, options: AdmitOptions = {}): Promise<Admission> {
    return Admission.take(this, keys, options, this.#abandon)
  }

  /**
   * Admits, runs work and settles what the work did not. Throws a `LeaseLostError` if the slots were lost before the
   * work was done; `admission.signal` tells the work.
   */
  async withAdmission<T>(keys: Keys<Limits | Slots>, options: AdmitOptions, work: (admission: Admission) => T | Promise<T>): Promise<T> {
    const admission = await this.admit(keys, options)
    let over = false
    try {
      const done = await work(admission)
      over = true
      return done
    } finally {
      if (over) await admission[Symbol.asyncDispose]()
      else await admission.release()
    }
  }

  /** Tells what `limit` would answer, and charges nothing (CL.PEEK). */
  peek(key: string, limits: Limits, options: OptionsOf<'peek'> = {}): Promise<Result> {
    return this.#decide('peek', options, (rest) => one('peek', key, limits, rest))
  }

  /**
   * Returns `cost` units, never above full (CL.REFUND). Resolves with how many units came back: of several limits, to
   * the one that got most.
   */
  async refund(key: string, limits: Limits, options: OptionsOf<'refund'> = {}): Promise<number> {
    return 0 - (await this.#decide('refund', options, (rest) => one('refund', key, limits, rest))).granted
  }

  /**
   * Waits until the units are there, and takes them, in order of arrival (CL.WAIT). Throws a `LimitedError` if that
   * takes longer than `timeout`. `group`, `weight` and `priority` go with windows only.
   */
  async wait(key: string, limits: Limits, options: OptionsOf<'wait'> = {}): Promise<Allowed> {
    const result = await this.#decide('wait', options,
      ({ timeout = forever, ...rest }: CallOptions & { timeout?: Duration | typeof forever }) => one('wait', key, limits, { ...rest, maxWait: timeout }))
    return result.orThrow()
  }

  /**
   * Bans a key: every call on it is limited for so long; `0` lifts the ban (CL.BAN). Resolves with for how many ms it
   * is banned now.
   */
  async ban(key: string, duration: Duration, options: OptionsOf<'ban'> = {}): Promise<number> {
    return (await this.#decide('ban', options, () => ({ verb: 'ban', keys: [{ name: key }], ban: duration }))).lastsMs
  }

  /**
   * Takes one of so many slots (CL.LEASE), and renews it until it is released. Throws a `LimitedError` when none is
   * free.
   *
   *     await using lease = await limiter.lease('reports', { slots: 3, ttl: '1m', timeout: '10s' })
   */
  lease(key: string, options: LeaseOptions): Promise<Lease> {
    return Lease.take(this, key, options, this.#abandon)
  }

  /**
   * Takes a slot, runs work and releases the slot. Throws a `LeaseLostError` if the lease was lost before the work was
   * done; `lease.signal` tells the work.
   */
  async withLease<T>(key: string, options: LeaseOptions, work: (lease: Lease) => T | Promise<T>): Promise<T> {
    const lease = await this.lease(key, options)
    try {
      const done = await work(lease)
      lease.check()
      return done
    } finally {
      await lease.release()
    }
  }

  /** Makes a lease last for `ttl` from now on (CL.RENEW). Resolves with false if it is lost. */
  async renew(key: string, options: OptionsOf<'renew'>): Promise<boolean> {
    return !(await this.#decide('renew', options, (rest) => ({ verb: 'renew', keys: [{ name: key, ttl: options.ttl }],
      ...(rest.id !== undefined && { id: rest.id }) }))).limited
  }

  /**
   * Ends a lease (CL.RELEASE). Resolves with whether there was one. In an outage it throws, and is repeated in the
   * background for ten minutes.
   */
  async release(key: string, options: OptionsOf<'release'>): Promise<boolean> {
    return (await this.#decide('release', options, (rest) => ({ ...rest, verb: 'release', keys: [{ name: key }] }))).granted !== 0
  }

  /**
   * Ends an admission of which only the id is known: frees its slots, and charges or returns the difference between
   * `used` and `take` (CL.SETTLE). Resolves with whether there was one; each admission is settled once, however often
   * you call this. In an outage it throws, and is repeated in the background until the server replies: for the ttl of
   * the slots if you give it, else for ten minutes.
   */
  async settle(keys: Keys<Limits | Slots>, options: OptionsOf<'settle'>): Promise<boolean> {
    return !(await this.#decide('settle', options, (rest) => many('settle', keys, rest))).limited
  }

  /**
   * Deletes a key (DEL): its limits are full again, its bans and leases have ended. Resolves with whether there was
   * one.
   */
  async reset(key: string, options: OptionsOf<'reset'> = {}): Promise<boolean> {
    return (await this.#decide('reset', options, () => ({ verb: 'reset', keys: [{ name: key }] }))).granted !== 0
  }

  /**
   * Tells what a key holds and until when, to somebody who does not know its limits: the first question when a customer
   * calls (CL.INSPECT). It charges nothing and writes nothing. A limiter over another decider than a client or a
   * limiter throws a `MistakeError`.
   *
   *     const { kind, banned, bannedUntil, limits } = await limiter.inspect('user:42')
   */
  async inspect(key: string, options: Leave = {}): Promise<Inspection> {
    refuseOthers('inspect', options, ['signal'])
    if (typeof key !== 'string') throw new TypeError('inspect: the key must be a string')
    if (!this.#inspector.inspect) throw new MistakeError('inspect needs a limiter on a client: what stands in front of one keeps no keys')
    return await this.#inspector.inspect(key, options)
  }

  /** Decides any call. Whatever has no method is a call. */
  async decide(call: Call, options?: Leave): Promise<Result> {
    if (call.verb === 'release' || call.verb === 'settle') return await this.#end(call, options)
    if (this.#endings.size > 0 && call.id !== undefined) await this.#endings.stop(call)
    return await this.#next.decide(call, options)
  }

  /** Ends leases. What they hold would be held for their ttl if an outage kept it from the server. */
  async #end(call: Call, options: Leave | undefined): Promise<Result> {
    try {
      return await this.#next.decide(call, options)
    } catch (error) {
      if (!passes(error) || takenOver.has(error)) throw error
      takenOver.add(error)
      const ttls = call.keys.flatMap(({ ttl }) => (ttl === undefined ? [] : [milliseconds(ttl, 'ttl')]))
      this.#endings.begin(call, ttls.length > 0 ? Math.max(...ttls) : unknownTtl, 1)
      throw error
    }
  }

  readonly #abandon = (call: Call, ms: number): void => {
    this.#endings.begin(call, ms, 2)
  }

  #decide(method: Method, options: object, make: (rest: CallOptions) => Call): Promise<Result> {
    try {
      check(method, options)
      const { signal, ...rest } = options as CallOptions & Leave
      return this.decide(make(rest), signal ? { signal } : undefined)
    } catch (error) {
      return Promise.reject(error)
    }
  }
}
