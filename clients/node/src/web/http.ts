// What the middlewares share: which limits a request counts for, and what its response says.
//
// A request that is denied gets status 429 with Retry-After and a problem document (RFC 9457).
import { address, type AddressOptions, originOf, within } from './address.js'
import { type Answer, answers } from './answer.js'
import { type Call, entriesOf, type Keys, many, one } from '../call.js'
import { MistakeError, OutageError, OverloadError, ThrottleError } from '../errors.js'
import { asDecider, type Decider } from '../decider.js'
import { type Duration, nanoseconds } from '../duration.js'
import { told } from '../guard/told.js'
import { asLimits, denialsOf, isLimit, type Limit, type Limits, nameOf, Namer } from '../limit.js'
import { oneOf, refuseOthers } from '../options.js'
import { type Denied, inForce, type Result } from '../result.js'
import { exposed, isPreflight } from './cors.js'
import { apart, fieldsOf, merged, policies } from './fields.js'

export type { Answer } from './answer.js'

type Maybe<T> = T | Promise<T>

/** What every middleware takes. */
interface Common<Request> extends FailureOptions<Request> {
  /** A `Limiter`, or another decider. */
  readonly limiter: Decider
  /** How many units a request takes: 1, if it is left out. */
  readonly cost?: (request: Request) => Maybe<number>
  /**
   * Which requests are not limited: a function says so, or a list of addresses and networks of clients, such as
   * `['10.0.0.0/8', '2001:db8::/32', '127.0.0.1']`. Behind a proxy a list needs `trusted`; the framework's own setting
   * does not count for it. A request whose client is not certain is limited.
   */
  readonly skip?: ((request: Request) => Maybe<boolean>) | readonly string[]
  /**
   * Has the preflights of browsers count: OPTIONS with Origin and Access-Control-Request-Method. They pass unlimited,
   * if it is left out.
   */
  readonly preflights?: boolean
  /** Bans the key of a request that is denied for so long, such as `15m`. */
  readonly ban?: Duration
  /**
   * Of which denial the ban begins: with `10/1h`, the tenth request that is denied within an hour of the first one; the
   * first, if it is left out.
   */
  readonly banAfter?: string
  /**
   * Answers a request that is denied, in the place of status 429 and a problem document. The fields of the limits are
   * set in any case. A body that is no text is JSON.
   */
  readonly denied?: (request: Request, result: Denied) => Maybe<{ readonly status?: number; readonly type?: string; readonly body: unknown }>
  /** Adds X-RateLimit fields, whose Reset is in seconds from now, or since the Unix epoch. */
  readonly xRateLimit?: 'seconds' | 'unix'
}

/** One key for each request. */
export interface OneKey<Request> extends AddressOptions {
  /** The limits of a request, or a function that returns them. A limit of 0 lets nobody through. */
  readonly limits: Limits | ((request: Request) => Maybe<Limits>)
  /**
   * The policy that the limits are the default of, as from `policy`: with a limiter of `policies`, its hash may say
   * otherwise.
   */
  readonly policy?: string
  /**
   * What the default key begins with, after `http:`: the limits themselves, if it is left out. Requests of two
   * middlewares with one name share their limits.
   */
  readonly name?: string
  /**
   * The key of a request. If it is left out: `http:`, the name, and `clientAddress`. A key says whom it limits and by
   * which policy, such as `login:203.0.113.7`, for limits of the same key are one. A request whose key is undefined is
   * not limited.
   */
  readonly key?: (request: Request) => Maybe<string | undefined>
  readonly keys?: never
}

/** Several keys for each request. */
export interface ManyKeys<Request> {
  /** The limits of several keys. All are charged or none. */
  readonly keys: (request: Request) => Maybe<Keys>
  readonly limits?: never
  readonly policy?: never
  readonly name?: never
  readonly key?: never
  readonly ipv6?: never
  /** The proxies behind which the networks of `skip` are found. */
  readonly trusted?: readonly string[]
}

/** Options of `rateLimit`: with `limits` and a `key`, or with `keys`, which returns the limits of several. */
export type RateLimitOptions<Request> = Common<Request> & (OneKey<Request> | ManyKeys<Request>)

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

