// What a key holds of one limit. Instants are ns since the epoch, durations ns. The rules are those of spec/.
import type { Limit } from '../limit.js'
import { floorDiv, windowAt } from './calendar.js'

/** The retry after of what no wait makes possible. */
export const never = -1n

/** The longest time in nanoseconds: no debt is longer. */
export const longestNs = 2n ** 63n - 1n

/** What is left of a limit. */
export interface Standing {
  capacity: number
  available: number
  resetNs: bigint
  nextNs: bigint
}

export interface State {
  /** The limit of the call. Its count may change from call to call. */
  limit: Limit
  /** Forgets what is over. A state that a clock left behind which was set back since is corrected. It comes before all that takes or returns units. */
  bringTo(now: bigint): void
  available(now: bigint): number
  /** Until so many units are there: 0 when they are, `never` when they are more than the limit holds. */
  retryAfter(now: bigint, units: number): bigint
  standing(now: bigint): Standing
  /** How long a call may wait for its units: no bucket is charged so late that it would take more than 292 years to refill. */
  readonly longestWait: bigint
  /** Takes units that are there, or will be after a wait. */
  charge(now: bigint, units: number, waitNs: bigint): void
  /** Takes units, also those that are not there, and returns how many. */
  force(now: bigint, units: number): number
  /** Takes of the units of a call that was denied as many as there are, and leaves spare ones. */
  chargeDenied(now: bigint, units: number, spare: number): void
  /** Returns units, and tells how many were lacking. */
  refund(now: bigint, units: number): number
  /** The instant from which the limit is full, 0 when nothing is used. */
  readonly fullAt: bigint
  /** The same state, for a call that only looks. */
  copy(): State
}

/** Returns the state of a limit of which nothing is used. */
export function newState(limit: Limit): State {
  if (limit.fields.kind === 'RATE') return new RateState(limit)
  if (limit.fields.kind === 'WINDOW') return new WindowState(limit)
  return new FixedState(limit)
}

const most = (a: bigint, b: bigint) => (a > b ? a : b)
const least = (a: bigint, b: bigint) => (a < b ? a : b)

/** By how much a reservation moved the TAT on: the time for which nothing was charged, and what was charged since. */
interface Lift {
  idle: bigint
  charged: bigint
}

const mostLifts = 4

/** The generic cell rate algorithm. The theoretical arrival time is the instant at which the bucket is full again. */
class RateState implements State {
  #tat = 0n
  #queue = 0n // how far the TAT may be beyond the burst tolerance: what was reserved or forced
  #lifts: Lift[] = [] // the oldest first

  constructor(public limit: Limit) {}

  copy(): State {
    const copy = new RateState(this.limit)
    copy.#tat = this.#tat
    copy.#queue = this.#queue
    copy.#lifts = this.#lifts.map((lift) => ({ ...lift }))
    return copy
  }

