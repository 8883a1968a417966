// Takes units from the server by the batch, for keys with thousands of calls a second.
import { type Call, type Key, type Leave, wordsOf } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import type { Duration } from '../duration.js'
import type { Limit } from '../limit.js'
import { refuseOthers, timerMs, wholeNumber } from '../options.js'
import { makeResult, type Result } from '../result.js'
import { Denials } from './cached.js'
import { Reports } from './reports.js'

/** Options of `batched`. */
export interface BatchedOptions {
  /** How many units of a key are held at most: 100, if it is left out. */
  readonly units?: number
  /** How long a unit is held at most: `100ms`, if it is left out. */
  readonly maxAge?: Duration
  /**
   * How many processes take batches at the same time at most, each with one `batched` of these `units`; count a new
   * process beside the old one while it takes over. If it is left out, an interval may let `units` more through for
   * each process; with it the limits hold as they are: see `batched`.
   */
  readonly processes?: number
  /** How many keys have units at a time: 10,000, if it is left out. Calls on others go to the server, one by one. */
  readonly keys?: number
  /** How long a denial is remembered at most: `10s`, if it is left out. See `cached`. */
  readonly denialAge?: Duration
  /** Is called when units could not be given back. They stay charged. If it is left out, nobody is told. */
  readonly onError?: (error: unknown) => void
}

const known = ['units', 'maxAge', 'processes', 'keys', 'denialAge', 'onError'] as const satisfies (keyof BatchedOptions)[]
const giveBackMs = 1000 // bounds what does not matter to anybody who waits
const reportedMs = 1 // how far a time in a result is rounded up

/** Options of a call that is batched: the others go to the decider behind. */
const plain = new Set(['verb', 'keys', 'cost', 'several'])
const asks = new Set<Call['verb']>(['limit', 'peek', 'wait'])

/** A call that waits for a batch. */
interface Waiter {
  readonly came: number
  readonly units: number
  done: boolean // it has its answer, or nobody waits for it
  /** Answers it; undefined has it ask the decider behind. */
  answer(result: Result | undefined): void
  fail(error: unknown): void
}

/** The units of one key and its limits. */
class Pot {
  units = 0 // to hand out
  until = -Infinity // when they end
  counted = -Infinity // until when the server counts them
  used = 0 // handed out since the last batch came
  giving = 0 // being given back
  batch = makeResult() // what the last batch came with
  came = 0
  timer: NodeJS.Timeout | undefined
  size = 1 // of the next batch
  direct = -Infinity // until when the pot is passed by
  waiters: Waiter[] = [] // in order of arrival
  working = false

  constructor(
    readonly id: string,
    readonly key: Key,
    readonly asked: Key, // the same, with more to spare
  ) {}

  get fixed(): boolean {
    return this.key.limits?.length === 1 && this.key.limits[0]?.fields.kind === 'FIXED'
  }

  /** Hands out units that are there. */
  handOut(units: number, now: number, by: 'batch' | 'server' = 'batch'): Result {
    this.units -= units
    this.used += units
    const { batch } = this
    const passed = Math.max(now - this.came, 0)
    const resetAfterMs = Math.max(Math.ceil(batch.resetAfterMs - passed), 0)
    return makeResult({
      ...batch,
      resetAfterMs,
      nextAfterMs: Math.max(Math.ceil(batch.nextAfterMs - passed), Math.min(reportedMs, resetAfterMs)),
      remaining: Math.min(batch.remaining + this.units, batch.limit),
      granted: units,
      by,
    })
  }

  /** Drops the waiters that have their answers. */
  tidy(): void {
    this.waiters = this.waiters.filter(({ done }) => !done)
  }

  failAll(error: unknown): void {
    for (const waiter of this.waiters) waiter.fail(error)
    this.tidy()
  }

  /**
   * Hands out units in order of arrival, to the one they were fetched for first. A caller that waited for the reply
   * gets them even if they have ended meanwhile: so would a caller that had asked by itself. One that came after their
   * end does not.
   */
  serve(first: Waiter, now: number): void {
    for (const waiter of this.waiters) {
      if (waiter.done || this.units < waiter.units || (waiter !== first && waiter.came >= this.until)) continue
      waiter.answer(this.handOut(waiter.units, now, waiter === first ? 'server' : 'batch'))
    }
    this.tidy()
  }
}

/**
 * A decider that takes batches of units from the next one, made by `batched`.
 *
 *     await using batches = batched(new Limiter(client), { processes: 4 })
 */
