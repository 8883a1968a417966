// A limiter for tests: without a server, with a clock that the test sets and faults that it makes.
import { type Call, commandOf, type Leave, wordsOf } from '../call.js'
import type { Decider } from '../decider.js'
import { type Duration, forever, nanoseconds, wholeMilliseconds } from '../duration.js'
import { MistakeError, OutageError, OverloadError, ThrottleError } from '../errors.js'
import type { Inspection, Inspector } from '../inspection.js'
import { Limiter } from '../limiter.js'
import { Engine } from '../local/engine.js'
import { makeResult, type Result } from '../result.js'

/** A call that a test limiter was asked to decide. */
export interface Asked {
  /** What was asked. */
  readonly call: Call
  /** The words that a server would have been sent. */
  readonly words: readonly string[]
  /** What time it was for the limiter. */
  readonly at: Date
  /** Whether it has its answer: `result` or `error`. */
  done: boolean
  /** What was decided. */
  result?: Result
  /** What was thrown. */
  error?: unknown
}

/** What can go wrong. A new fault takes the place of the one before. */
export interface Faults {
  /**
   * Fails calls, and nothing is decided. Without an error it is an `OutageError`; 'overload' and 'mistake' are the
   * others.
   */
  fail(error?: Error | 'outage' | 'overload' | 'mistake'): void
  /**
   * Keeps calls waiting until `heal` or the next fault, as a server that stands still does. They are decided then, also
   * those whose caller has left.
   */
  hang(): void
  /** Decides calls and loses the replies: the error is an `OutageError`, and units are charged all the same. */
  loseReplies(): void
}

type Kind = 'none' | 'fail' | 'hang' | 'lose'

interface Fault {
  readonly kind: Kind
  readonly error?: Error | 'outage' | 'overload' | 'mistake' | undefined
  /** How many calls it is for yet. */
  calls: number
}

interface Waiting {
  readonly call: Call
  readonly since: bigint
  readonly until: bigint // when its time is over
  readonly signal: AbortSignal | undefined
  readonly settle: (outcome: { result: Result } | { error: Error }) => void
  at?: bigint // when its turn is, if that is certain
  result?: Result
}

const mostAsked = 10_000
const midnight = BigInt(Date.UTC(2000, 0, 1)) * 1_000_000n
const last = BigInt(Date.UTC(2261, 11, 31)) * 1_000_000n

/** What stands in for the server. */
class Stand implements Decider, Inspector {
  readonly engine = new Engine()
  readonly asked: Asked[] = []
  now = midnight
  fault: Fault = { kind: 'none', calls: Infinity }
  #line: Waiting[] = []
  #hung: (() => void)[] = []

  get blocked(): number {
    return this.#line.length + this.#hung.length
  }

  async decide(call: Call, { signal }: Leave = {}): Promise<Result> {
    const asked: Asked = { call, words: wordsOf(call), at: this.date, done: false }
    this.asked.push(asked)
    if (this.asked.length > mostAsked) this.asked.shift()
    try {
      const result = await this.#answer(call, signal)
      asked.result = result
      return result
    } catch (error) {
      asked.error = error
      throw error
    } finally {
      asked.done = true
    }
  }

  /** Tells what a key holds. It is no call: `asked` has calls alone. */
  async inspect(key: string, { signal }: Leave = {}): Promise<Inspection> {
    signal?.throwIfAborted()
    const fault = this.#next()
    if (fault.kind === 'fail') throw made('CL.INSPECT', fault.error)
    if (fault.kind === 'lose') throw new OutageError('CL.INSPECT: the connection was lost before the reply came')
    if (fault.kind === 'hang') {
      await new Promise<void>((resolve, reject) => {
        this.#hung.push(resolve)
        signal?.addEventListener('abort', () => { reject(signal.reason) })
      })
    }
    return this.engine.inspect(key, this.now, this.#line.filter(({ call, at }) => call.keys[0]?.name === key && at === undefined).length)
  }

  get date(): Date {
    return new Date(Number(this.now / 1_000_000n))
  }

  async #answer(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    signal?.throwIfAborted()
    const fault = this.#next()
    if (fault.kind === 'fail') throw made(commandOf(call), fault.error)
    const result = await (fault.kind === 'hang' ? this.#hang(call, signal) : this.#run(call, signal))
    if (fault.kind === 'lose') throw new OutageError(`${commandOf(call)}: the connection was lost before the reply came`)
    return result
  }

  #next(): Fault {
    const { fault } = this
    if (fault.calls <= 0) return { kind: 'none', calls: Infinity }
    fault.calls--
    return fault
  }

