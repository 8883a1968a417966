// Decides in this process what the server decides, by this process's part of the limits.
import { type Call, wordsOf } from '../call.js'
import { Engine, type Held, type Keys } from '../local/engine.js'
import type { Limit } from '../limit.js'
import { makeResult, type Result } from '../result.js'
import { share } from './share.js'

/** Keys of which those used least recently are forgotten. */
class Recent implements Keys {
  readonly #held = new Map<string, Held>()

  constructor(readonly most: number) {}

  get(name: string): Held | undefined {
    const held = this.#held.get(name)
    if (held) this.set(name, held)
    return held
  }

  set(name: string, held: Held): void {
    this.#held.delete(name)
    this.#held.set(name, held)
    for (const oldest of this.#held.keys()) {
      if (this.#held.size <= this.most) break
      this.#held.delete(oldest)
    }
  }

  delete(name: string): void {
    this.#held.delete(name)
  }

  has(name: string): boolean {
    return this.#held.has(name)
  }
}

// The clock is counted from the start, so that nobody sets it.
const epoch = BigInt(Date.now()) * 1_000_000n - BigInt(Math.round(performance.now() * 1e6))
const now = () => epoch + BigInt(Math.round(performance.now() * 1e6))

export class Local {
  readonly #keys: Recent
  readonly #engine: Engine
  readonly #parts = new WeakMap<Limit, { part: Limit | undefined }>()

  constructor(
    readonly processes: number,
    readonly atLeastOne: boolean,
    keys: number,
  ) {
    this.#keys = new Recent(keys)
    this.#engine = new Engine(this.#keys)
  }

  /**
   * Decides a call. Where this process's part is too small for it, the answer is to come back when the server is tried
   * again.
   */
  decide(call: Call, untilRetryMs: number): Result {
    wordsOf(call) // which finds mistakes as the server would
    const asked = alone(call)
    const part = share(asked, this.processes, this.atLeastOne, this.#parts)
    const own = part && this.#engine.decide(part, now())
    if (own && (!own.limited || own.retryAfterMs !== null)) return makeResult({ ...own, by: 'local' })
    // It may be just the part that is too small.
    const whole = new Engine().decide(asked, now())
    const result = own ?? whole
    if (whole.limited && whole.retryAfterMs === null) return makeResult({ ...result, by: 'local' })
    const later = Math.ceil(untilRetryMs)
    return makeResult({ ...result, limited: true, granted: 0, retryAfterMs: later, resetAfterMs: Math.max(result.resetAfterMs, later),
      nextAfterMs: Math.max(result.nextAfterMs, later), by: 'local' })
  }

  /** Renews, releases or settles a lease that was taken in this process; undefined if it was not. */
  ended(call: Call): Result | undefined {
    if (!call.keys.some(({ name }) => this.#keys.has(name))) return undefined
    const part = share(call, this.processes, this.atLeastOne, this.#parts)
    const result = part && this.#engine.decide(part, now())
    return result && found(call, result) ? makeResult({ ...result, by: 'local' }) : undefined
  }
}

/** What is decided here of a call: nobody stands in line in a process. */
function alone(call: Call): Call {
  if (call.verb !== 'wait' && call.verb !== 'lease') return call
  const { maxWait, group, priority, ...rest } = call
  return { ...rest, verb: call.verb === 'wait' ? 'limit' : 'lease' }
}

/** Tells whether a call that renews, releases or settles a lease found it. */
export function found(call: Call, result: Result): boolean {
  return !result.limited && (call.verb !== 'release' || result.granted !== 0)
}
