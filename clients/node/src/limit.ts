// Limits: values, defined once and given with every call.
import { calendarPeriod, type Duration, nanoseconds, type Period, word } from './duration.js'

/** What all kinds of limits may have. */
export interface LimitOptions {
  /** Replaces the cost of the call for this limit. If it is left out, the cost counts. */
  readonly take?: number
  /** What was used in the end, for `settle`: what was taken, if it is left out. */
  readonly used?: number
  /** The call is limited unless so many units stay behind: 0, if it is left out. */
  readonly spare?: number
  /** The limit is charged and counted, but never decides. It decides, if it is left out. */
  readonly shadow?: boolean
  /**
   * What the limit is called in the RateLimit header fields: as its policy or `default`, and of several `limit-1`,
   * `limit-2` and so on, if it is left out.
   */
  readonly name?: string
  /** The unit in RateLimit-Policy, such as `content-bytes`: requests, if it is left out. */
  readonly unit?: string
}

/** Options of `rate`. */
export interface RateOptions extends LimitOptions {
  /** How many units may be taken at a time: the count, if it is left out. */
  readonly burst?: number
}

/** Options of `fixed`. */
export interface FixedOptions extends LimitOptions {
  /** A window begins with the first unit taken; with the calendar, if it is left out. */
  readonly first?: boolean
  /** Each window begins so much later: at midnight and the like, if it is left out. */
  readonly offset?: Duration
  /** The name of the time zone whose clocks count, such as `Europe/Berlin`: UTC, if it is left out. */
  readonly zone?: string
}

/** What kind of limit it is: `rate`, `window` or `fixed`, as the commands write it. */
export type Kind = 'RATE' | 'WINDOW' | 'FIXED'

/** All that a limit is made of. */
export interface LimitFields extends RateOptions, FixedOptions {
  /** The kind of the limit. */
  readonly kind: Kind
  /** How many units the period has. */
  readonly count: number
  /** The period, such as `1h` or `1mo`. */
  readonly period: Period
  /** The name of the policy that the limit is the default of: see `policy`. */
  readonly policy?: string
}

const known = new Set(['kind', 'count', 'period', 'burst', 'first', 'offset', 'zone', 'take', 'used', 'spare', 'shadow', 'name', 'unit', 'policy'])

const kinds = new Set<string>(['RATE', 'WINDOW', 'FIXED'])

// Limits are told by these marks. Of the classes there may be two copies in a process, such as one that was required
// and one that was imported.
const limitMark = Symbol.for('redis-throttle.limit')
const slotsMark = Symbol.for('redis-throttle.slots')

const marked = (it: unknown, mark: symbol) => typeof it === 'object' && it !== null && mark in it

/** Tells whether something is a limit. */
export const isLimit = (it: unknown): it is Limit => marked(it, limitMark)

/** Tells whether something is slots. */
export const isSlots = (it: unknown): it is Slots => marked(it, slotsMark)

/**
 * One limit, made by `rate`, `window` or `fixed`. It does not change.
 *
 *     const tokens = rate(100_000, '1m')
 *     await limiter.limit('user:42', tokens.with({ take: 523 }))
 */
export class Limit {
  /** The limit as the commands take it. */
  readonly words: readonly string[]
  readonly #period: bigint // in ns; of months and years, on average

  /** What the limit is made of. */
  readonly fields: Readonly<LimitFields>

  constructor(fields: Readonly<LimitFields>) {
    this.fields = fields
    const { kind, count, period, burst, first, offset, zone, take, used, spare, shadow, name, unit, policy } = fields
    for (const option of Object.keys(fields)) if (!known.has(option)) throw new TypeError(`${kind}: there is no option ${option}`)
    if (!kinds.has(kind)) throw new TypeError('a limit is made by rate(), window() or fixed()')
    const words = [kind, '']
    const number = (what: string, value: number, least: number) => integer(`${kind}: ${what}`, value, least)
    const counted = number('the count', count, 0)
    const months = kind === 'FIXED' ? calendarPeriod(period) : undefined
    if (months) {
      this.#period = BigInt(months.seconds) * 1_000_000_000n
      words[1] = `${counted}/${months.word}`
    } else {
      const ns = nanoseconds(period, `${kind}: the period`, kind === 'FIXED' ? 'ms, s, m, h, d, w, mo or y' : undefined)
      if (ns <= 0n) throw new RangeError(`${kind}: the period '${period}' is not positive`)
      this.#period = ns
      words[1] = `${counted}/${word(ns)}`
    }
    for (const [what, flag] of [['first', first], ['shadow', shadow]] as const) {
      if (flag !== undefined && typeof flag !== 'boolean') throw new TypeError(`${kind}: ${what} must be true or false, not ${inspected(flag)}`)
    }
    const later = offset === undefined ? 0n : nanoseconds(offset, `${kind}: the offset`)
    if (count === 0 && burst !== undefined) throw new RangeError(`${kind}: a count of 0 lets nobody through, so it has no burst`)
    if (kind !== 'RATE' && burst !== undefined) throw new TypeError(`${kind}: only a rate has a burst`)
    if (kind !== 'FIXED' && (first || later !== 0n || zone)) throw new TypeError(`${kind}: only a fixed limit has first, offset and zone`)
    if (first && (later !== 0n || zone)) throw new TypeError(`${kind}: first goes with neither offset nor zone`)
    if (burst !== undefined) words.push('BURST', number('the burst', burst, 1))
    if (first) words.push('FIRST')
    if (later !== 0n) words.push('OFFSET', word(later))
    if (zone) words.push('TZ', text(`${kind}: the zone`, zone))
    if (take !== undefined) words.push('TAKE', number('take', take, 0))
    if (used !== undefined) words.push('USED', number('used', used, 0))
    if (spare !== undefined) {
      const kept = number('spare', spare, 0)
      if (spare > 0) words.push('SPARE', kept)
    }
    if (shadow) words.push('SHADOW')
    if (name !== undefined) text(`${kind}: the name`, name)
    if (unit !== undefined) text(`${kind}: the unit`, unit)
    if (policy !== undefined) checkPolicy(policy)
    this.words = words
    Object.freeze(this)
  }

