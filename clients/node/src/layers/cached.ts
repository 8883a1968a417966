// Remembers denials, so that a caller that keeps asking while it is limited costs the server nothing.
import { type Call, type Leave, wordsOf } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import type { Duration } from '../duration.js'
import { refuseOthers, timerMs, wholeNumber } from '../options.js'
import { type Denied, makeResult, type Result } from '../result.js'
import { Reports } from './reports.js'

/** Options of `cached`. */
export interface CachedOptions {
  /**
   * How many denials are remembered: 10,000, if it is left out. When there are more, those used least recently are
   * forgotten.
   */
  readonly denials?: number
  /**
   * How long a denial is remembered at most: `10s`, if it is left out. After that long, units that another process
   * returned, and a ban that it lifted, are noticed.
   */
  readonly maxAge?: Duration
}

const known = ['denials', 'maxAge'] as const satisfies (keyof CachedOptions)[]

interface Denial {
  readonly result: Denied
  readonly asked: number
  readonly ends: number
  readonly keys: readonly string[]
}

/** A call that is under way, whose denial is not to be remembered if one of its keys is forgotten meanwhile. */
interface Asking {
  readonly keys: ReadonlySet<string>
  forgotten: boolean
}

/** The denials of calls, by what makes two calls the same. */
export class Denials {
  readonly #most: number
  readonly #maxAgeMs: number
  readonly #denials = new Map<string, Denial>()
  readonly #byKey = new Map<string, Set<string>>()
  readonly #asking = new Set<Asking>()

  constructor(most: number, maxAgeMs: number) {
    this.#most = most
    this.#maxAgeMs = maxAgeMs
  }

  get empty(): boolean {
    return this.#denials.size === 0
  }

  /** Returns a denial that holds yet, with its times counted down. */
  recall(id: string): Result | undefined {
    const denial = this.#denials.get(id)
    if (!denial) return undefined
    const now = performance.now()
    if (now >= denial.ends) {
      this.#drop(id, denial)
      return undefined
    }
    this.#denials.delete(id) // so that the least recently used are first
    this.#denials.set(id, denial)
    const passed = now - denial.asked
    const counted = (result: Result): Result => makeResult({
      ...result,
      each: result.each.map(counted),
      retryAfterMs: result.retryAfterMs === null ? null : later(result.retryAfterMs, passed),
      resetAfterMs: later(result.resetAfterMs, passed),
      nextAfterMs: later(result.nextAfterMs, passed),
      granted: 0,
      by: 'cache',
    })
    return counted(denial.result)
  }

  /** Asks, and remembers a denial by the server, unless it has no id. */
  async ask(id: () => string | undefined, call: Call, ask: () => Promise<Result>): Promise<Result> {
    const keys = call.keys.map(({ name }) => name)
    const asking: Asking = { keys: new Set(keys), forgotten: false }
    this.#asking.add(asking)
    const asked = performance.now()
    try {
      const result = await ask()
      const name = result.limited && !asking.forgotten ? id() : undefined
      if (result.limited && name !== undefined) this.remember(name, result, asked, keys)
      return result
    } finally {
      this.#asking.delete(asking)
    }
  }

  remember(id: string, result: Denied, asked: number, keys: readonly string[]): void {
    if (result.by !== 'server' || result.retryAfterMs === null || result.retryAfterMs <= 0) return
    const denial: Denial = { result, asked, ends: asked + Math.min(result.retryAfterMs, this.#maxAgeMs), keys }
    this.#denials.delete(id)
    this.#denials.set(id, denial)
    for (const key of keys) {
      const ids = this.#byKey.get(key) ?? new Set()
      this.#byKey.set(key, ids.add(id))
    }
    for (const [oldest, there] of this.#denials) {
      if (this.#denials.size <= this.#most) break
      this.#drop(oldest, there)
    }
  }

  /** Forgets the denials of all calls on a key. */
  forget(key: string): void {
    for (const asking of this.#asking) if (asking.keys.has(key)) asking.forgotten = true
    for (const id of this.#byKey.get(key) ?? []) {
      const denial = this.#denials.get(id)
      if (denial) this.#drop(id, denial)
    }
  }

  #drop(id: string, { keys }: Denial): void {
    this.#denials.delete(id)
    for (const key of keys) {
      const ids = this.#byKey.get(key)
      ids?.delete(id)
      if (ids?.size === 0) this.#byKey.delete(key)
    }
  }
}

const later = (ms: number, passed: number) => Math.max(Math.ceil(ms - passed), 0)

/** What makes two calls the same: their words. */
export function identityOf(call: Call): string {
  return wordsOf(call).join('\0')
}

const givesBack = new Set<Call['verb']>(['refund', 'ban', 'settle', 'reset'])

/**
 * A decider that remembers the denials of the next one, made by `cached`.
 *
 *     const denials = cached(new Limiter(client))
 *     denials.forget('user:42')
 */
export class Cached implements Decider {
  readonly #next: Decider
  readonly #denials: Denials
  readonly #reports: Reports

  constructor(next: Decider, options: CachedOptions = {}) {
    refuseOthers('cached', options, known)
    this.#next = asDecider(next, 'next')
    this.#reports = new Reports(this.#next)
    this.#denials = new Denials(wholeNumber(options.denials ?? 10_000, 'denials', 1), timerMs(options.maxAge ?? '10s', 'maxAge'))
  }

  async decide(call: Call, options: Leave = {}): Promise<Result> {
    if (!rememberable(call)) {
      try {
        return await this.#next.decide(call, options)
      } finally {
        if (givesBack.has(call.verb)) for (const { name } of call.keys) this.forget(name)
      }
    }
    options.signal?.throwIfAborted()
    const denied = this.#denials.empty ? undefined : this.#denials.recall(identityOf(call))
    if (denied) this.#reports.count(denied.key)
    return denied ?? (await this.#denials.ask(() => identityOf(call), call, () => this.#next.decide(call, options)))
  }

  /** Forgets the denials of all calls on a key, such as after a refund in another process. */
  forget(key: string): void {
    this.#denials.forget(key)
  }
}

/** Tells whether a denial of a call holds until it can be tried again. */
function rememberable(call: Call): boolean {
  return call.verb === 'limit' && (call.charge === undefined || call.charge === 'up_to') && call.id === undefined && !call.keys.some(({ leased }) => leased)
}

/**
 * Returns a decider that remembers denials until they can pass, and so spares the server callers that keep asking.
 *
 *     const limiter = new Limiter(cached(new Limiter(client)))
 *
 * Two calls are the same if they have the same keys, limits, cost and options. Only denials by the server are
 * remembered. Calls that were let through, errors, denials that no waiting ends, and calls that charge a denied call or
 * take slots go to the server.
 *
 * A refund, a ban, a settlement and a reset that pass through make it forget their keys. Of those in other processes it
 * learns nothing until `maxAge` is over: it may be too strict for that long, never too loose. In a remembered result,
 * whose `by` is `cache`, the times are counted down; `remaining` is what it was. The server is told of denials that it
 * is not asked about, for its CL.TOP.
 */
export function cached(next: Decider, options: CachedOptions = {}): Cached {
  return new Cached(next, options)
}
