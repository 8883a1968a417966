// The header fields of draft-ietf-httpapi-ratelimit-headers-11: their names and their form are here and nowhere else.
// spec/clients/fields.json has the rules as a table.
import { type Limit, nameOf } from '../limit.js'
import type { Result } from '../result.js'

const policyField = 'RateLimit-Policy'
const limitField = 'RateLimit'
export const exposeField = 'Access-Control-Expose-Headers'

const seconds = (ms: number) => Math.ceil(ms / 1000)

/** The limits of each key that counted. */
type InForce = readonly (readonly Limit[])[]

/** Returns the fields of a response for a result. Where no limit was asked there are none. */
export function fieldsOf(limits: InForce, result: Result, xRateLimit: 'seconds' | 'unix' | undefined): [string, string][] {
  const of = (key: number) => limits[key] ?? []
  if (result.by === 'none') return []
  const policy = limits.flatMap(policies)
  const decided = of(result.keyIndex)
  const hidden = (limits: readonly Limit[], rule: number) => limits[rule]?.fields.shadow === true
  const visible = result.banned || !hidden(decided, result.rule)
  let items: string[] = []
  if (result.banned) {
    const after = Math.min(result.retryAfterMs ?? Infinity, result.resetAfterMs)
    items = decided.flatMap((_, rule) => (hidden(decided, rule) ? [] : [item(decided, rule, 0, after)]))
  } else if (result.each.length > 0) {
    items = result.each.flatMap((each) => {
      if (hidden(of(each.keyIndex), each.rule)) return []
      const mine = each.keyIndex === result.keyIndex && each.rule === result.rule
      return [item(of(each.keyIndex), each.rule, each.remaining, mine ? result.nextAfterMs : each.resetAfterMs)]
    })
  } else if (visible) {
    items = [item(decided, result.rule, result.remaining, result.nextAfterMs)]
  }
  const fields: [string, string][] = [
    [policyField, policy.join(', ')],
    [limitField, items.join(', ')],
  ]
  if (result.limited && result.retryAfterMs !== null) fields.push(['Retry-After', String(Math.max(1, seconds(result.retryAfterMs)))])
  if (xRateLimit && visible) {
    const now = xRateLimit === 'unix' ? Math.ceil(Date.now() / 1000) : 0
    fields.push(
      ['X-RateLimit-Limit', String(result.limit)],
      ['X-RateLimit-Remaining', String(result.remaining)],
      ['X-RateLimit-Reset', String(seconds(result.resetAfterMs) + now)],
    )
  }
  return fields.filter(([, value]) => value !== '')
}

/**
 * Returns limits whose names no other limit of a response has. A name that is taken gets the next number that is free:
 * `default-2`, `limit-3`. Their names are taken then, too.
 */
export function apart(limits: InForce, taken: Set<string>): InForce {
  const names = limits.map((some) => some.map((_, rule) => nameOf(some, rule)))
  const own = new Set(names.flat())
  const free = (name: string) => {
    const [, stem = name, number = 1] = /^(.*)-([1-9]\d{0,8})$/.exec(name) ?? []
    for (let n = Number(number) + 1; ; n++) if (!taken.has(`${stem}-${n}`) && !own.has(`${stem}-${n}`)) return `${stem}-${n}`
  }
  return limits.map((some, key) => some.map((limit, rule) => {
    const called = names[key]?.[rule] ?? ''
    const name = taken.has(called) ? free(called) : called
    taken.add(name)
    return name === called ? limit : limit.with({ name })
  }))
}

function quoted(text: string): string {
  if (!/^[\x20-\x7e]*$/.test(text)) throw new RangeError(`the name or unit of a limit is printable ASCII, for header fields, not '${text}'`)
  return `"${text.replace(/["\\]/g, '\\$&')}"`
}

/** Returns the items of RateLimit-Policy: q units come back in w seconds. A limit with shadow is none for clients. */
export function policies(limits: readonly Limit[]): string[] {
  return limits.flatMap((limit, rule) => {
    const { shadow, unit } = limit.fields
    const { units, seconds } = limit.quota
    const text = `${quoted(nameOf(limits, rule))};q=${units}${unit ? `;qu=${quoted(unit)}` : ''};w=${seconds}`
    return shadow ? [] : [text]
  })
}

/** Returns an item of RateLimit: r units remain, and the next one comes in t seconds. A full limit has no t. */
function item(limits: readonly Limit[], rule: number, remaining: number, afterMs: number): string {
  return `${quoted(nameOf(limits, rule))};r=${remaining}${afterMs > 0 ? `;t=${seconds(afterMs)}` : ''}`
}

/** Returns whether a field is a list, to which nested middlewares add their items. */
export function isList(name: string): boolean {
  return name === policyField || name === limitField || name === exposeField
}

/** Returns a field that may be there already: those that are lists are joined, so that middlewares may be nested. */
export function merged(name: string, value: string, there: string | undefined): string {
  return there && isList(name) ? `${there}, ${value}` : value
}
