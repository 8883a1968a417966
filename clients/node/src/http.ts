// What the middlewares share: which limits a request counts for, and what its response says.
//
// The header fields are RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-11. A request that is denied gets
// status 429 with Retry-After and a problem document (RFC 9457).
import { type Call, many, one } from './call'
import { MistakeError, OutageError, OverloadError, ThrottleError } from './errors'
import { asLimits, type Limit, type Limits } from './limit'
import type { Limiter } from './limiter'
import type { Result } from './result'

/** What becomes of a request that nobody could decide about: it is served, it gets status 503, or the error is thrown. */
export type Answer = 'allow' | 'unavailable' | 'error'

type Maybe<T> = T | Promise<T>

export interface RateLimitOptions<Request> {
  limiter: Limiter
  /** The limits of a request, or a function that returns them. */
  limits?: Limits | ((request: Request) => Maybe<Limits>)
  /** The key of a request: the address of the peer, if it is left out. A request without a key is not limited. */
  key?: (request: Request) => Maybe<string | undefined>
  /** In place of `limits` and `key`: the limits of several keys. All are charged or none. */
  keys?: (request: Request) => Maybe<Readonly<Record<string, Limits>>>
  /** How many units a request takes. */
  cost?: (request: Request) => Maybe<number>
  /** What becomes of requests while Redis is away. */
  outage?: Answer
  /** What becomes of requests while this process asks for more than its client carries. */
  overload?: Answer
  /** What becomes of requests when the set-up is wrong. */
  mistake?: Answer
  /** Retry-After of status 503, in seconds. */
  retryAfter?: number
  /** Adds X-RateLimit fields, whose Reset is in seconds from now, or since the Unix epoch. */
  xRateLimit?: 'seconds' | 'unix'
  /** Is told of each error. Without it, the console is, at most once in ten seconds. */
  onError?: (error: ThrottleError, request: Request) => void
}

export interface Response {
  status: number
  headers: [string, string][]
  body: string
}

/** What becomes of a request: header fields for its response, or a response in its place. */
export interface Decision {
  headers: [string, string][]
  response?: Response
}

const known = new Set(['limiter', 'limits', 'key', 'keys', 'cost', 'outage', 'overload', 'mistake', 'retryAfter', 'xRateLimit', 'onError'])
const answers = new Set(['allow', 'unavailable', 'error'])

const seconds = (ms: number) => Math.ceil(ms / 1000)

/** Decides about requests of a framework, whose default key is `address`. */
export class Policy<Request> {
  readonly #options: RateLimitOptions<Request>
  readonly #answers: Record<'outage' | 'overload' | 'mistake', Answer>
  readonly #address: (request: Request) => string | undefined
  readonly #logged = new Map<string, number>()

  constructor(options: RateLimitOptions<Request>, address: (request: Request) => string | undefined) {
    const { limits, keys, key, outage = 'allow', overload = 'unavailable', mistake = 'error' } = options
    for (const option of Object.keys(options)) if (!known.has(option)) throw new TypeError(`there is no option ${option}`)
    if (typeof (options.limiter as Limiter | undefined)?.decide !== 'function') throw new TypeError('limiter must be a Limiter')
    if ((limits === undefined) === (keys === undefined) || (key && keys)) throw new TypeError('give limits, with a key, or keys, which returns the limits of several keys')
    if (limits !== undefined && typeof limits !== 'function') asLimits(limits)
    for (const answer of [outage, overload, mistake]) if (!answers.has(answer)) throw new TypeError(`'${answer}' must be allow, unavailable or error`)
    this.#options = options
    this.#answers = { outage, overload, mistake }
    this.#address = address
  }

  /** Decides about a request. Undefined means that it is not limited. */
  async decide(request: Request): Promise<Decision | undefined> {
    const call = await this.#call(request)
    if (!call) return undefined
    let result
    try {
      result = await this.#options.limiter.decide(call)
    } catch (error) {
      return this.#failed(request, error)
    }
    const headers = this.#fields(call, result)
    if (!result.limited) return { headers }
    return { headers, response: { status: 429, headers: [...headers, ['Content-Type', 'application/problem+json']], body: problem(call, result) } }
  }