  get [limitMark](): true {
    return true
  }

  /** Returns this limit with some options changed: `tokens.with({ take: 523 })`. */
  with(changes: { readonly [Name in keyof LimitFields]?: LimitFields[Name] | undefined }): Limit {
    return new Limit(Object.assign({}, this.fields, changes as Partial<LimitFields>))
  }

  /** How many units it holds when it is full. */
  get capacity(): number {
    return this.fields.burst ?? this.fields.count
  }

  /** How long the period is, in ns; of months and years, on average. */
  get periodNs(): bigint {
    return this.#period
  }

  /** How long the period is; of months and years, on average. */
  get seconds(): number {
    return Number(this.#period) / 1e9
  }

  /** What makes it another limit, in words: without what a single call takes of it, and without names. */
  get policy(): string {
    const { kind, burst, first, offset, zone, count, period } = this.fields
    return new Limit({ kind, count, period, ...(burst !== undefined && { burst }), ...(first && { first }), ...(offset !== undefined && { offset }),
      ...(zone && { zone }) }).toString()
  }

  /**
   * How many units come back in how many seconds. The time is that in which a full limit gets all its units back, in
   * whole seconds.
   */
  get quota(): { units: number; seconds: number } {
    const second = 1_000_000_000n
    const count = BigInt(this.fields.count)
    const refill = count === 0n ? this.#period : this.#period * BigInt(this.capacity)
    const whole = second * (count || 1n)
    const seconds = (refill + whole - 1n) / whole
    const units = this.fields.kind === 'RATE' ? (seconds * second * count) / this.#period : count
    return { units: atMost(units), seconds: atMost(seconds) }
  }

  /** Returns the limit as the commands take it, such as `RATE 5/1s BURST 10`. */
  toString(): string {
    return this.words.join(' ')
  }
}

/** Returns the window in which denied calls count, of an option `banAfter` such as `10/1h`. */
export function denialsOf(banAfter: unknown): Limit {
  const [, count, period] = /^([1-9]\d{0,14})\/(.+)$/.exec(typeof banAfter === 'string' ? banAfter : '') ?? []
  if (!count) throw new RangeError(`banAfter must be a count, at least 1, and a period, such as '10/1h', not ${String(banAfter)}`)
  nanoseconds(period, 'banAfter: the period')
  return fixed(Number(count), period as Period, { first: true })
}

/** Returns an integer as header fields take it (RFC 9651, 3.3.1). */
function atMost(integer: bigint): number {
  return Number(integer < 999_999_999_999_999n ? integer : 999_999_999_999_999n)
}

/**
 * Lets `count` units through per period at a steady rate, in bursts of up to `burst` (GCRA, a bucket that refills
 * evenly). Without `burst` it is the count.
 *
 *     const perUser = rate(5, '1s', { burst: 10 })
 */
export function rate(count: number, period: Period, options: RateOptions = {}): Limit {
  return new Limit(Object.assign({}, options, { kind: 'RATE' as const, count, period }))
}

/**
 * Never lets more than `count` units through in any interval of length `period`.
 *
 *     const mails = window(10, '1m')
 */
export function window(count: number, period: Period, options: LimitOptions = {}): Limit {
  return new Limit(Object.assign({}, options, { kind: 'WINDOW' as const, count, period }))
}

/**
 * Lets `count` units through in each calendar window: `1d` is midnight to midnight UTC, unless there is a `zone`; also
 * in `w`, `mo` and `y`.
 *
 *     const quota = fixed(100_000, '1mo', { zone: 'Europe/Berlin' })
 */
export function fixed(count: number, period: Period, options: FixedOptions = {}): Limit {
  return new Limit(Object.assign({}, options, { kind: 'FIXED' as const, count, period }))
}

/**
 * In place of the limits of a key, in `admit` and `settle`: one of so many leases. Made by `slots`.
 *
 *     await limiter.admit({ '{7}:tokens': rate(100_000, '1m'), '{7}:running': slots(4, '1m') })
 */
export class Slots {
  constructor(
    /** How many there are. */
    readonly n?: number,
    /** How long a lease lasts that is not renewed. */
    readonly ttl?: Duration,
  ) {
    if ((n === undefined) !== (ttl === undefined)) throw new TypeError("slots need a number and a ttl, such as slots(4, '1m'); in settle neither")
    if (n !== undefined) integer('slots', n, 0)
    if (ttl !== undefined && nanoseconds(ttl, 'ttl') < 1_000_000n) throw new RangeError(`ttl: '${ttl}' is shorter than a millisecond`)
  }

