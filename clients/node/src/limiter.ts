// The limiter: the acts, as calls over a client.
import { type Act, type Call, type CallOptions, check, commandOf, type Keys, many, one, resultOf, type takes, waits, wordsOf } from './call'
import { type Duration, forever, milliseconds } from './duration'
import { OutageError, OverloadError, translate } from './errors'
import { ioRedis, isIoRedis } from './ioredis'
import { Lease, type LeaseOptions } from './lease'
import { type Limits, text } from './limit'
import { nodeRedis } from './noderedis'
import type { Result } from './result'
import { type Client, type Transport, wait, within } from './transport'

export interface LimiterOptions {
  /** How long a call may take that is answered at once: `1s`, if it is left out. */
  timeout?: Duration
  /** How long a call that waits goes on without a sign of life of the server, which is asked meanwhile: `3s`, if it is left out. */
  patience?: Duration
}

interface Leave {
  /** Ends the call. One that was sent before may be decided all the same; a caller that waits leaves the line, and units that it is granted meanwhile are returned. */
  signal?: AbortSignal
}

/** What the table says that an act takes. */
type Of<A extends Act> = Pick<CallOptions, (typeof takes)[A][number] & keyof CallOptions> & Leave

export type PeekOptions = Of<'peek'>
export type LimitCallOptions = Of<'limit'>
export type KeysOptions = Of<'mlimit'>
export type WaitOptions = Of<'wait'> & {
  /** The result is limited if it would take longer: `forever`, if it is left out. */
  timeout?: Duration
}

const known = new Set(['timeout', 'patience'])

/**
 * Sends calls to Redis or Valkey with the module, over a client of node-redis or ioredis: for one server, a pool, a cluster or
 * Sentinel. Every method throws an `OutageError`, `OverloadError` or `MistakeError` when there is no decision. The client stays yours.
 */
export class Limiter {
  readonly #transport: Transport
  readonly #timeout: number
  readonly #patience: number
  readonly #endings = new Map<string, Ending>()

  constructor(client: Client, options: LimiterOptions = {}) {
    for (const option of Object.keys(options)) if (!known.has(option)) throw new TypeError(`Limiter: there is no option ${option}; it takes timeout and patience`)
    if (typeof (client as Client | undefined)?.sendCommand !== 'function') throw new TypeError('client must be one of node-redis or ioredis')
    this.#transport = isIoRedis(client) ? ioRedis(client) : nodeRedis(client)
    this.#timeout = positive(options.timeout ?? '1s', 'timeout')
    this.#patience = positive(options.patience ?? '3s', 'patience')
  }

  /** Takes `cost` units of all limits, or none (CL.LIMIT). */
  limit(key: string, limits: Limits, options: LimitCallOptions = {}): Promise<Result> {
    return this.#act('limit', options, (rest) => one('limit', key, limits, rest))
  }

  /**
   * Takes units of the limits of several keys, and slots, all of them or nothing (CL.MLIMIT). With `any` one key is enough.
   * With `slots` it takes a lease for `id`; the same id again renews it and is charged nothing. `settle` ends it.
   */
  mlimit(keys: Keys, options: KeysOptions = {}): Promise<Result> {
    return this.#act('mlimit', options, (rest) => many('limit', keys, rest))
  }

  /**
   * Ends an admission of `mlimit`: frees its slots, and charges or returns the difference between `used` and `take` (CL.SETTLE).
   * Each admission is settled once, however often you call this. `limited` says that there was nothing to settle. In an outage
   * it throws, and is repeated in the background until the server replies: for the ttl of the slots if you give it, else for ten minutes.
   */
  settle(keys: Keys, options: { id: string; each?: boolean } & Leave): Promise<Result> {
    return this.#act('settle', options, (rest) => many('settle', keys, rest))
  }

  /** Tells what `limit` would answer, and charges nothing (CL.PEEK). */
  peek(key: string, limits: Limits, options: PeekOptions = {}): Promise<Result> {
    return this.#act('peek', options, (rest) => one('peek', key, limits, rest))
  }