  get #emission(): bigint {
    const count = BigInt(this.limit.fields.count)
    return (this.limit.periodNs + count - 1n) / count // rounded up, so that it never admits more
  }

  get #tolerance(): bigint {
    return BigInt(this.limit.capacity) * this.#emission
  }

  get fullAt(): bigint {
    return this.#tat
  }

  get longestWait(): bigint {
    return longestNs - this.#tolerance
  }

  get #ceiling(): bigint {
    return least(this.#tolerance + this.#queue, longestNs)
  }

  #backlog(now: bigint): bigint {
    return most(least(this.#tat - now, this.#ceiling), 0n)
  }

  #set(now: bigint, backlog: bigint): void {
    this.#tat = backlog === 0n ? 0n : now + backlog
    this.#queue = most(backlog - this.#tolerance, 0n)
    if (backlog === 0n) this.#lifts = []
  }

  /** Forgets the lifts that no longer count: those whose slot has come, or all if the TAT is out of reach. */
  #dropPastLifts(now: bigint): void {
    if (this.#tat - now > this.#ceiling) this.#lifts = []
    let from = this.#lifts.reduce((at, { idle, charged }) => at - idle - charged, this.#tat)
    for (let oldest = this.#lifts[0]; oldest && from + oldest.idle <= now; oldest = this.#lifts[0]) {
      from += oldest.idle + oldest.charged
      this.#lifts.shift()
    }
  }

  /** Moves the TAT on by idle, for which nothing is charged, and then by charged. */
  #move(now: bigint, idle: bigint, charged: bigint): void {
    const [oldest, second] = this.#lifts
    const last = this.#lifts.at(-1)
    if (idle > 0n && charged > 0n) {
      if (oldest && second && this.#lifts.length === mostLifts) this.#lifts.splice(0, 2, { idle: oldest.idle + second.idle, charged: oldest.charged + second.charged })
      this.#lifts.push({ idle, charged })
    } else if (last) last.charged += idle + charged
    this.#set(now, this.#backlog(now) + idle + charged)
  }

  bringTo(now: bigint): void {
    this.#dropPastLifts(now)
    this.#set(now, this.#backlog(now))
  }

  available(now: bigint): number {
    return Number(most(this.#tolerance - this.#backlog(now), 0n) / this.#emission)
  }

  retryAfter(now: bigint, units: number): bigint {
    if (units > this.limit.capacity) return never
    return units === 0 ? 0n : most(this.#backlog(now) - (this.#tolerance - BigInt(units) * this.#emission), 0n)
  }

  standing(now: bigint): Standing {
    const resetNs = this.#backlog(now)
    const available = this.available(now)
    const nextNs = resetNs > 0n ? resetNs - (this.#tolerance - BigInt(available + 1) * this.#emission) : 0n
    return { capacity: this.limit.capacity, available, resetNs, nextNs }
  }

  charge(now: bigint, units: number, waitNs: bigint): void {
    this.#move(now, most(waitNs - this.#backlog(now), 0n), BigInt(units) * this.#emission)
  }

  force(now: bigint, units: number): number {
    const taken = least(BigInt(units) * this.#emission, longestNs - this.#backlog(now))
    this.#move(now, 0n, taken)
    return Number((taken + this.#emission - 1n) / this.#emission)
  }

  chargeDenied(now: bigint, units: number, spare: number): void {
    if (spare >= this.limit.capacity) return
    const left = most(this.#tolerance - this.#backlog(now) - BigInt(spare) * this.#emission, 0n)
    this.#move(now, 0n, least(BigInt(units) * this.#emission, left))
  }

  refund(now: bigint, units: number): number {
    let backlog = this.#backlog(now)
    let [left, charged, refund] = [backlog, backlog, BigInt(units) * this.#emission]
    for (const { idle, charged: since } of [...this.#lifts].reverse()) {
      const free = least(idle, left - since) // that of the oldest may have begun before now
      left -= since + free
      charged -= free
    }
    if (BigInt(units) > charged / this.#emission) {
      this.#set(now, 0n)
      return Number((charged + this.#emission - 1n) / this.#emission)
    }
    let last = this.#lifts.at(-1)
    for (; last && refund >= last.charged; last = this.#lifts.at(-1)) { // a lift goes with the last that was charged since
      refund -= last.charged
      backlog -= last.charged
      backlog -= least(last.idle, backlog)
      this.#lifts.pop()
    }
    if (last) last.charged -= refund
    this.#set(now, backlog - refund)
    return units
  }
}

interface Entry {
  at: bigint
  units: number
}

const exactEntries = 64

/** A unit counts for one period from its instant on. Beyond 64 entries units share instants that are no earlier than their own. */
class WindowState implements State {
  readonly longestWait = longestNs
  #entries: Entry[] = []

  constructor(public limit: Limit) {}

  copy(): State {
    const copy = new WindowState(this.limit)
    copy.#entries = this.#entries.map((entry) => ({ ...entry }))
    return copy
  }

  get fullAt(): bigint {
    const last = this.#entries.at(-1)
    return last ? last.at + this.limit.periodNs : 0n
  }

  get #slot(): bigint {
    return this.limit.periodNs / 64n + 1n
  }

  #lastOfSlot(at: bigint): bigint {
    return floorDiv(at, this.#slot) * this.#slot + this.#slot - 1n
  }

  bringTo(now: bigint): void {
    this.#entries = this.#live(now)
  }

  /** The entries that count, those of a clock that was set back since as if they were charged now. */
  #live(now: bigint): Entry[] {
    const live = this.#entries.filter(({ at }) => now - at < this.limit.periodNs)
    const last = this.#lastOfSlot(now)
    const ahead = live.filter(({ at }) => at > now && at > last)
    if (ahead.length === 0) return live
    const there = live.slice(0, -ahead.length)
    add(there, now, ahead.reduce((n, { units }) => n + units, 0))
    return there
  }

  #used(now: bigint): number {
    return this.#live(now).reduce((n, { units }) => n + units, 0)
  }

  available(now: bigint): number {
    return Math.max(this.limit.fields.count - this.#used(now), 0)
  }

  retryAfter(now: bigint, units: number): bigint {
    const { count } = this.limit.fields
    if (units > count) return never
    return units === 0 ? 0n : this.#untilFreed(now, units - (count - this.#used(now)))
  }

  #untilFreed(now: bigint, units: number): bigint {
    let left = units
    for (const entry of this.#live(now)) {
      if (left <= 0) return 0n
      left -= entry.units
      if (left <= 0) return entry.at + this.limit.periodNs - now
    }
    return 0n
  }

  standing(now: bigint): Standing {
    const used = this.#used(now)
    const { count } = this.limit.fields
    const last = this.#live(now).at(-1)
    return {
      capacity: count,
      available: Math.max(count - used, 0),
      resetNs: last ? last.at + this.limit.periodNs - now : 0n,
      nextNs: this.#untilFreed(now, used > 0 ? Math.max(used - count, 0) + 1 : 0),
    }
  }

  charge(now: bigint, units: number): void {
    this.force(now, Math.min(units, this.available(now)))
  }

  force(now: bigint, units: number): number {
    if (units <= 0) return 0
    this.bringTo(now)
    const last = this.#entries.at(-1)
    if (last && last.at >= now) last.units += units
    else this.#entries.push({ at: this.#entries.length < exactEntries ? now : this.#lastOfSlot(now), units })
    if (this.#entries.length > exactEntries + 1) this.#join()
    return units
  }

  /** Makes one of the oldest two entries that share a slot, at the later instant. */
  #join(): void {
    for (const [i, next] of this.#entries.entries()) {
      const entry = this.#entries[i - 1]
      if (!entry || this.#lastOfSlot(entry.at) !== this.#lastOfSlot(next.at)) continue
      next.units += entry.units
      this.#entries.splice(i - 1, 1)
      return
    }
  }

  chargeDenied(now: bigint, units: number, spare: number): void {
    const count = this.limit.fields.count - spare
    const taken = Math.min(units, count)
    if (taken <= 0) return
    this.bringTo(now)
    let excess = Math.min(this.#used(now) - (count - taken), taken)
    while (excess > 0) {
      const [oldest] = this.#entries
      if (!oldest) break
      const gone = Math.min(oldest.units, excess)
      oldest.units -= gone
      excess -= gone
      if (oldest.units === 0) this.#entries.shift()
    }
    this.force(now, taken)
  }

  refund(now: bigint, units: number): number {
    this.bringTo(now)
    let left = units
    for (let last = this.#entries.at(-1); last && left > 0; last = this.#entries.at(-1)) {
      const back = Math.min(last.units, left)
      last.units -= back
      left -= back
      if (last.units === 0) this.#entries.pop()
    }
    return units - left
  }
}

function add(entries: Entry[], at: bigint, units: number): void {
  const last = entries.at(-1)
  if (last && last.at >= at) last.units += units
  else entries.push({ at, units })
}

/** A count for each window of the calendar, or for windows that begin with the first unit. */
class FixedState implements State {
  readonly longestWait = longestNs
  #start = 0n
  #used = 0

  constructor(public limit: Limit) {}

  copy(): State {
    const copy = new FixedState(this.limit)
    copy.#start = this.#start
    copy.#used = this.#used
    return copy
  }

  get fullAt(): bigint {
    return this.#used === 0 ? 0n : this.#span(this.#start).end
  }

  #span(now: bigint): { start: bigint; end: bigint } {
    if (!this.limit.fields.first) return windowAt(this.limit, now)
    const going = this.#used > 0 && this.#start <= now && now - this.#start < this.limit.periodNs
    const start = going ? this.#start : now
    return { start, end: start + this.limit.periodNs }
  }

  #usedIn({ start }: { start: bigint }, now: bigint): number {
    // What is of a later window was written before the clock was set back.
    return this.#start >= start || this.#start > now ? this.#used : 0
  }

  bringTo(now: bigint): void {
    const span = this.#span(now)
    this.#used = this.#usedIn(span, now)
    this.#start = span.start
  }

  available(now: bigint): number {
    return Math.max(this.limit.fields.count - this.#usedIn(this.#span(now), now), 0)
  }

  retryAfter(now: bigint, units: number): bigint {
    if (units > this.limit.fields.count) return never
    return units <= this.available(now) ? 0n : this.#span(now).end - now
  }

  standing(now: bigint): Standing {
    const span = this.#span(now)
    const untilEnd = this.#usedIn(span, now) > 0 ? span.end - now : 0n
    return { capacity: this.limit.fields.count, available: this.available(now), resetNs: untilEnd, nextNs: untilEnd }
  }

  charge(now: bigint, units: number): void {
    this.force(now, Math.min(units, this.available(now)))
  }

  force(now: bigint, units: number): number {
    if (units <= 0) return 0
    this.bringTo(now)
    this.#used += units
    return units
  }

  chargeDenied(now: bigint, units: number, spare: number): void {
    this.force(now, Math.min(units, this.available(now) - spare))
  }

  refund(now: bigint, units: number): number {
    this.bringTo(now)
    const back = Math.min(units, this.#used)
    this.#used -= back
    return back
  }
}