  #hang(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    return new Promise((resolve, reject) => {
      // Also a call whose caller has left: a server finds it in its socket.
      this.#hung.push(() => {
        resolve(this.#run(call, signal?.aborted ? undefined : signal))
      })
      signal?.addEventListener('abort', () => {
        reject(signal.reason)
      })
    })
  }

  #run(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    if (call.maxWait === undefined || (call.verb !== 'wait' && call.verb !== 'lease')) {
      const result = this.engine.decide(call, this.now)
      this.serve()
      return Promise.resolve(result)
    }
    return new Promise<Result>((resolve, reject) => {
      const timeout = call.maxWait === forever ? last : wholeMilliseconds(call.maxWait, 'timeout')
      const waiting: Waiting = {
        call, since: this.now, until: this.now + timeout, signal,
        settle: (outcome) => {
          if ('error' in outcome) reject(outcome.error)
          else resolve(outcome.result)
        },
      }
      signal?.addEventListener('abort', () => {
        if (!this.#line.includes(waiting)) return
        this.#line = this.#line.filter((other) => other !== waiting)
        if (waiting.result) this.engine.decide({ verb: 'refund', keys: call.keys, ...(call.cost !== undefined && { cost: call.cost }) }, this.now)
        waiting.settle({ error: signal.reason as Error })
        this.serve()
      })
      this.#line.push(waiting)
      this.#line.sort((a, b) => (b.call.priority ?? 0) - (a.call.priority ?? 0)) // which keeps the order of equal ones
      this.serve()
    })
  }

  /** Lets in the first in line. Nobody overtakes another caller of the same key. */
  serve(): void {
    const taken = new Set<string>()
    for (const waiting of [...this.#line]) {
      try {
        this.#serve(waiting, taken)
      } catch (error) { // the key has become one of another kind
        this.#line = this.#line.filter((other) => other !== waiting)
        waiting.settle({ error: error as Error })
      }
    }
  }

  #serve(waiting: Waiting, taken: Set<string>): void {
    const { call } = waiting
    const name = call.keys[0]?.name ?? ''
    const rates = call.verb === 'wait' && call.keys[0]?.limits?.every(({ fields }) => fields.kind === 'RATE')
    if (rates && waiting.at === undefined) {
      // Rates reserve their units at once.
      const { verb, priority, group, ...rest } = call
      const result = this.engine.decide({ ...rest, verb: 'limit' }, this.now)
      if (!result.limited) waiting.at = this.now + BigInt(result.waitMs) * 1_000_000n
      else this.#end(waiting, result)
      waiting.result = result
    }
    if (waiting.at !== undefined && waiting.result) {
      if (waiting.at <= this.now) this.#end(waiting, waiting.result)
      return
    }
    if (rates || taken.has(name)) return
    const result = this.engine.decide(call, this.now)
    if (!result.limited || result.retryAfterMs === null || this.now >= waiting.until) this.#end(waiting, result)
    else taken.add(name)
  }

  #end(waiting: Waiting, result: Result): void {
    this.#line = this.#line.filter((other) => other !== waiting)
    waiting.settle({ result: makeResult({ ...result, waitMs: Number((this.now - waiting.since) / 1_000_000n) }) })
  }

  advance(ns: bigint): void {
    const ends = this.now + ns
    // Callers in line have their turns at the instants in between.
    for (;;) {
      const soonest = this.#soonest()
      if (soonest === undefined || soonest >= ends) break
      this.now = soonest > this.now ? soonest : this.now + 1_000_000n
      this.serve()
    }
    this.now = ends
    this.serve()
  }

  #soonest(): bigint | undefined {
    let soonest: bigint | undefined
    for (const { call, at, until } of this.#line) {
      const ms = at === undefined ? this.#retryAfterMs(call) : null
      for (const next of [at, until, ms === null ? undefined : this.now + BigInt(Math.max(ms, 1)) * 1_000_000n]) {
        if (next !== undefined && next > this.now && (soonest === undefined || next < soonest)) soonest = next
      }
    }
    return soonest
  }

  /** When a caller in line may have its turn; null for never. */
  #retryAfterMs(call: Call): number | null {
    const { verb, keys } = call
    try {
      return this.engine.decide(verb === 'lease' ? { ...call, verb: 'lease', keys } : { verb: 'peek', keys,
        ...(call.cost !== undefined && { cost: call.cost }) }, this.now).retryAfterMs
    } catch { // of a caller that is not the first in line
      return null
    }
  }

  heal(): void {
    this.fault = { kind: 'none', calls: Infinity }
    const hung = this.#hung
    this.#hung = []
    for (const go of hung) go()
  }

  set(kind: Kind, calls: number, error?: Fault['error']): void {
    if (this.fault.kind === 'hang' && calls === Infinity) this.heal()
    this.fault = { kind, calls, error }
    if (calls !== Infinity || (kind !== 'fail' && kind !== 'lose')) return
    for (const waiting of this.#line) waiting.settle({ error: made(commandOf(waiting.call), kind === 'fail' ? error : 'outage') })
    this.#line = []
  }
}

