// Results: what the server answered, for one limit and for each.
import { setTimeout as sleep } from 'node:timers/promises'
import { LimitedError } from './errors'

/** The outcome of a call, and the state after it of the limit that decided. Times are the server's, rounded up to 1 ms. */
export class Result {
  /** Whether the call was denied; of a renewal and of `settle`, that the lease had lapsed. */
  limited = false
  /** The index of the key that decided, was charged or is banned. */
  key = 0
  /** The index in that key's limits of the limit that decided; 0 of a banned key. */
  rule = 0
  /** Whether a ban denied the call, and no limit. */
  banned = false
  /** How many units that limit holds when it is full, or how many slots there are. */
  limit = 0
  /** How many units could be taken right now, or how many slots are free. */
  remaining = 0
  /** Until the same call can succeed if nobody else asks: 0 when it was not limited, null when it never can. `untilRetry` waits for it. */
  retryAfterMs: number | null = 0
  /** Until the limit is full. */
  resetAfterMs = 0
  /** Until there is one unit more; 0 when the limit is full. */
  nextAfterMs = 0
  /** How many units were charged. If it is negative, units were returned. */
  granted = 0
  /** How long the caller has to hold its request (`maxWait`), or how long it has waited (`wait`, `lease`). */
  waitMs = 0
  /** How long a lease lasts if it is not renewed, or how long a key is banned. */
  lastsMs = 0
  /** Whether a limit with `shadow` would have denied the call: limit `shadow` of key `shadowKey`. */
  shadowed = false
  shadow = 0
  shadowKey = 0
  /** With the option `each`, every limit by itself: `limited`, `limit`, `remaining`, `retryAfterMs`, `resetAfterMs`, `key`, `rule`. */
  each: Result[] = []

  constructor(fields: Partial<Result> = {}) {
    Object.assign(this, fields)
  }

  /** Whether the call was let through. */
  get allowed(): boolean {
    return !this.limited
  }

  /** Returns the result, or throws a `LimitedError` when the call was denied. */
  orThrow(): this {
    if (this.limited) throw new LimitedError(this)
    return this
  }
}

const longest = 2 ** 31 - 1 // of a timer of Node.js, which takes a longer one for 1 ms

/** Waits until the same call can succeed if nobody else asks. Rejects with a `LimitedError` if it never can, and when the signal is aborted. */
export async function untilRetry(result: Result, options: { signal?: AbortSignal } = {}): Promise<void> {
  const { signal } = options
  signal?.throwIfAborted()
  if (result.retryAfterMs === null) throw new LimitedError(result)
  const ends = performance.now() + result.retryAfterMs
  for (let left = result.retryAfterMs; left > 0; left = ends - performance.now()) {
    try {
      await sleep(Math.min(Math.ceil(left), longest), undefined, signal && { signal })
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    }
  }
}
