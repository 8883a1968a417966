// What a key holds, for somebody who does not know its limits.
import type { Leave } from './call.js'

/** What a key holds: nothing, a lone rate as redis-cell stores it, any other limits, a ban alone, or leases. */
export type Holds = 'none' | 'rate' | 'limits' | 'ban' | 'leases'

/**
 * The kind of a limit that a key holds. `FIRST` is a `FIXED` with `FIRST`, and `AFTER` counts the denied calls for a
 * ban after several.
 */
export type HeldKind = 'RATE' | 'WINDOW' | 'FIXED' | 'FIRST' | 'AFTER'

/** What a key holds of one limit. Counts and bursts come with calls, and are not stored. */
export interface HeldLimit {
  /** The kind of the limit. */
  readonly kind: HeldKind
  /** Null if the key does not tell: of a lone rate, and of a `FIXED` by the calendar. */
  readonly periodMs: number | null
  /** The units, or denied calls, that count now. Null of a `RATE` that is not full: they depend on its count. */
  readonly used: number | null
  /** Of a `WINDOW`: how many entries of its state count. */
  readonly entries: number
  /**
   * When the first used units come back. Null if none is used, or the key does not tell: of a `RATE`, and of a `FIXED`
   * by the calendar.
   */
  readonly nextAt: Date | null
  /** When all units are back. Null if none is used, or the key does not tell: of a `FIXED` by the calendar. */
  readonly resetAt: Date | null
  /** By how much a `RATE` was overdrawn when it was written: by reserved slots, or debt. */
  readonly queueMs: number
}

/** What a key holds, and until when. */
export interface Inspection {
  /** What there is. */
  readonly kind: Holds
  /** The server's clock, with which the other instants are to be compared. */
  readonly now: Date
  /** The length of the string: 0 of leases, and of a fake. */
  readonly bytes: number
  /** Null of a key that never expires, or is not there. */
  readonly expiresAt: Date | null
  /** Whether the key is banned now. */
  readonly banned: boolean
  /** When the ban ends, null without one. One that is over stays until the next write. */
  readonly bannedUntil: Date | null
  /** How many leases have not lapsed. */
  readonly held: number
  /** When the next of them lapses, null without any. */
  readonly lapsesAt: Date | null
  /** How many callers stand in line on this server: 0 without the module. */
  readonly waiting: number
  /** Those that the latest call named come first. */
  readonly limits: readonly HeldLimit[]
}

/** Who can tell what a key holds. */
export interface Inspector {
  inspect(key: string, options?: Leave): Promise<Inspection>
}

/** Makes an inspection of the fields of a reply. */
export function makeInspection(fields: Omit<Inspection, 'banned'>): Inspection {
  return { ...fields, banned: fields.bannedUntil !== null && fields.bannedUntil > fields.now }
}

/** Reads the reply to CL.INSPECT: names and values by turns, a Map or an object. */
export function readInspection(reply: unknown): Inspection {
  const field = fieldsOf(reply)
  const limits = field('limits')
  if (!Array.isArray(limits)) throw odd(reply)
  const now = integer(field('now_ms'))
  return makeInspection({
    kind: String(field('kind')) as Holds, now: new Date(now), bytes: integer(field('bytes')), expiresAt: instant(field('expires_at_ms')),
    bannedUntil: instant(field('banned_until_ms')), held: integer(field('held')), lapsesAt: instant(field('lapses_at_ms')), waiting: integer(field('waiting')),
    limits: limits.map((entry) => {
      const of = fieldsOf(entry)
      return {
        kind: String(of('kind')) as HeldKind, periodMs: known(of('period_ms')), used: known(of('used')), entries: integer(of('entries')),
        nextAt: instant(of('next_at_ms')), resetAt: instant(of('reset_at_ms')), queueMs: integer(of('queue_ms')),
      }
    }),
  })
}

const odd = (reply: unknown) => new RangeError(`the reply is ${String(reply)}, not what a key holds`)

function fieldsOf(reply: unknown): (name: string) => unknown {
  const fields = new Map<string, unknown>()
  if (reply instanceof Map) {
    for (const [name, value] of reply as Map<unknown, unknown>) fields.set(String(name), value)
  } else if (Array.isArray(reply)) {
    for (let i = 0; i + 1 < reply.length; i += 2) fields.set(String(reply[i]), reply[i + 1])
  } else if (typeof reply === 'object' && reply !== null) {
    for (const [name, value] of Object.entries(reply)) fields.set(name, value)
  }
  return (name) => {
    if (!fields.has(name)) throw odd(reply)
    return fields.get(name)
  }
}

function integer(value: unknown): number {
  const n = typeof value === 'string' || typeof value === 'bigint' ? Number(value) : value
  if (typeof n !== 'number' || !Number.isInteger(n)) throw new RangeError(`the reply has ${String(value)} in place of an integer`)
  return n
}

const known = (value: unknown) => (integer(value) < 0 ? null : integer(value))
const instant = (value: unknown) => (integer(value) > 0 ? new Date(integer(value)) : null)