export class Batched implements Decider, AsyncDisposable {
  readonly #next: Decider
  readonly #units: number
  readonly #maxAgeMs: number
  readonly #processes: number
  readonly #keys: number
  readonly #denials: Denials
  readonly #reports: Reports
  readonly #onError: ((error: unknown) => void) | undefined
  readonly #pots = new Map<string, Pot>()
  readonly #busy = new Set<Promise<unknown>>() // workers and refunds under way
  #given: (() => void)[] = [] // who waits for a refund to end
  #closed = false

  constructor(next: Decider, options: BatchedOptions = {}) {
    refuseOthers('batched', options, known)
    this.#next = asDecider(next, 'next')
    this.#units = wholeNumber(options.units ?? 100, 'units', 1)
    this.#maxAgeMs = timerMs(options.maxAge ?? '100ms', 'maxAge')
    this.#processes = wholeNumber(options.processes ?? 0, 'processes', 0)
    wholeNumber(this.#units * this.#processes, 'units x processes', 0)
    this.#keys = wholeNumber(options.keys ?? 10_000, 'keys', 1)
    this.#reports = new Reports(this.#next)
    this.#denials = new Denials(this.#keys, timerMs(options.denialAge ?? '10s', 'denialAge'))
    if (options.onError !== undefined && typeof options.onError !== 'function') throw new TypeError(`onError must be a function, not a ${typeof options.onError}`)
    this.#onError = options.onError
  }

  async decide(call: Call, options: Leave = {}): Promise<Result> {
    const { signal } = options
    signal?.throwIfAborted()
    if (!this.#batches(call)) return await this.#direct(call, options)
    const result = await this.#try(call, signal)
    if (result?.limited && result.by === 'cache') this.#reports.count(result.key)
    return result ?? (await this.#direct(call, options))
  }

  /** Forgets the denials of all calls on a key, such as after a refund in another process. Units of the key stay. */
  forget(key: string): void {
    this.#denials.forget(key)
  }

  /** Gives back what is left, and returns when that is done. Later calls go to the decider behind. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#idle() // workers: what they fetch is given back as well
    const now = performance.now()
    for (const pot of this.#pots.values()) {
      clearTimeout(pot.timer)
      this.#end(pot, now)
    }
    await this.#idle()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #idle(): Promise<void> {
    while (this.#busy.size > 0) await Promise.all(this.#busy)
  }

  #run(act: () => Promise<void>): void {
    const running = act().finally(() => this.#busy.delete(running))
    this.#busy.add(running)
  }

  /** Tells whether units of a batch serve for a call. */
  #batches(call: Call): boolean {
    const { verb, keys, cost = 1 } = call
    const [key] = keys
    if (verb !== 'limit' || keys.length !== 1 || call.several || !key?.limits?.length || !Number.isInteger(cost) || cost < 1 || cost > this.#units) return false
    for (const [option, value] of Object.entries(call)) if (value !== undefined && value !== false && !plain.has(option)) return false
    return key.slots === undefined && !key.leased && key.limits.every(({ fields: { take, used, shadow }, capacity }) => take === undefined
      && used === undefined && !shadow && capacity >= 1)
  }

  /** Returns limits as they are asked, so that they hold with all that the processes hold. */
  #spared(limits: readonly Limit[]): readonly Limit[] {
    const reserve = this.#units * this.#processes
    if (reserve === 0 || (limits.length === 1 && limits[0]?.fields.kind === 'FIXED')) return limits
    return limits.map((limit) => {
      const { kind, spare = 0 } = limit.fields
      const room = limit.capacity - spare
      if (limit.capacity < 1) return limit // the decider behind says so
      if (room <= reserve) throw new RangeError(`batched: ${String(limit)}: units x processes, ${reserve}, leave nothing of the limit`)
      if (kind !== 'RATE' && reserve > room / 2) {
        const units = Math.max(Math.floor(room / 2 / this.#processes), 1)
        throw new RangeError(`batched: ${String(limit)}: units x processes, ${reserve}, leave only ${room - reserve} of ${room} units; take at most half, such as units of ${units}`)
      }
      return limit.with({ spare: spare + reserve })
    })
  }

  /** Hands a call on that is not batched. */
  async #direct(call: Call, options: Leave): Promise<Result> {
    const { verb } = call
    if (this.#processes > 0 && asks.has(verb)) {
      const keys = call.keys.map((key) => (key.limits ? { ...key, limits: this.#spared(key.limits) } : key))
      return await this.#next.decide({ ...call, keys }, options)
    }
    try {
      return await this.#next.decide(call, options)
    } finally {
      if (!asks.has(verb) && verb !== 'denied') for (const { name } of call.keys) this.forget(name)
    }
  }

  /** Answers a call; undefined has it ask the decider behind. */
  async #try(call: Call, signal: AbortSignal | undefined): Promise<Result | undefined> {
    const key = call.keys[0] as Key
    const id = wordsOf({ verb: 'limit', keys: call.keys }).join('\0')
    const units = call.cost ?? 1
    const now = performance.now()
    let pot = this.#pots.get(id)
    if (!pot) {
      const denied = this.#denials.recall(needOf(id, units))
      if (denied) return denied
      if (this.#closed || this.#pots.size >= this.#keys) return undefined
      pot = new Pot(id, key, { name: key.name, limits: this.#spared(key.limits ?? []) })
      this.#pots.set(id, pot)
    }
    if (this.#closed || now < pot.direct) return undefined
    this.#endOld(pot, now)
    if (pot.units >= units) return pot.handOut(units, now)
    return this.#denials.recall(needOf(id, units - pot.units)) ?? (await this.#wait(pot, units, now, signal))
  }

  #wait(pot: Pot, units: number, came: number, signal: AbortSignal | undefined): Promise<Result | undefined> {
    return new Promise((resolve, reject) => {
      const done = () => {
        waiter.done = true
        signal?.removeEventListener('abort', aborted)
      }
      const waiter: Waiter = {
        came, units, done: false,
        answer: (result) => {
          done()
          resolve(result)
        },
        fail: (error) => {
          done()
          reject(error)
        },
      }
      const aborted = () => {
        waiter.fail(signal?.reason)
      }
      signal?.addEventListener('abort', aborted)
      pot.waiters.push(waiter)
      if (pot.working) return
      pot.working = true
      this.#run(() => this.#work(pot))
    })
  }

  /** Fetches batches until nobody waits. */
  async #work(pot: Pot): Promise<void> {
    for (;;) {
      await Promise.resolve() // callers of the same moment share a batch
      pot.tidy()
      const [first] = pot.waiters
      if (!first) break
      try {
        await this.#fetch(pot, first)
      } catch (error) {
        pot.failAll(error)
      }
    }
    pot.working = false
    this.#forgetPot(pot)
  }

  /**
   * Asks the server once or twice, and answers the first waiter, unless its units were handed out to others meanwhile.
   */
  async #fetch(pot: Pot, first: Waiter): Promise<void> {
    this.#endOld(pot, performance.now())
    const wanted = pot.waiters.reduce((sum, { units }) => sum + units, 0)
    let need = first.units - pot.units
    const n = Math.min(Math.max(pot.size, wanted - pot.units), this.#units - pot.units - pot.giving)
    if (n >= need) {
      await this.#ask(pot, first, n, need, true)
      if (first.done) return
    }
    // It costs more than there is. When it can be had only the server knows.
    need = first.units - pot.units
    if (need < 1) {
      pot.serve(first, performance.now())
    } else if (pot.units + need + pot.giving > this.#units) {
      await new Promise<void>((resolve) => this.#given.push(resolve)) // what is being given back counts as held
    } else {
      await this.#ask(pot, first, need, need, false)
    }
  }

  async #ask(pot: Pot, first: Waiter, units: number, need: number, upTo: boolean): Promise<void> {
    const asked = performance.now()
    const call: Call = { verb: 'limit', keys: [pot.asked], cost: units, ...(upTo && { charge: 'up_to' as const }) }
    const denies = !upTo || need === 1
    const result = await this.#denials.ask(() => (denies ? needOf(pot.id, need) : undefined), call, () => this.#next.decide(call))
    const now = performance.now()
    if (result.by !== 'server') {
      this.#passBy(pot, first, result, now)
    } else if (!result.limited) {
      this.#add(pot, result, asked, now)
      pot.serve(first, now)
    } else if (denies) {
      this.#deny(pot, first, result, asked)
    }
  }

  /**
   * Answers the first waiter, which was limited, and all calls that ask for as much and came before there were units
   * again.
   */
  #deny(pot: Pot, first: Waiter, result: Result, asked: number): void {
    const ends = result.retryAfterMs ? asked + result.retryAfterMs : Infinity
    for (const waiter of pot.waiters) {
      if (waiter === first) waiter.answer(result)
      else if (waiter.units === first.units && waiter.came < ends) waiter.answer(makeResult({ ...result, by: 'cache' }))
    }
    pot.tidy()
  }

  /**
   * Answers the first waiter with what was decided without the server, and sends everyone else to the decider behind
   * for `maxAge`: units that the server does not know of are not kept.
   */
  #passBy(pot: Pot, first: Waiter, result: Result, now: number): void {
    pot.direct = now + this.#maxAgeMs
    pot.size = 1
    this.#schedule(pot, this.#maxAgeMs)
    for (const waiter of pot.waiters) {
      const tooFew = !result.limited && result.by === 'local' && result.granted < waiter.units
      waiter.answer(waiter !== first || tooFew ? undefined : makeResult({ ...result, granted: Math.min(result.granted, waiter.units) }))
    }
    pot.tidy()
  }

  /** Puts a batch into the pot. */
  #add(pot: Pot, batch: Result, asked: number, now: number): void {
    this.#endOld(pot, now)
    const counted = asked + batch.resetAfterMs - reportedMs
    const ends = pot.fixed ? Math.min(asked + this.#maxAgeMs, counted) : asked + this.#maxAgeMs
    if (pot.units === 0 || ends < pot.until) pot.until = ends
    if (pot.units === 0 || counted < pot.counted) pot.counted = counted
    pot.size = Math.min(2 * pot.size, this.#units)
    pot.units += batch.granted
    pot.used = 0
    pot.batch = batch
    pot.came = now
    this.#schedule(pot, pot.until - now)
  }

  /** Has the units of the pot, and the pot when it is idle, end after some ms. */
  #schedule(pot: Pot, ms: number): void {
    clearTimeout(pot.timer)
    pot.timer = setTimeout(() => {
      const now = performance.now()
      if (now < pot.until) {
        this.#schedule(pot, pot.until - now)
        return
      }
      this.#end(pot, now)
      this.#forgetPot(pot)
    }, Math.max(Math.ceil(ms), 0)).unref()
  }

  /** Ends units that are too old to be handed out. */
  #endOld(pot: Pot, now: number): void {
    if (now >= pot.until) this.#end(pot, now)
  }

  /** Takes the units out of the pot, and gives them back where the server still counts them. */
  #end(pot: Pot, now: number): void {
    const { units } = pot
    if (units === 0) return
    pot.units = 0
    pot.size = Math.max(pot.used, 1)
    const left = Math.min(pot.counted - now, giveBackMs)
    if (left <= 0) return
    pot.giving += units
    this.#run(async () => {
      try {
        await this.#next.decide({ verb: 'refund', keys: [pot.key], cost: units }, { signal: AbortSignal.timeout(Math.ceil(left)) })
      } catch (error) {
        this.#onError?.(error)
      }
      pot.giving -= units
      const given = this.#given
      this.#given = []
      for (const go of given) go()
      this.#forgetPot(pot)
    })
  }

  /** Drops a pot that nobody needs. */
  #forgetPot(pot: Pot): void {
    const now = performance.now()
    if (pot.units === 0 && pot.giving === 0 && !pot.working && now >= pot.until && now >= pot.direct && this.#pots.get(pot.id) === pot) {
      clearTimeout(pot.timer)
      this.#pots.delete(pot.id)
    }
  }
}

