// The fields of the hash of policies, and their values. spec/clients/policies.json has the rules as a table.
import { type Duration, nanoseconds } from '../duration.js'
import { denialsOf, isPolicyName, Limit, policy } from '../limit.js'
import { inPolicies, readLimits, wordsIn } from '../parse.js'

/** What a field is about: a policy as a whole, one key of it, or all keys that begin with a prefix. */
export interface Field {
  readonly name: string
  readonly key?: string
  readonly prefix?: string
}

/**
 * Reads a field; undefined if it is no policy's. A * at the end makes a key the beginning of keys; anywhere else it is
 * itself.
 */
export function readField(field: string): Field | undefined {
  const slash = field.indexOf('/')
  const name = slash < 0 ? field : field.slice(0, slash)
  if (!isPolicyName(name)) return undefined
  if (slash < 0) return { name }
  const key = field.slice(slash + 1)
  return key.endsWith('*') ? { name, prefix: key.slice(0, -1) } : { name, key }
}

/** What a field says. */
export interface Value {
  /** The limits, with the name of their policy; none lets everything through. */
  readonly limits: readonly Limit[]
  /** For how long a denied call bans its key. */
  readonly ban?: Duration
  /** Of which denial the ban begins. */
  readonly banAfter?: string
}

const most = 8 // limits of a key
const longest = 2n ** 63n - 1n
const day = 86_400_000_000_000n
const longestBan = 36_500n * day

/** Reads a value, or throws. */
export function readValue(name: string, text: string): Value {
  const words = wordsIn(text)
  if (words.length === 1 && words[0]?.toUpperCase() === 'NONE') return { limits: [] }
  const limits = readLimits(words, inPolicies, 'BAN').map((fields) => new Limit(fields))
  if (limits.length > most) throw new RangeError(`limits: there are ${limits.length}, and ${most} at most`)
  for (const limit of limits) checkLimit(limit)
  const [first] = limits
  const made = first ? policy(name, first, ...limits.slice(1)) : []
  if (words.length === 0) return { limits: made }
  const [, ban = '', after, banAfter, more] = words as (string | undefined)[]
  const banned = nanoseconds(ban, 'BAN')
  if (banned === 0n || banned > longestBan) throw new RangeError('BAN takes a length of time of at most 100 years, not 0')
  if (after === undefined) return { limits: made, ban: ban as Duration }
  if (after.toUpperCase() !== 'AFTER' || more !== undefined) throw new SyntaxError(`BAN: expected AFTER or the end behind it, not '${more ?? after}'`)
  try {
    denialsOf(banAfter)
  } catch {
    throw new RangeError(`AFTER takes a count, at least 1, and a period, such as 10/1h, not '${banAfter ?? ''}'`)
  }
  return { limits: made, ban: ban as Duration, ...(banAfter !== undefined && { banAfter }) }
}

/** Refuses what a server would refuse with each call. */
function checkLimit(limit: Limit): void {
  const { kind, count, offset, zone, name, first } = limit.fields
  if (name !== undefined && !isPolicyName(name)) throw new RangeError(`NAME takes 1 to 64 of A-Z a-z 0-9 . _ -, not '${name}'`)
  if (kind === 'RATE' && count > 0 && (limit.periodNs * BigInt(limit.capacity)) / BigInt(count) > longest) throw new RangeError(`${String(limit)}: it would take more than 292 years to refill`)
  if (kind === 'RATE' && BigInt(count) > limit.periodNs) throw new RangeError(`${String(limit)}: it is faster than a unit in a nanosecond`)
  if (kind !== 'FIXED') return
  if (first && /(mo|y)$/.test(limit.words[1] ?? '')) throw new RangeError('FIRST goes with periods of one length, in ms, s, m, h, d or w')
  if (offset !== undefined && nanoseconds(offset, 'OFFSET') >= limit.periodNs) throw new RangeError(`OFFSET: '${offset}' is not shorter than the period`)
  if (!zone) return
  if (/(ns|ms|[smh])$/.test(limit.words[1] ?? '') && limit.periodNs % day !== 0n) throw new RangeError('TZ goes with periods of whole days, weeks, months or years')
  try {
    if (!/^[A-Z][^/]*(?:\/[A-Z][^/]*)*$/.test(zone) || zone.startsWith('SystemV/')) throw new RangeError('no name of IANA')
    // Intl takes any case; it says how a zone is written, or which other one it is.
    const { timeZone } = new Intl.DateTimeFormat('en', { timeZone: zone }).resolvedOptions()
    if (timeZone !== zone && timeZone.toLowerCase() === zone.toLowerCase()) throw new RangeError('in another case')
  } catch {
    throw new RangeError(`TZ: there is no time zone '${zone}'`)
  }
}