  /** Returns units, never above full (CL.REFUND). `granted` is negative then. */
  refund(key: string, limits: Limits, options: PeekOptions = {}): Promise<Result> {
    return this.#act('refund', options, (rest) => one('refund', key, limits, rest))
  }

  /** Waits until the units are there, and takes them, in order of arrival (CL.WAIT). `group` and `priority` go with windows only. */
  wait(key: string, limits: Limits, options: WaitOptions = {}): Promise<Result> {
    return this.#act('wait', options, ({ timeout = forever, ...rest }: CallOptions & { timeout?: Duration }) => one('wait', key, limits, { ...rest, maxWait: timeout }))
  }

  /** Bans a key: every call on it is limited for so long; `0` lifts the ban (CL.BAN). Returns for how many ms it is banned now. */
  async ban(key: string, duration: Duration, options: Leave = {}): Promise<number> {
    return (await this.#act('ban', options, () => ({ verb: 'ban', keys: [{ name: key }], ban: duration }))).lastsMs
  }

  /**
   * Takes one of so many slots (CL.LEASE), and renews it until it is released; throws a `LimitedError` when none is free.
   *
   *     await using lease = await limiter.lease('reports', { slots: 3, ttl: '1m', timeout: '10s' })
   */
  lease(key: string, options: LeaseOptions): Promise<Lease> {
    return Lease.take(this, key, options, (call, ms) => {
      this.#goOn(call, ms, 2)
    })
  }

  /** Takes a slot, runs work and releases the slot. Throws a `LeaseLostError` if the lease was lost before the work was done; `lease.signal` tells the work. */
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

  /** Makes a lease last for `ttl` from now on (CL.RENEW). It is lost if the result is limited. */
  renew(key: string, options: { id: string; ttl: Duration } & Leave): Promise<Result> {
    return this.#act('renew', options, (rest) => ({ verb: 'renew', keys: [{ name: key, ttl: options.ttl }], ...(rest.id !== undefined && { id: rest.id }) }))
  }

  /** Ends a lease (CL.RELEASE), and returns whether there was one. In an outage it throws, and is repeated in the background for ten minutes. */
  async release(key: string, options: { id: string } & Leave): Promise<boolean> {
    return (await this.#act('release', options, (rest) => ({ ...rest, verb: 'release', keys: [{ name: key }] }))).granted !== 0
  }

  /** Deletes a key (DEL): its limits are full again, its bans and leases have ended. Returns whether there was one. */
  async reset(key: string, options: Leave = {}): Promise<boolean> {
    check('reset', options)
    const { signal } = options
    const words = ['DEL', this.#transport.prefix + text('key', key)]
    try {
      return Number(await this.#send(words, key, signal)) > 0
    } catch (error) {
      if (signal?.aborted && error === signal.reason) throw error
      throw translate('DEL', error)
    }
  }

  /** Sends a call. */
  async decide(call: Call, options: Leave = {}): Promise<Result> {
    if (call.verb === 'release' || call.verb === 'settle') return await this.#end(call, options.signal)
    if (this.#endings.size > 0 && call.id !== undefined) await this.#stop(call)
    if (!waits(call)) return this.#decide(call, options.signal)
    if (call.verb === 'lease') {
      // Most often a slot is free, and no connection of its own is needed. Nobody is overtaken.
      wordsOf(call) // what is wrong with the wait is told in any case
      const atOnce: Call = { verb: call.verb, keys: call.keys, id: call.id ?? '' }
      const result = await this.#decide(atOnce, options.signal)
      if (!result.limited) return result
    }
    const words = wordsOf(call, this.#transport.prefix)
    const late = (reply: unknown) => {
      this.#giveBack(call, reply)
    }
    return await this.#read(call, wait(this.#transport, words, call.keys[0]?.name ?? '', this.#patience, options.signal, late), options.signal)
  }

  /** Ends leases. What they hold would be held for their ttl if an outage kept it from the server. */
  async #end(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    try {
      return await this.#decide(call, signal)
    } catch (error) {
      const ttls = call.keys.flatMap(({ ttl }) => (ttl === undefined ? [] : [milliseconds(ttl, 'ttl')]))
      if (passes(error)) this.#goOn(call, ttls.length > 0 ? Math.max(...ttls) : unknownTtl, 1)
      throw error
    }
  }

  /** Repeats a call that ends leases in the background, until one was ended, so many replies say that there is none, or time is up. */
  #goOn(call: Call, ms: number, nones: number): void {
    const names = namesOf(call)
    if (this.#endings.size + names.length > mostEndings) return // what they hold is free after its ttl
    const ending: Ending = { stopped: false, attempt: undefined }
    for (const name of names) this.#endings.set(name, ending)
    const ends = performance.now() + ms
    const run = async () => {
      let left = nones
      for (let pause = firstPause; left > 0; pause = Math.min(pause * 2, longestPause)) {
        await sleep(Math.min(pause, Math.max(ends - performance.now(), 0)))
        if (ending.stopped || performance.now() >= ends) return
        try {
          ending.attempt = this.#decide(call, undefined)
          const { limited, granted } = await ending.attempt
          left = (call.verb === 'settle' ? !limited : granted !== 0) ? 0 : left - 1
        } catch (error) {
          if (!passes(error)) return
        }
      }
    }
    void run().finally(() => {
      for (const name of names) if (this.#endings.get(name) === ending) this.#endings.delete(name)
    })
  }

  /** Stops what would end the lease that a call takes or renews. */
  async #stop(call: Call): Promise<void> {
    for (const name of namesOf(call)) {
      const ending = this.#endings.get(name)
      if (!ending) continue
      ending.stopped = true
      await ending.attempt?.catch(() => {})
    }
  }

  // Returns the units of a reply that came after its caller had left. A lease is released by Lease.
  #giveBack(call: Call, reply: unknown): void {
    if (call.verb !== 'wait') return
    const { limited, granted } = resultOf(call, reply)
    if (limited || granted <= 0) return
    const refund: Call = { verb: 'refund', keys: call.keys, ...(call.cost !== undefined && { cost: call.cost }) }
    this.#decide(refund, undefined).catch(() => {}) // in an outage they are lost, as those of any reply are
  }

  async #act(act: Act, options: object, make: (rest: CallOptions) => Call): Promise<Result> {
    check(act, options)
    const { signal, ...rest } = options as CallOptions & Leave
    return await this.decide(make(rest), signal ? { signal } : undefined)
  }

  #decide(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    const words = wordsOf(call, this.#transport.prefix)
    return this.#read(call, this.#send(words, call.keys[0]?.name ?? '', signal), signal)
  }

  #send(words: string[], key: string, signal: AbortSignal | undefined): Promise<unknown> {
    return within(this.#timeout, signal, (left) => this.#transport.send(words, key, left))
  }

  async #read(call: Call, attempt: Promise<unknown>, signal: AbortSignal | undefined): Promise<Result> {
    try {
      return resultOf(call, await attempt)
    } catch (error) {
      if (signal?.aborted && error === signal.reason) throw error
      throw translate(commandOf(call), error)
    }
  }
}

/** A call that goes on in the background. */
interface Ending {
  stopped: boolean
  attempt: Promise<Result> | undefined
}

const mostEndings = 1000
const firstPause = 50
const longestPause = 5000
const unknownTtl = 600_000

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms).unref())

const passes = (error: unknown) => error instanceof OutageError || error instanceof OverloadError

/** Returns what the leases of a call are called: an id is that of a lease of one key. */
function namesOf(call: Call): string[] {
  return call.keys.map(({ name }) => `${name}\0${call.id ?? ''}`)
}

function positive(value: Duration, what: string): number {
  const ms = milliseconds(value, what)
  if (ms < 1 || ms > 2 ** 31 - 1) throw new RangeError(`${what}: '${value}' must be from 1ms to 24d`)
  return ms
}
