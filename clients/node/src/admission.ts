// Admissions: units by an estimate, and slots, taken together; then what was used.
import { randomUUID } from 'node:crypto'
import { type Call, check, entriesOf, type Key, type Keys, many, type OptionsOf } from './call.js'
import type { Decider } from './decider.js'
import { type Duration, milliseconds } from './duration.js'
import { passes } from './endings.js'
import { type Abandon, firstTtl, Holding, lateMs, mayBeHeld } from './lease.js'
import { type Limit, type Limits, nameOf, type Slots } from './limit.js'
import { type Allowed, inForce } from './result.js'

/** Options of `admit`. */
export type AdmitOptions = OptionsOf<'admit'>

/**
 * Units and slots that were taken together. The slots renew themselves until the admission is settled.
 *
 *     await using admission = await limiter.admit({ '{7}:tokens': rate(100_000, '1m', { take: 1200 }), '{7}:running': slots(4, '5m') })
 *     await admission.settle({ '{7}:tokens': 734 })
 */
export class Admission extends Holding {
  readonly #call: Call
  /** What the server answered. */
  readonly result: Allowed

  private constructor(decider: Decider, call: Call, leases: { name: string; ttl: Duration }[], result: Allowed, sent: number) {
    super(decider, call.id ?? '', leases, result, sent)
    this.#call = call
    this.result = result
  }

  /** Takes units and slots, or throws a `LimitedError`. */
  static async take(decider: Decider, keys: Keys<Limits | Slots>, options: AdmitOptions, abandon: Abandon): Promise<Admission> {
    check('admit', options)
    const { signal, ...rest } = options
    const id = options.id ?? randomUUID()
    const asked = many('limit', keys, { ...rest, id })
    const leases = asked.keys.flatMap(({ name, ttl }) => (ttl === undefined ? [] : [{ name, ttl }]))
    if (leases.length === 0) throw new TypeError("admit: one key at least needs slots, such as slots(4, '1m'); limitAll() takes units alone")
    // Whether a shadow was charged says only its own result.
    const shadows = asked.keys.some(({ limits }) => limits?.some(({ fields }) => fields.shadow))
    const call: Call = { ...asked, ...(shadows && { each: true }),
      keys: asked.keys.map((key) => (key.ttl === undefined ? key : { ...key, ttl: firstTtl(key.ttl) })) }
    const sent = performance.now()
    let result
    try {
      result = await decider.decide(call, signal ? { signal } : {})
    } catch (error) {
      if (mayBeHeld(error, options)) abandon(settled({ ...call, keys: asked.keys }, () => 0),
        Math.max(...call.keys.map(({ ttl }) => (ttl === undefined ? 0 : milliseconds(ttl, 'ttl')))) + lateMs)
      throw error
    }
    return new Admission(decider, { ...call, keys: asked.keys }, leases, result.orThrow(), sent)
  }

  /**
   * Ends the admission: frees its slots, and charges or returns the difference between what was taken of the limits of
   * a key and what was used of them. A key that is left out stays charged as it is.
   *
   *     await admission.settle({ '{7}:tokens': 734 })
   *
   * Returns whether the server knew the admission, which it does not after its slots have lapsed; undefined if the
   * server is away: it is then settled in the background as soon as the server is back.
   */
  async settle(used: Keys<number> = {}): Promise<boolean | undefined> {
    const units = new Map(entriesOf(used))
    for (const name of units.keys()) {
      if (!this.#call.keys.some((key) => key.name === name && key.limits)) throw new TypeError('used: it names a key that the admission has no limits of')
    }
    const call = settled(this.#call, ({ name }) => units.get(name), this.result)
    if (this.ended) return false
    if (!this.end()) return true
    try {
      return !(await this.decider.decide(call)).limited
    } catch (error) {
      if (passes(error)) return undefined
      throw error
    }
  }

  /** Ends the admission. What was taken stays charged. */
  override async release(): Promise<void> {
    await this.settle()
  }
}

/** Returns the call that settles an admission. */
function settled({ keys, cost = 1, id = '' }: Call, used: (key: Key) => number | undefined, result?: Allowed): Call {
  const some = keys.flatMap((key, index): Key[] => {
    if (!key.limits) return [{ name: key.name, leased: true, ...(key.ttl !== undefined && { ttl: key.ttl }) }]
    const units = used(key)
    if (units === undefined) return []
    const charged = (rule: number) => !result?.each.some((each) => each.limited && each.keyIndex === index && each.rule === rule)
    const limits = result ? taken(inForce(keys, result, index)) : key.limits
    if (limits.length === 0) return [] // nothing was taken where everything passes
    return [{ name: key.name, limits: limits.map((limit, rule) => limit.with(charged(rule) ? { take: limit.fields.take ?? cost,
      used: units } : { take: undefined, used: undefined })) }]
  })
  return { verb: 'settle', keys: some, id, several: true }
}

/** Returns limits that units were taken of. Whatever becomes of their policy, they are settled by them. */
function taken(limits: readonly Limit[]): readonly Limit[] {
  return limits.map((limit, rule) => (limit.fields.policy === undefined ? limit : limit.with({ policy: undefined, name: nameOf(limits, rule) })))
}