  async #call(request: Request): Promise<Call | undefined> {
    const { limits, key, keys, cost } = this.#options
    const units = cost ? { cost: await cost(request) } : {}
    if (keys) {
      const several = await keys(request)
      return Object.keys(several).length > 0 ? many('limit', several, { ...units, each: true }) : undefined
    }
    const name = key ? await key(request) : this.#address(request)
    if (!name) return undefined
    const some = asLimits(typeof limits === 'function' ? await limits(request) : limits)
    // With one limit, the fields of the reply say all.
    return some.length > 0 ? one('limit', name, some, some.length > 1 ? { ...units, each: true } : units) : undefined
  }

  #fields(call: Call, result: Result): [string, string][] {
    const policies = call.keys.map((key) => key.limits ?? [])
    const decided = policies[result.key] ?? []
    const policy = policies.flatMap((limits) => limits.flatMap((limit, rule) => (limit.fields.shadow ? [] : [policyOf(limits, limit, rule)])))
    let items: string[]
    if (result.banned) {
      items = decided.flatMap((limit, rule) => (limit.fields.shadow ? [] : [item(decided, rule, 0, Math.min(result.retryAfterMs, result.resetAfterMs))]))
    } else if (result.each.length > 0) {
      items = result.each.flatMap((each) => {
        const limits = policies[each.key] ?? []
        if (limits[each.rule]?.fields.shadow) return []
        const mine = each.key === result.key && each.rule === result.rule
        return [item(limits, each.rule, each.remaining, mine ? result.nextAfterMs : each.resetAfterMs)]
      })
    } else {
      items = [item(decided, result.rule, result.remaining, result.nextAfterMs)]
    }
    const fields: [string, string][] = [
      ['RateLimit-Policy', policy.join(', ')],
      ['RateLimit', items.join(', ')],
    ]
    if (result.limited && result.retryAfterMs !== Infinity) fields.push(['Retry-After', String(Math.max(1, seconds(result.retryAfterMs)))])
    if (this.#options.xRateLimit) {
      const now = this.#options.xRateLimit === 'unix' ? Math.ceil(Date.now() / 1000) : 0
      fields.push(
        ['X-RateLimit-Limit', String(result.limit)],
        ['X-RateLimit-Remaining', String(result.remaining)],
        ['X-RateLimit-Reset', String(seconds(result.resetAfterMs) + now)],
      )
    }
    return fields.filter(([, value]) => value !== '')
  }

  #failed(request: Request, error: unknown): Decision | undefined {
    // What is no error of this package is a limit that the application's own functions got wrong.
    const known = error instanceof ThrottleError ? error : new MistakeError(String(error), { cause: error })
    const kind = known instanceof OutageError ? 'outage' : known instanceof OverloadError ? 'overload' : 'mistake'
    this.#report(kind, known, request)
    switch (this.#answers[kind]) {
      case 'allow':
        return undefined
      case 'error':
        throw error
      case 'unavailable': {
        const headers: [string, string][] = [['Retry-After', String(this.#options.retryAfter ?? 1)], ['Content-Type', 'text/plain; charset=utf-8']]
        return { headers: [], response: { status: 503, headers, body: 'Service Unavailable\n' } }
      }
    }
  }

  #report(kind: string, error: ThrottleError, request: Request): void {
    if (this.#options.onError) {
      this.#options.onError(error, request)
    } else if (performance.now() - (this.#logged.get(kind) ?? -Infinity) > 10_000) {
      this.#logged.set(kind, performance.now())
      console.error(`redis-throttle: ${kind}: a request could not be checked against its rate limit: ${error.message}`)
    }
  }
}

function nameOf(limits: readonly Limit[], rule: number): string {
  return limits[rule]?.fields.name ?? (limits.length === 1 ? 'default' : `limit-${rule + 1}`)
}

function quoted(text: string): string {
  if (!/^[\x20-\x7e]*$/.test(text)) throw new RangeError(`a name in header fields is printable ASCII, not '${text}'`)
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}

/** Returns an item of RateLimit-Policy: q units come back in w seconds. */
function policyOf(limits: readonly Limit[], limit: Limit, rule: number): string {
  const { kind, count, unit } = limit.fields
  // A full limit of q units takes so long to get all its units back.
  const whole = kind === 'RATE' ? (limit.seconds * limit.capacity) / count : limit.seconds
  return `${quoted(nameOf(limits, rule))};q=${limit.capacity};w=${Math.ceil(whole)}${unit ? `;qu=${quoted(unit)}` : ''}`
}

/** Returns an item of RateLimit: r units remain, and the next one comes in t seconds. */
function item(limits: readonly Limit[], rule: number, remaining: number, afterMs: number): string {
  return `${quoted(nameOf(limits, rule))};r=${remaining};t=${seconds(afterMs)}`
}

function problem(call: Call, result: Result): string {
  const quota = 'https://iana.org/assignments/http-problem-types#'
  const document = result.banned
    ? { type: `${quota}abnormal-usage-detected`, title: 'Abnormal Usage Detected', status: 429 }
    : { type: `${quota}quota-exceeded`, title: 'Quota Exceeded', status: 429, 'violated-policies': [nameOf(call.keys[result.key]?.limits ?? [], result.rule)] }
  return `${JSON.stringify(document)}\n`
}

/** Returns a field that may be there already: those that are lists are joined, so that middlewares may be nested. */
export function merged(name: string, value: string, there: string | undefined): string {
  return there && (name === 'RateLimit' || name === 'RateLimit-Policy') ? `${there}, ${value}` : value
}