  get [slotsMark](): true {
    return true
  }
}

/**
 * Takes one of `n` leases in `admit`; of 0 nobody gets one. It lasts for `ttl` if it is not renewed. In `settle` it
 * needs no numbers.
 *
 *     const running = slots(4, '5m')
 */
export function slots(n?: number, ttl?: Duration): Slots {
  return new Slots(n, ttl)
}

/** One limit or several. */
export type Limits = Limit | readonly Limit[]

/** Tells whether a text is the name of a policy. */
export const isPolicyName = (text: unknown): boolean => typeof text === 'string' && /^[A-Za-z0-9._-]{1,64}$/.test(text)

function checkPolicy(name: unknown): void {
  if (!isPolicyName(name)) throw new RangeError(`the name of a policy has 1 to 64 of A-Z a-z 0-9 . _ -, unlike '${String(name)}'`)
}

/**
 * Gives limits the name of a policy, of which they are the default: with `policies`, a hash in Redis may say otherwise,
 * for everybody or for some keys. Without it they are limits as any. A name has 1 to 64 of A-Z a-z 0-9 . _ -, or it is
 * a `RangeError`. All limits of a key belong to one policy or to none. Those without a name of their own are called as
 * their policy; of several `api-1`, `api-2`.
 *
 *     await limiter.limit('user:42', policy('api', rate(100, '1m')))
 */
export function policy(name: string, ...limits: [Limits, ...Limits[]]): readonly Limit[] {
  checkPolicy(name)
  const some = limits.flatMap((one) => asLimits(one, 'policy'))
  if (some.length === 0) throw new RangeError(`policy: ${name} needs at least one limit`)
  return some.map((limit) => limit.with({ policy: name }))
}

/** Gives limits the name of a policy: each of them once, so that the same limit stays the same. */
export class Namer {
  readonly #named = new WeakMap<Limit, Limit>()

  constructor(readonly name: string | undefined) {
    if (name !== undefined) checkPolicy(name)
  }

  /** Returns limits with the name, or as they are if there is none. */
  named(limits: readonly Limit[]): readonly Limit[] {
    return this.name === undefined ? limits : limits.map((limit) => this.one(limit))
  }

  one(limit: Limit): Limit {
    if (this.name === undefined) return limit
    const named = this.#named.get(limit) ?? limit.with({ policy: this.name })
    this.#named.set(limit, named)
    return named
  }
}

/** Returns the policy that the limits of a key belong to. */
export function policyOf(limits: readonly Limit[]): string | undefined {
  const name = limits[0]?.fields.policy
  for (const { fields } of limits) if (fields.policy !== name) throw new TypeError('limits: those of a key belong to one policy, or to none')
  return name
}

/** Returns what a limit is called: by its own name, by that of its policy, or by its place among several. */
export function nameOf(limits: readonly Limit[], rule: number): string {
  const { name, policy } = limits[rule]?.fields ?? {}
  return name ?? (limits.length === 1 ? (policy ?? 'default') : `${policy ?? 'limit'}-${rule + 1}`)
}

/** Returns one limit or several as an array. */
export function asLimits(limits: unknown, where = 'limits'): readonly Limit[] {
  const some: readonly unknown[] = Array.isArray(limits) ? limits : [limits]
  if (!some.every(isLimit)) throw new TypeError(`${where}: a limit is made by rate(), window() or fixed()`)
  return some
}

/** Writes an integer as the commands take it. */
export function integer(what: string, value: unknown, least: number): string {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least) {
    throw new RangeError(`${what} must be an integer from ${least} to 2^53 - 1, not ${String(value)}`)
  }
  return String(value)
}

/** Writes what is of a wrong kind: a text in quotes, which looks like what it should be. */
const inspected = (value: unknown) => (typeof value === 'string' ? `'${value}'` : `a ${typeof value}`)

/** Checks a text. */
export function text(what: string, value: unknown): string {
  if (typeof value !== 'string') throw new TypeError(`${what} must be a string, not a ${typeof value}`)
  return value
}