/** Tells apart denials of different numbers of units. */
const needOf = (id: string, units: number) => `${id}\0${units}`

/**
 * Returns a decider that takes batches of units from the server and hands them out in the process. Use it for keys with
 * thousands of calls a second. Callers that come at the same time share one call to the server.
 *
 *     await using batches = batched(new Limiter(client), { processes: 4 })
 *     const limiter = new Limiter(batches)
 *
 * A unit is charged on the server before it is handed out, and handed out once, up to `maxAge` after it was charged. So
 * all processes together never hand out more than the server let through. In any interval they hand out at most what
 * the limits let through in one that is longer by `maxAge`, and at most `units` for each process more than the limits
 * let through in it.
 *
 * With `processes` the bound is the limit itself: every call has `units` x `processes` added to the `spare` of its
 * limits. All calls on the key have to go through a `batched` like this one, in each process with the same limits. Less
 * can be had at once then: a rate with a burst of 1000, 100 units and 4 processes lets bursts of 600 through. A
 * `window`, and a `fixed` beside other limits, of which less than half would be left is a `RangeError`. A server that
 * stands still for so long that a refund is given up, and executes it later all the same, lets the units of the refund
 * through in addition. A `fixed` that is the only limit needs none of this: its units end with their window.
 *
 * It withholds `units` for each process and key at most, for `maxAge` at most: another process may be limited although
 * there are units left here. The first batch of a key is one unit; batches double while they are used up, and shrink
 * when they are not. Units that are left after `maxAge` are returned, and `close` returns the rest. A process that
 * crashes leaves its units charged.
 *
 * Not batched are all verbs but `limit`, calls on several keys, calls that cost 0 or more than `units`, with options
 * beside `cost`, and with limits that have `take` or `shadow`. Nor is a key for `maxAge` after it was decided without
 * the server. Denials are remembered as by `cached`. The `by` of a result from a batch is `batch`. A batch is fetched
 * to the end when the caller that needed it leaves: others may wait for it.
 */
export function batched(next: Decider, options: BatchedOptions = {}): Batched {
  return new Batched(next, options)
}
