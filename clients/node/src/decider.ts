// The seam: a call is a value, and a decider decides it.
import type { Call, Leave } from './call.js'
import type { Result } from './result.js'

/**
 * Decides calls. A `Limiter` on a client is one; others stand before it and take it as their next. A denied call is no
 * error: `Result.limited` says so. `decide` rejects with an `OutageError`, an `OverloadError` or a `MistakeError` when
 * there is no decision, and with the reason of a signal that was aborted. It changes nothing of the call.
 */
export interface Decider {
  /** Decides a call. A `signal` ends it. */
  decide(call: Call, options?: Leave): Promise<Result>
}

/** Tells whether something is a decider. */
export function isDecider(it: unknown): it is Decider {
  return typeof it === 'object' && it !== null && typeof (it as Partial<Decider>).decide === 'function'
}

/** Returns a decider, or throws if it is none. `what` is the argument that the error is about. */
export function asDecider(it: unknown, what = 'limiter'): Decider {
  if (!isDecider(it)) throw new TypeError(`${what} must be a Limiter or another decider, with a method decide`)
  return it
}