function made(command: string, error: Fault['error']): Error {
  if (error instanceof Error) return error instanceof ThrottleError ? error : new MistakeError(`${command}: ${error.message}`, { cause: error })
  if (error === 'overload') return new OverloadError(`${command}: the queue is full`)
  if (error === 'mistake') return new MistakeError(`${command}: ERR unknown command`)
  return new OutageError(`${command}: connect ECONNREFUSED`)
}

/**
 * A `Limiter` for tests, which decides in this process by the rules of the server. Its clock begins at midnight UTC of
 * 2000-01-01 and stands still until `advance` or `setTime`.
 *
 *     const limiter = new FakeLimiter()
 *     app.use(rateLimit({ limiter, limits: rate(2, '1m') }))
 *     limiter.advance('30s')
 *
 * Groups of callers in line do not take turns: those of a priority come in order of arrival. Timers of the tested code,
 * such as those that renew leases, go by the clock of the machine.
 */
export class FakeLimiter extends Limiter implements Faults {
  readonly #stand: Stand

  constructor() {
    const stand = new Stand()
    super(stand)
    this.#stand = stand
  }

  /** What time it is for the limiter. */
  get now(): Date {
    return this.#stand.date
  }

  /** Lets time pass. Callers in line have their turns on the way. */
  advance(duration: Duration): void {
    this.#stand.advance(nanoseconds(duration, 'duration'))
  }

  /** Sets the clock, forward or back, as an operator sets that of a server. */
  setTime(time: Date): void {
    const ms = time.getTime()
    if (!(ms >= 0 && BigInt(ms) * 1_000_000n <= last)) throw new RangeError('time must be from 1970 to 2261')
    this.#stand.now = BigInt(ms) * 1_000_000n
    this.#stand.serve()
  }

  /** What the limiter was asked, in order: the last 10,000 calls. */
  get asked(): readonly Asked[] {
    return this.#stand.asked
  }

  /** How many calls have no answer yet: their callers wait in line, or the server hangs. */
  get blocked(): number {
    return this.#stand.blocked
  }

  fail(error?: Error | 'outage' | 'overload' | 'mistake'): void {
    this.#stand.set('fail', Infinity, error)
  }

  hang(): void {
    this.#stand.set('hang', Infinity)
  }

  loseReplies(): void {
    this.#stand.set('lose', Infinity)
  }

  /** Ends every fault. */
  heal(): void {
    this.#stand.heal()
  }

  /** The faults of the next `calls` calls alone. */
  next(calls: number): Faults {
    return {
      fail: (error) => { this.#stand.set('fail', calls, error) },
      hang: () => { this.#stand.set('hang', calls) },
      loseReplies: () => { this.#stand.set('lose', calls) },
    }
  }
}
