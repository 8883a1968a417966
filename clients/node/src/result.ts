// Results: what was decided, for one limit and for each.
import { setTimeout as sleep } from 'node:timers/promises'
import { ThrottleError } from './errors.js'
import type { Limit } from './limit.js'

/**
 * Where a call was decided: by the server; by a remembered denial or a batch; without the server, by the policy of a
 * guard or in this process; or nowhere, since `policies` has NONE for its keys.
 */
export type By = 'server' | 'cache' | 'batch' | 'policy' | 'local' | 'none'

/** What `policies` had in place of the limits that the code has for a key. */
export interface Applied {
  /** The name of the policy. */
  readonly name: string
  /** The field of the hash that counted, such as `api/premium:*`. */
  readonly field: string
  /** The limits that decided; none where NONE lets everything through. */
  readonly limits: readonly Limit[]
}

/** The state of a limit after a call. */
export interface State {
  /** The key that decided, was charged or is banned. */
  readonly key: string
  /** The index of that key in the call. */
  readonly keyIndex: number
  /** The index in that key's limits of the limit that decided; 0 of a banned key. */
  readonly rule: number
  /** Whether a ban denied the call, and no limit. */
  readonly banned: boolean
  /** How many units that limit holds when it is full, or how many slots there are. */
  readonly limit: number
  /** How many units could be taken right now, or how many slots are free. */
  readonly remaining: number
  /** Until the limit is full. */
  readonly resetAfterMs: number
  /** Until there is one unit more; 0 when the limit is full. */
  readonly nextAfterMs: number
  /** How many units were charged. If it is negative, units were returned. */
  readonly granted: number
  /** How long the caller has to hold its request (`maxWait`), or how long it has waited (`wait`, `lease`). */
  readonly waitMs: number
  /** How long a lease lasts if it is not renewed, or how long a key is banned. */
  readonly lastsMs: number
  /** Whether a limit with `shadow` would have denied the call: limit `shadow` of key `shadowKey`. */
  readonly shadowed: boolean
  /** The index of that limit in its key's. */
  readonly shadow: number
  /** The key of that limit. */
  readonly shadowKey: string
  /** The index of that key in the call. */
  readonly shadowKeyIndex: number
  /**
   * With the option `each`, every limit by itself: `limited`, `limit`, `remaining`, `retryAfterMs`, `resetAfterMs`,
   * `key`, `keyIndex`, `rule`.
   */
  readonly each: readonly Result[]
  /** Where it was decided. */
  readonly by: By
  /**
   * For each key of the call, what `policies` had in place of its limits, or undefined. Without it, they were those of
   * the call.
   */
  readonly policies?: readonly (Applied | undefined)[]
}

/** The result of a call that was let through. */
export interface Allowed extends State {
  /** It was not denied. */
  readonly limited: false
  /** It was let through. */
  readonly allowed: true
  /** The call has succeeded. */
  readonly retryAfterMs: 0
  /** Returns the result. */
  orThrow(): this
}

/** The result of a call that was denied; of a renewal and of a settlement, that the lease had lapsed. */
export interface Denied extends State {
  /** It was denied. */
  readonly limited: true
  /** It was not let through. */
  readonly allowed: false
  /** Until the same call can succeed if nobody else asks; null when it never can. `untilRetry` waits for it. */
  readonly retryAfterMs: number | null
  /** Throws a `LimitedError`. */
  orThrow(): never
}

/**
 * The outcome of a call, and the state after it of the limit that decided. Times are the server's, rounded up to 1 ms.
 * Look at `limited` or `allowed`, or call `orThrow`: a result is truthy, whatever it says.
 */
export type Result = Allowed | Denied

/** The fields of a result that can be written while it is made. */
export type Fields = { -readonly [Name in keyof State]: State[Name] } & { limited: boolean; retryAfterMs: number | null }

export class Outcome implements Fields {
  limited = false
  key = ''
  keyIndex = 0
  rule = 0
  banned = false
  limit = 0
  remaining = 0
  retryAfterMs: number | null = 0
  resetAfterMs = 0
  nextAfterMs = 0
  granted = 0
  waitMs = 0
  lastsMs = 0
  shadowed = false
  shadow = 0
  shadowKey = ''
  shadowKeyIndex = 0
  each: readonly Result[] = []
  by: By = 'server'
  declare policies?: readonly (Applied | undefined)[]

  get allowed(): boolean {
    return !this.limited
  }

  orThrow(): this {
    if (this.limited) throw new LimitedError(this as unknown as Denied)
    return this
  }
}

/**
 * Returns a result with some fields, for a decider of your own. All others are 0, false or empty.
 *
 *     const always = new Limiter({ decide: async ({ keys }) => makeResult({ key: keys[0].name, by: 'policy' }) })
 */
export function makeResult(fields: Partial<Fields> = {}): Result {
  return Object.assign(new Outcome(), fields) as unknown as Result
}

/**
 * Returns a result with the policies that it was decided by. Of keys that were left out, the others, `asked`, are
 * counted as in the call.
 */
export function decidedBy(result: Result, policies: readonly (Applied | undefined)[], asked?: readonly number[]): Result {
  const outcome = Object.assign(new Outcome(), result)
  outcome.policies = policies
  if (asked) {
    const place = (index: number) => asked[index] ?? index
    outcome.keyIndex = place(outcome.keyIndex)
    if (outcome.shadowed) outcome.shadowKeyIndex = place(outcome.shadowKeyIndex)
    outcome.each = outcome.each.map((one) => makeResult({ ...one, keyIndex: place(one.keyIndex) }))
  }
  return outcome
}

/**
 * Returns the limits of a key of a call that decided, by its index: those of the call, or of a policy that came in
 * their place.
 */
export function inForce(keys: readonly { readonly limits?: readonly Limit[] }[], result: Result | undefined, index: number): readonly Limit[] {
  return result?.policies?.[index]?.limits ?? keys[index]?.limits ?? []
}

/**
 * A call was denied. `result` says by what, and when to try again.
 *
 *     if (error instanceof LimitedError) console.log(error.result.retryAfterMs)
 */
export class LimitedError extends ThrottleError {
  static readonly code = 'LIMITED'
  /** The name of the class, also in a minified bundle. */
  override name = 'LimitedError'
  override readonly code = 'LIMITED'

  /** What was decided. */
  readonly result: Denied

  constructor(result: Denied) {
    const { retryAfterMs: after, limit, banned } = result
    super(after === null ? `limited: the call costs more than the limit of ${limit}` : `limited: ${banned ? 'banned, ' : ''}retry after ${after / 1000} s`)
    this.result = result
  }
}

const longest = 2 ** 31 - 1 // of a timer of Node.js, which takes a longer one for 1 ms

/**
 * Waits until the same call can succeed if nobody else asks. Rejects with a `LimitedError` if it never can, and when
 * the signal is aborted.
 *
 *     const result = await limiter.limit('user:42', perUser)
 *     if (result.limited) await untilRetry(result, { signal })
 */
export async function untilRetry(result: Result, options: { readonly signal?: AbortSignal } = {}): Promise<void> {
  const { signal } = options
  signal?.throwIfAborted()
  if (result.retryAfterMs === null) throw new LimitedError(result)
  const ends = performance.now() + result.retryAfterMs
  for (let left: number = result.retryAfterMs; left > 0; left = ends - performance.now()) {
    try {
      await sleep(Math.min(Math.ceil(left), longest), undefined, signal && { signal })
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    }
  }
}