const known = ['limiter', 'limits', 'policy', 'name', 'key', 'keys', 'cost', 'skip', 'preflights', 'ban', 'banAfter', 'denied', 'outage', 'overload', 'mistake', 'retryAfter', 'xRateLimit', 'onError', 'ipv6', 'trusted']
const counters = ['seconds', 'unix'] as const
const formerly: Record<string, Answer> = { unavailable: 'deny', error: 'raise' }

/** What becomes of requests that nobody could decide about. */
export interface FailureOptions<Request> {
  /** What becomes of requests while Redis is away: `allow`, if it is left out. */
  readonly outage?: Answer
  /** What becomes of requests while this process asks for more than its client carries: `deny`, if it is left out. */
  readonly overload?: Answer
  /** What becomes of requests when the set-up is wrong, or a function of yours throws: `raise`, if it is left out. */
  readonly mistake?: Answer
  /** Retry-After of status 503, in seconds: 1, if it is left out. */
  readonly retryAfter?: number
  /** Is told of each error. Without it, the console is, at most once in ten seconds. */
  readonly onError?: (error: ThrottleError, request: Request) => void
}

export class Failures<Request> {
  readonly #options: FailureOptions<Request>
  readonly #answers: Record<'outage' | 'overload' | 'mistake', Answer>
  readonly #logged = new Map<string, number>()

  constructor(options: FailureOptions<Request>) {
    const { outage = 'allow', overload = 'deny', mistake = 'raise', retryAfter = 1 } = options
    for (const [option, answer] of Object.entries({ outage, overload, mistake })) oneOf(answer, option, answers, formerly)
    if (!Number.isSafeInteger(retryAfter) || retryAfter < 0) throw new RangeError(`retryAfter must be a whole number of seconds, not ${retryAfter}`)
    this.#options = options
    this.#answers = { outage, overload, mistake }
  }

