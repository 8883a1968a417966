// What requests to somebody else's service share that keep to its limits, in all processes together.
import type { Call } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import { type Duration, forever, nanoseconds } from '../duration.js'
import { MistakeError, OutageError, OverloadError } from '../errors.js'
import { asLimits, type Limits, Namer } from '../limit.js'
import { oneOf, refuseOthers } from '../options.js'
import { LimitedError } from '../result.js'
import { type Answer, answers } from './answer.js'

export interface OutgoingOptions<Request> {
  /** A `Limiter`, or another decider. */
  readonly limiter: Decider
  /** The limits of the service. */
  readonly limits: Limits
  /** The policy that the limits are the default of, as from `policy`. */
  readonly policy?: string
  /**
   * Whose limits a request counts for, such as `partner` for all of them. A request whose key is undefined is not
   * limited.
   */
  readonly key: string | ((request: Request) => string | undefined)
  /** How many units a request takes: 1, if it is left out. */
  readonly cost?: (request: Request) => number
  /**
   * How long a request waits for its turn: not at all, if it is left out; `forever` as long as it takes. The request's
   * own signal ends the wait, too.
   */
  readonly maxWait?: Duration | typeof forever
  /**
   * What becomes of requests while Redis is away: `raise`, if it is left out. `allow` sends them; `deny` and `raise`
   * throw the error.
   */
  readonly outage?: Answer
  /** What becomes of requests while this process asks for more than its client carries: `raise`, if it is left out. */
  readonly overload?: Answer
  /** What becomes of requests when the set-up is wrong: `raise`, if it is left out. */
  readonly mistake?: Answer
}

const known = ['limiter', 'limits', 'policy', 'key', 'cost', 'maxWait', 'outage', 'overload', 'mistake'] as const satisfies (keyof OutgoingOptions<object>)[]

/**
 * Returns what each request passes before it is sent: it waits for its turn, or throws a `LimitedError`. `more` are
 * options of the caller.
 */
export function gate<Request>(what: string, options: OutgoingOptions<Request>,
  more: readonly string[] = []): (request: Request, signal: AbortSignal | undefined) => Promise<void> {
  refuseOthers(what, options, [...known, ...more])
  const { limiter, key, cost, maxWait, outage = 'raise', overload = 'raise', mistake = 'raise' } = options
  asDecider(limiter)
  const limits = new Namer(options.policy).named(asLimits(options.limits))
  if (typeof key !== 'string' && typeof key !== 'function') throw new TypeError('key must be a string or a function')
  if (maxWait !== undefined && maxWait !== forever && nanoseconds(maxWait, 'maxWait') === 0n) throw new RangeError('maxWait must not be 0: leave it out to wait not at all')
  for (const [option, answer] of Object.entries({ outage, overload, mistake })) oneOf(answer, option, answers)

  return async (request, signal) => {
    const name = typeof key === 'string' ? key : key(request)
    if (name === undefined) return
    const call: Call = { verb: maxWait === undefined ? 'limit' : 'wait', keys: [{ name, limits }], ...(cost && { cost: cost(request) }),
      ...(maxWait !== undefined && { maxWait }) }
    let result
    try {
      result = await limiter.decide(call, signal && { signal })
    } catch (error) {
      const answer = error instanceof OutageError ? outage : error instanceof OverloadError ? overload : error instanceof MistakeError ? mistake : 'raise'
      if (answer === 'allow') return
      throw error
    }
    if (result.limited) throw new LimitedError(result)
  }
}
