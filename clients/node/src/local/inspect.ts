// What CL.INSPECT tells of a key in this process.
import type { Period } from '../duration.js'
import { fixed, window } from '../limit.js'
import { type HeldKind, type HeldLimit, type Inspection, makeInspection } from '../inspection.js'
import { type Held, type Kept } from './held.js'
import { stateOf } from './states.js'

const ms = 1_000_000n
const at = (ns: bigint) => new Date(Number((ns + ms - 1n) / ms))
const msOf = (ns: bigint) => Number((ns + ms - 1n) / ms)
const most = Number.MAX_SAFE_INTEGER // no state is beyond so many units

/** Tells what a key holds at an instant, ns since the epoch, where so many callers wait. */
export function inspectHeld(held: Held | undefined, now: bigint, waiting: number): Inspection {
  const none = { now: new Date(Number(now / ms)), bytes: 0, waiting, held: 0, lapsesAt: null, bannedUntil: null, expiresAt: null, limits: [] }
  if (!held?.exists(now)) return makeInspection({ ...none, kind: 'none' })
  const expiresAt = new Date(Number(held.expiresMs))
  if (held.isLeases) {
    const leases = [...held.leases(now).values()]
    const next = leases.reduce<bigint | undefined>((a, b) => (a === undefined || b < a ? b : a), undefined)
    return makeInspection({ ...none, kind: 'leases', expiresAt, held: leases.length, lapsesAt: next === undefined ? null : new Date(Number(next)) })
  }
  const [first] = held.kept
  const isNumber = held.kept.length === 1 && first !== undefined && kindOf(first) === 'RATE' && first.stored?.more === 0n
  const limits = held.kept.map((one) => limitOf(one, now))
  return makeInspection({
    ...none, expiresAt, bannedUntil: held.bannedUntil > 0n ? at(held.bannedUntil) : null,
    kind: limits.length === 0 ? 'ban' : isNumber ? 'rate' : 'limits',
    limits: isNumber ? limits.map((limit) => ({ ...limit, periodMs: null })) : limits,
  })
}

const kindOf = ({ id }: Kept) => id.split(' ', 1)[0] as HeldKind

function limitOf(kept: Kept, now: bigint): HeldLimit {
  const { periodNs, stored } = kept
  const kind = kindOf(kept)
  const unused = { kind, periodMs: periodNs === 0n ? null : msOf(periodNs), used: 0, entries: 0, nextAt: null, resetAt: null, queueMs: 0 }
  if (!stored) return unused
  if (kind === 'RATE') return stored.at > now ? { ...unused, used: null, resetAt: at(stored.at), queueMs: msOf(stored.more) } : unused
  if (periodNs === 0n) return { ...unused, used: Number(stored.more) }
  const period = `${periodNs / ms}.${String(periodNs % ms).padStart(6, '0')}ms` as Period
  const limit = kind === 'WINDOW' ? window(most, period) : fixed(most, period, kind === 'FIXED' ? {} : { first: true })
  const state = stateOf(limit, now, stored)
  const { capacity, available, resetNs, nextNs } = state.standing
  if (available === capacity) return unused
  const entries = kind === 'WINDOW' ? (state.stored?.pairs.length ?? 0) : 0
  return { ...unused, used: Number(capacity - available), entries, nextAt: at(now + nextNs), resetAt: at(now + resetNs) }
}