  /** Returns what becomes of a request: undefined lets it through. */
  decide(request: Request, error: unknown): Decision | undefined {
    // What is no error of this package comes from the application's own functions, or from a limit that they got wrong.
    const known = error instanceof ThrottleError ? error : new MistakeError(String(error), { cause: error })
    const kind = known instanceof OutageError ? 'outage' : known instanceof OverloadError ? 'overload' : 'mistake'
    this.#report(kind, known, request)
    switch (this.#answers[kind]) {
      case 'allow':
        return undefined
      case 'raise':
        throw error
      case 'deny': {
        const headers: [string, string][] = [['Retry-After', String(this.#options.retryAfter ?? 1)], ['Content-Type', 'text/plain; charset=utf-8']]
        return { headers: [], response: { status: 503, headers, body: 'Service Unavailable\n' } }
      }
    }
  }

  /** Tells of an error. */
  #report(kind: string, error: ThrottleError, request: Request): void {
    if (this.#options.onError) this.#options.onError(error, request)
    else if (kind === 'outage') reportLater(error)
    else if (performance.now() - (this.#logged.get(kind) ?? -Infinity) > 10_000) {
      this.#logged.set(kind, performance.now())
      log(kind, error)
    }
  }
}

function log(kind: string, error: Error): void {
  console.error(`redis-throttle: ${kind}: a request could not be checked against its rate limit: ${error.message}`)
}

let reported = -Infinity

/**
 * Logs an outage in a moment, unless a breaker says by then that it has begun: one outage is one line, whatever
 * middlewares meet it.
 */
function reportLater(error: Error): void {
  if (told.has(error) || performance.now() - reported <= 10_000) return
  const before = reported
  reported = performance.now()
  setTimeout(() => {
    if (told.has(error)) reported = before
    else log('outage', error)
  }, 1000).unref()
}

/** Whose request it is, where no function says so. */
export class Clients<Request extends object> {
  readonly #address: (request: Request) => string
  readonly #trusts: (request: Request) => boolean

  /** `trusts` tells whether the framework was told to believe proxies. */
  constructor(readonly framework: string, { ipv6, trusted }: AddressOptions, trusts: (request: Request) => boolean) {
    this.#address = address({ ...(ipv6 !== undefined && { ipv6 }), ...(trusted && { trusted }) })
    this.#trusts = trusted ? () => true : trusts
  }

  /** Returns the default key of a request. */
  key(request: Request, name: string): string {
    const at = this.#address(request)
    const { forwarded, local } = originOf(request)
    if (at === '@') {
      warnOnce(`${this.framework}: a request has no address, as at a Unix socket, so all such requests share their limit; give a key, or have the proxy send X-Forwarded-For`)
    } else if (forwarded.length > 0 && !local && !this.#trusts(request)) {
      warnOnce(`${this.framework}: a request has X-Forwarded-For, but no proxy is trusted; behind a proxy all clients share the key of the proxy: say which proxies are trusted, by the framework's option or by trusted`)
    }
    return `http:${name}:${at}`
  }
}

/** Returns the function of `skip`, which is checked. */
export function skipping<Request extends object>(framework: string, skip: Common<Request>['skip'],
  trusted: readonly string[] | undefined): ((request: Request) => Maybe<boolean>) | undefined {
  if (skip === undefined || typeof skip === 'function') return skip
  if (!Array.isArray(skip)) throw new TypeError(`skip must be a function, or a list of addresses and networks, such as ['10.0.0.0/8'], not ${typeof skip === 'string' ? `'${skip as string}'` : `a ${typeof skip}`}`)
  return inside(framework, 'skip', skip as readonly string[], trusted)
}

function inside(who: string, option: string, networks: readonly string[], trusted: readonly string[] | undefined): (request: object) => boolean {
  const where = within(option, networks, trusted)
  return (request) => {
    const { inside, certain } = where(request)
    if (!certain && !trusted && originOf(request).forwarded.length > 0) {
      warnOnce(`${who}: ${option} has networks, and a request has X-Forwarded-For, but no proxy is trusted, so it is limited; name the proxies by trusted`)
    }
    return inside
  }
}

/**
 * Returns a function that tells whether a request is of a client in one of these networks, for routes written by hand
 * and for hosts that skip requests by a function. An address alone is one, too. The peer and `trusted` say who the
 * client is, as for the option `skip` of `rateLimit`, and no setting of a framework: a request whose client is not
 * certain is of none.
 *
 *     const inside = fromNetworks(['10.0.0.0/8', '127.0.0.1'], { trusted: ['10.1.0.0/24'] })
 *     ThrottlerModule.forRoot({ skipIf: (context) => inside(context.switchToHttp().getRequest()), throttlers, storage }) // NestJS
 *
 * A `Request` of fetch, as in Next.js, needs `trusted`: `[]` where one proxy alone is in front, which sets
 * X-Forwarded-For.
 */
export function fromNetworks(networks: readonly string[], options: Pick<AddressOptions, 'trusted'> = {}): (request: object) => boolean {
  refuseOthers('fromNetworks', options, ['trusted'])
  const isInside = inside('fromNetworks', 'networks', networks, options.trusted)
  return (request: unknown) => {
    if (typeof request !== 'object' || request === null) throw new TypeError(`fromNetworks: the function takes a request, not ${request === null ? 'null' : `a ${typeof request}`}`)
    return isInside(request)
  }
}

/** Refuses what is for the default key, where there is none. */
export function refuseUnused(options: { name?: unknown; ipv6?: unknown; trusted?: unknown; skip?: unknown }, what: string): void {
  const { name, ipv6, trusted, skip } = options
  for (const [option, value] of Object.entries({ name, ipv6, ...(!Array.isArray(skip) && { trusted }) })) {
    if (value !== undefined) throw new TypeError(`${option}: it is a part of the default key, and there ${what}`)
  }
}

/** Checks a key that a function has returned. */
export function checkedKey(name: unknown): string {
  if (typeof name !== 'string' || name === '') throw new TypeError(`key must be a string that is not empty, not ${name === '' ? 'an empty one' : `a ${typeof name}`}; undefined does not limit the request`)
  return name
}

/** Decides about requests of a framework. */
export class Policy<Request extends object> {
  readonly #options: RateLimitOptions<Request>
  readonly #failures: Failures<Request>
  readonly #clients: Clients<Request>
  readonly #name: string | undefined
  readonly #namer: Namer
  readonly #varies: boolean
  readonly #skip: ((request: Request) => Maybe<boolean>) | undefined

  /** `trusts` tells whether the framework was told to believe proxies. */
  constructor(framework: string, options: RateLimitOptions<Request>, trusts: (request: Request) => boolean) {
    const { limiter, limits, policy, name, keys, key, trusted } = options
    refuseOthers('rateLimit', options, known)
    asDecider(limiter)
    const given: { key?: unknown; keys?: unknown } = options
    if ((limits === undefined) === (keys === undefined) || (given.key && given.keys)) throw new TypeError('give limits, with a key, or keys, which returns the limits of several keys')
    for (const [option, value] of Object.entries({ key, keys, cost: options.cost, denied: options.denied })) {
      if (value !== undefined && typeof value !== 'function') throw new TypeError(`${option} must be a function, not a ${typeof value}`)
    }
    if (key || keys) refuseUnused(options, key ? 'is a key' : 'are keys')
    this.#skip = skipping(framework, options.skip, trusted)
    if (name !== undefined && (typeof name !== 'string' || name === '')) throw new TypeError('name must be a string that is not empty')
    if (policy !== undefined && given.keys) throw new TypeError('policy: it goes with limits; keys returns limits of policies by policy()')
    this.#varies = limits === undefined || typeof limits === 'function'
    if (limits !== undefined && typeof limits !== 'function') policies(asLimits(limits))
    this.#namer = new Namer(policy)
    const { xRateLimit } = options
    if (options.ban !== undefined) nanoseconds(options.ban, 'ban')
    if (options.banAfter !== undefined) {
      if (options.ban === undefined) throw new TypeError('banAfter goes with ban')
      denialsOf(options.banAfter)
    }
    if (options.preflights !== undefined && typeof options.preflights !== 'boolean') throw new TypeError(`preflights must be a boolean, not a ${typeof options.preflights}`)
    if (xRateLimit !== undefined) oneOf(xRateLimit, 'xRateLimit', counters)
    this.#options = options
    this.#failures = new Failures(options)
    this.#clients = new Clients(framework, options, trusts)
    this.#name = name
    if (!name && !key && limits !== undefined && typeof limits !== 'function') warnOfTwins(limiter, policyName(asLimits(limits)))
  }

  /** Decides about a request. Undefined means that it is not limited. */
  async decide(request: Request): Promise<Decision | undefined> {
    try {
      const call = await this.#call(request)
      if (!call) return undefined
      if (this.#varies) for (const { limits } of call.keys) policies(limits ?? []) // what fields cannot carry is told before it is charged
      const result = await this.#options.limiter.decide(call)
      const limits = named(request, call.keys, result)
      const headers = exposed(request, fieldsOf(limits, result, this.#options.xRateLimit))
      if (!result.limited) return { headers }
      return { headers, response: await this.#denied(request, limits, result, headers) }
    } catch (error) {
      return this.#failures.decide(request, error)
    }
  }

  async #denied(request: Request, limits: Named, result: Denied, headers: [string, string][]): Promise<Response> {
    const own = await this.#options.denied?.(request, result)
    if (own === undefined) return { status: 429, headers: [...headers, ['Content-Type', 'application/problem+json']], body: `${JSON.stringify(problemOf(limits, result))}\n` }
    const { status = 429, body } = own
    const text = typeof body === 'string'
    return { status, headers: [...headers, ['Content-Type', own.type ?? (text ? 'text/plain; charset=utf-8' : 'application/json; charset=utf-8')]], body: text ? body : JSON.stringify(body) }
  }

  async #call(request: Request): Promise<Call | undefined> {
    const { limits, key, keys, cost, ban, banAfter, preflights = false } = this.#options
    if (!preflights && isPreflight(request)) return undefined
    if (await this.#skip?.(request)) return undefined
    const units = { ...(cost && { cost: await cost(request) }), ...(ban !== undefined && { ban }), ...(banAfter !== undefined && { banAfter }) }
    if (keys) {
      const several = entriesOf(await keys(request))
      return several.length > 0 ? many('limit', several, { ...units, each: true }) : undefined
    }
    const own: unknown = await key?.(request)
    if (key && own === undefined) return undefined
    const some = this.#namer.named(asLimits(typeof limits === 'function' ? await limits(request) : limits))
    if (some.length === 0) return undefined
    const name = key ? checkedKey(own) : this.#clients.key(request, this.#name ?? policyName(some))
    // With one limit, the fields of the reply say all.
    return one('limit', name, some, some.length > 1 ? { ...units, each: true } : units)
  }
}

/** Returns what the default key calls limits. */
function policyName(limits: readonly Limit[]): string {
  return limits.map(({ policy }) => policy).join(' ')
}

const warned = new Set<string>()

function warnOnce(warning: string): void {
  if (warned.has(warning)) return
  warned.add(warning)
  console.warn(`redis-throttle: ${warning}`)
}

const policiesOf = new WeakMap<Decider, Set<string>>()

// Two middlewares with the same limits are seldom meant to share them.
function warnOfTwins(limiter: Decider, policy: string): void {
  const there = policiesOf.get(limiter) ?? new Set()
  policiesOf.set(limiter, there)
  if (there.has(policy)) warnOnce(`two middlewares have the limits ${policy} and neither a name nor a key, so they share one limit for each client; give each a name`)
  there.add(policy)
}

type Named = ReturnType<typeof apart>

const taken = new WeakMap<object, Set<string>>()

/** Returns the limits that counted, named apart from those of other middlewares of a request. */
function named(request: object, keys: Call['keys'], result: Result): Named {
  const names = taken.get(request) ?? new Set()
  taken.set(request, names)
  return result.by === 'none' ? [] : apart(keys.map((_, key) => inForce(keys, result, key)), names)
}

function problemOf(limits: Named, result: Denied): Problem {
  const quota = 'https://iana.org/assignments/http-problem-types#'
  if (result.banned) return { type: `${quota}abnormal-usage-detected`, title: 'Abnormal Usage Detected', status: 429 }
  return { type: `${quota}quota-exceeded`, title: 'Quota Exceeded', status: 429, 'violated-policies': [nameOf(limits[result.keyIndex] ?? [], result.rule)] }
}

/** A problem document (RFC 9457) of a request that was denied. */
export interface Problem {
  /** The URI of the kind of problem. */
  readonly type: string
  /** The kind of problem in words. */
  readonly title: string
  /** The status of the response. */
  readonly status: 429
  readonly 'violated-policies'?: readonly string[]
}

type Asked = Limits | Keys

function inForceOf(asked: Asked, result: Result): Named {
  const one = isLimit(asked) || (Array.isArray(asked) && asked.every(isLimit))
  return named({}, one ? [{ name: '', limits: asLimits(asked) }] : many('limit', asked as Keys, {}).keys, result)
}

/**
 * Returns the header fields of a response for a result, for routes written by hand: RateLimit-Policy and RateLimit, and
 * Retry-After if it was denied. `limits` are those of the call, or its keys with theirs. With several limits, ask with
 * the option `each`.
 *
 *     for (const [name, value] of headerFields(limits, result)) res.setHeader(name, value)
 */
export function headerFields(limits: Asked, result: Result, options: { readonly xRateLimit?: 'seconds' | 'unix' } = {}): [string, string][] {
  refuseOthers('headerFields', options, ['xRateLimit'])
  return fieldsOf(inForceOf(limits, result), result, options.xRateLimit)
}

/**
 * Returns the problem document of a request that was denied, for routes written by hand, whose content type is
 * `application/problem+json`.
 *
 *     res.status(429).type('application/problem+json').send(problemDocument(limits, result))
 */
export function problemDocument(limits: Asked, result: Denied): Problem {
  return problemOf(inForceOf(limits, result), result)
}

/** Sets the fields of a decision. */
export function setFields(decision: Decision | undefined, get: (name: string) => unknown, set: (name: string, value: string) => void): void {
  for (const [name, value] of decision?.response?.headers ?? decision?.headers ?? []) {
    const there = get(name)
    set(name, merged(name, value, typeof there === 'string' ? there : undefined))
  }
}
