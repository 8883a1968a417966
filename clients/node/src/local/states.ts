// The kinds of limits, each with what is used of it as of an instant: ns since the epoch. Durations are ns. The rules
// are those of spec/.
import { MistakeError } from '../errors.js'
import type { Limit } from '../limit.js'
import { type Window, windowAt } from './calendar.js'

/** The retry after of what no wait makes possible. */
export const never = -1n

/** The largest number of units, and the longest time in ns: no debt is longer. */
export const most = 2n ** 63n - 1n

/** What a key holds of a limit. */
export interface Stored {
  /**
   * When a bucket is full again (the TAT); when the last units of a window count from; the number or the beginning of a
   * fixed window.
   */
  readonly at: bigint
  /** By how much the TAT may be beyond the capacity; the units used in a fixed window. */
  readonly more: bigint
  /**
   * Of a bucket the time for which nothing was charged before each reservation, and what was charged since; of a window
   * when units count from, and how many.
   */
  readonly pairs: readonly (readonly [bigint, bigint])[]
}

/** What is left of a limit. */
export interface Standing {
  readonly capacity: bigint
  readonly available: bigint
  readonly resetNs: bigint
  readonly nextNs: bigint
}

/** A limit and what is used of it. Quantities are in units. */
export interface State {
  /**
   * A raised rate, or a clock that was set back, made the state one that has to be stored, even if the call is denied.
   */
  readonly corrected: boolean
  readonly capacity: bigint
  /**
   * How long a call may wait for its units: no bucket is charged so late that it would take more than 292 years to
   * refill.
   */
  readonly longestWait: bigint
  readonly available: bigint
  /** Until so many units are there: 0 when they are, `never` when they are more than the limit holds. */
  retryAfter(units: bigint): bigint
  readonly standing: Standing
  /** The instant from which the limit is full, 0 when nothing is used. */
  readonly fullAt: bigint
  /** Takes units that are there, or will be after a wait. */
  charge(units: bigint, waitNs: bigint): void
  /** Takes units, also those that are not there, and returns how many. */
  force(units: bigint): bigint
  /** Takes of the units of a call that was denied as many as there are, leaves spare ones, and returns how many. */
  chargeDenied(units: bigint, spare: bigint): bigint
  /** Returns units, and tells how many were lacking. */
  refund(units: bigint): bigint
  /** What to store; undefined if nothing is used. */
  readonly stored: Stored | undefined
}

/** Returns a limit with what a key holds of it, brought to an instant. */
export function stateOf(limit: Limit, now: bigint, stored: Stored | undefined): State {
  const { kind, count, first } = limit.fields
  if (count === 0) return new Zero()
  if (kind === 'RATE') return new Rate(limit, now, stored)
  if (kind === 'WINDOW') return new Sliding(limit, now, stored)
  return first ? new First(limit, now, stored) : new Fixed(limit, now, stored)
}

const greater = (a: bigint, b: bigint) => (a > b ? a : b)
const lesser = (a: bigint, b: bigint) => (a < b ? a : b)
const upwards = (a: bigint, b: bigint) => (a + b - 1n) / b

/** A limit of 0. It has no state. */
class Zero implements State {
  readonly corrected = false
  readonly capacity = 0n
  readonly longestWait = most
  readonly available = 0n
  readonly standing = { capacity: 0n, available: 0n, resetNs: 0n, nextNs: 0n }
  readonly fullAt = 0n
  readonly stored = undefined

  retryAfter(units: bigint): bigint {
    return units > 0n ? never : 0n
  }

  charge(): void {}

  force(): bigint {
    return 0n
  }

  chargeDenied(): bigint {
    return 0n
  }

  refund(): bigint {
    return 0n
  }
}

const mostLifts = 4

/**
 * The generic cell rate algorithm. The theoretical arrival time (TAT) is the instant at which the bucket is full again.
 */
class Rate implements State {
  readonly corrected: boolean
  readonly capacity: bigint
  readonly #emission: bigint
  readonly #tolerance: bigint
  #backlog: bigint // from now to the TAT
  #queue: bigint // how far the TAT may be beyond the burst tolerance: what was reserved or forced
  #lifts: (readonly [bigint, bigint])[] // the oldest first

  constructor(
    limit: Limit,
    readonly now: bigint,
    stored: Stored | undefined,
  ) {
    this.capacity = BigInt(limit.capacity)
    this.#emission = upwards(limit.periodNs, BigInt(limit.fields.count)) // rounded up, so that it never admits more
    this.#tolerance = this.capacity * this.#emission
    if (this.#tolerance > most) throw new MistakeError('ERR syntax error: a full bucket would take more than 292 years to refill')
    this.#queue = stored?.more ?? 0n
    this.#lifts = [...(stored?.pairs ?? [])]
    const ceiling = lesser(this.#tolerance + this.#queue, most)
    this.#backlog = greater((stored?.at ?? 0n) - now, 0n)
    this.corrected = this.#backlog > ceiling
    if (this.corrected || this.#backlog === 0n) {
      this.#lifts = []
      this.#set(lesser(this.#backlog, ceiling))
    }
  }

  #set(backlog: bigint): void {
    this.#backlog = backlog
    this.#queue = greater(backlog - this.#tolerance, 0n)
  }

  get longestWait(): bigint {
    return most - this.#tolerance
  }

  get fullAt(): bigint {
    return this.#backlog === 0n ? 0n : this.now + this.#backlog
  }

  get available(): bigint {
    return greater(this.#tolerance - this.#backlog, 0n) / this.#emission
  }

  retryAfter(units: bigint): bigint {
    if (units > this.capacity) return never
    return units === 0n ? 0n : greater(this.#backlog - (this.#tolerance - units * this.#emission), 0n)
  }

  get standing(): Standing {
    const { capacity, available } = this
    const nextNs = this.#backlog > 0n ? this.#backlog - (this.#tolerance - (available + 1n) * this.#emission) : 0n
    return { capacity, available, resetNs: this.#backlog, nextNs }
  }

  charge(units: bigint, waitNs: bigint): void {
    this.#move(greater(waitNs - this.#backlog, 0n), units * this.#emission)
  }

  force(units: bigint): bigint {
    const taken = lesser(units * this.#emission, most - this.#backlog)
    if (taken > 0n) this.#move(0n, taken)
    else this.#set(this.#backlog) // as a debt of this bucket
    return upwards(taken, this.#emission)
  }

  chargeDenied(units: bigint, spare: bigint): bigint {
    const taken = lesser(units * this.#emission, greater(this.#tolerance - this.#backlog - spare * this.#emission, 0n))
    if (taken > 0n) this.#move(0n, taken)
    return upwards(taken, this.#emission)
  }

  /** Moves the TAT on by idle, for which nothing is charged, and then by charged. */
  #move(idle: bigint, charged: bigint): void {
    this.#dropPastLifts()
    const [oldest, second] = this.#lifts
    const last = this.#lifts.at(-1)
    if (idle > 0n && charged > 0n) {
      if (oldest && second && this.#lifts.length === mostLifts) this.#lifts.splice(0, 2, [oldest[0] + second[0], oldest[1] + second[1]])
      this.#lifts.push([idle, charged])
    } else if (last) this.#lifts[this.#lifts.length - 1] = [last[0], last[1] + idle + charged]
    this.#set(this.#backlog + idle + charged)
  }

  /** Forgets the lifts whose slot has come. */
  #dropPastLifts(): void {
    let from = this.#lifts.reduce((at, [idle, charged]) => at - idle - charged, this.#backlog) // seen from now
    for (let oldest = this.#lifts[0]; oldest && from + oldest[0] <= 0n; oldest = this.#lifts[0]) {
      from += oldest[0] + oldest[1]
      this.#lifts.shift()
    }
  }

  refund(units: bigint): bigint {
    this.#dropPastLifts()
    let backlog = this.#backlog
    let [left, charged, refund] = [backlog, backlog, units * this.#emission]
    for (const [idle, since] of [...this.#lifts].reverse()) {
      const free = lesser(idle, left - since) // that of the oldest may have begun before now
      left -= since + free
      charged -= free
    }
    if (units > charged / this.#emission) {
      this.#lifts = []
      this.#set(0n)
      return upwards(charged, this.#emission)
    }
    let last = this.#lifts.at(-1)
    for (; last && refund >= last[1]; last = this.#lifts.at(-1)) { // a lift goes with the last that was charged since
      refund -= last[1]
      backlog -= last[1]
      backlog -= lesser(last[0], backlog)
      this.#lifts.pop()
    }
    if (last) this.#lifts[this.#lifts.length - 1] = [last[0], last[1] - refund]
    this.#set(backlog - refund)
    return units
  }

  get stored(): Stored | undefined {
    return this.#backlog === 0n ? undefined : { at: this.now + this.#backlog, more: this.#queue, pairs: [...this.#lifts] }
  }
}

const exactEntries = 64

/**
 * A unit counts for one period from its instant on. Beyond 64 entries units share instants that are no earlier than
 * their own.
 */
class Sliding implements State {
  readonly corrected: boolean
  readonly longestWait = most
  readonly capacity: bigint
  readonly #period: bigint
  #entries: (readonly [bigint, bigint])[]
  #used = 0n

  constructor(
    limit: Limit,
    readonly now: bigint,
    stored: Stored | undefined,
  ) {
    this.capacity = BigInt(limit.fields.count)
    this.#period = limit.periodNs
    this.#entries = (stored?.pairs ?? []).filter(([at]) => now - at < this.#period)
    for (const [, units] of this.#entries) this.#used += units
    // What a clock wrote that was set back since counts as if it were charged now.
    const latest = greater(now, this.#endOfSlot(now))
    let ahead = 0n
    for (let last = this.#entries.at(-1); last && last[0] > latest; last = this.#entries.at(-1)) {
      ahead += last[1]
      this.#entries.pop()
    }
    this.corrected = ahead > 0n
    if (this.corrected) this.#record(ahead)
  }

  #endOfSlot(at: bigint): bigint {
    const slot = this.#period / 64n + 1n
    return at - (at % slot) + slot - 1n
  }

  /** Adds units to the entries, and leaves the total alone. */
  #record(units: bigint): void {
    const last = this.#entries.at(-1)
    const at = last && last[0] >= this.now ? last[0] : this.#entries.length < exactEntries ? this.now : this.#endOfSlot(this.now)
    if (last?.[0] === at) {
      this.#entries[this.#entries.length - 1] = [at, last[1] + units]
      return
    }
    if (this.#entries.length > exactEntries) this.#join()
    this.#entries.push([at, units])
  }

  /** Makes one of the oldest two entries that share a slot, at the later instant. */
  #join(): void {
    for (const [i, [at, units]] of this.#entries.entries()) {
      const next = this.#entries[i + 1]
      if (!next || next[0] > this.#endOfSlot(at)) continue
      this.#entries.splice(i, 2, [next[0], units + next[1]])
      return
    }
  }

  get fullAt(): bigint {
    const last = this.#entries.at(-1)
    return last ? lesser(last[0] + this.#period, most) : 0n
  }

  get available(): bigint {
    return greater(this.capacity - this.#used, 0n)
  }

  retryAfter(units: bigint): bigint {
    if (units > this.capacity) return never
    return units === 0n ? 0n : this.#untilFreed(units - (this.capacity - this.#used))
  }

  #untilFreed(units: bigint): bigint {
    let left = units
    for (const [at, there] of this.#entries) {
      if (left <= 0n) return 0n
      left -= there
      if (left <= 0n) return this.#untilOver(at)
    }
    return 0n
  }

  #untilOver(at: bigint): bigint {
    return lesser(at + this.#period - this.now, most)
  }

  get standing(): Standing {
    const { capacity, available } = this
    const last = this.#entries.at(-1)
    const nextNs = this.#used > 0n ? this.#untilFreed(greater(this.#used - capacity, 0n) + 1n) : 0n
    return { capacity, available, resetNs: last ? this.#untilOver(last[0]) : 0n, nextNs }
  }

  charge(units: bigint): void {
    this.#take(lesser(units, this.available))
  }

  force(units: bigint): bigint {
    return this.#take(lesser(units, most - this.#used))
  }

  #take(units: bigint): bigint {
    if (units <= 0n) return 0n
    this.#record(units)
    this.#used += units
    return units
  }

  /** Where there is no room, as many of the oldest units leave. */
  chargeDenied(units: bigint, spare: bigint): bigint {
    const count = this.capacity - spare
    const taken = lesser(units, count)
    if (taken <= 0n) return 0n
    let excess = lesser(this.#used - (count - taken), taken)
    for (let oldest = this.#entries[0]; oldest && excess > 0n; oldest = this.#entries[0]) {
      const gone = lesser(oldest[1], excess)
      if (gone === oldest[1]) this.#entries.shift()
      else this.#entries[0] = [oldest[0], oldest[1] - gone]
      excess -= gone
      this.#used -= gone
    }
    return this.#take(taken)
  }

  refund(units: bigint): bigint {
    const refunded = lesser(units, this.#used)
    let left = refunded
    for (let last = this.#entries.at(-1); last && left > 0n; last = this.#entries.at(-1)) {
      const back = lesser(last[1], left)
      this.#entries.pop()
      if (back < last[1]) this.#entries.push([last[0], last[1] - back])
      left -= back
    }
    this.#used -= refunded
    return refunded
  }

  get stored(): Stored | undefined {
    const last = this.#entries.at(-1)
    return last && { at: last[0], more: 0n, pairs: [...this.#entries] }
  }
}

/** A count for the window that an instant lies in. */
abstract class Counted implements State {
  abstract readonly corrected: boolean
  readonly longestWait = most
  readonly capacity: bigint
  protected abstract readonly window: Window
  protected used = 0n

  constructor(
    limit: Limit,
    readonly now: bigint,
  ) {
    this.capacity = BigInt(limit.fields.count)
  }

  get fullAt(): bigint {
    return this.used === 0n ? 0n : lesser(this.window.end, most)
  }

  get available(): bigint {
    return greater(this.capacity - this.used, 0n)
  }

  retryAfter(units: bigint): bigint {
    if (units > this.capacity) return never
    return units <= this.available ? 0n : this.window.end - this.now
  }

  get standing(): Standing {
    const { capacity, available } = this
    const untilEnd = this.used > 0n ? this.window.end - this.now : 0n
    return { capacity, available, resetNs: untilEnd, nextNs: untilEnd }
  }

  charge(units: bigint): void {
    this.force(lesser(units, this.available))
  }

  force(units: bigint): bigint {
    const taken = greater(lesser(units, most - this.used), 0n)
    this.used += taken
    return taken
  }

  chargeDenied(units: bigint, spare: bigint): bigint {
    return this.force(lesser(units, this.available - spare))
  }

  refund(units: bigint): bigint {
    const back = lesser(units, this.used)
    this.used -= back
    return back
  }

  get stored(): Stored | undefined {
    return this.used === 0n ? undefined : { at: this.window.index, more: this.used, pairs: [] }
  }
}

/** A window of the calendar. */
class Fixed extends Counted {
  readonly corrected: boolean
  protected readonly window: Window

  constructor(limit: Limit, now: bigint, stored: Stored | undefined) {
    super(limit, now)
    this.window = windowAt(limit, now)
    this.corrected = stored !== undefined && stored.at > this.window.index
    if (stored && stored.at >= this.window.index) this.used = stored.more
  }
}

/** A window that begins with the first unit taken. */
export class First extends Counted {
  readonly corrected: boolean
  protected readonly window: Window

  constructor(limit: Limit, now: bigint, stored: Stored | undefined) {
    super(limit, now)
    const goesOn = stored !== undefined && now - stored.at < limit.periodNs
    this.corrected = goesOn && stored.at > now
    const index = goesOn && !this.corrected ? stored.at : now
    if (goesOn) this.used = stored.more
    this.window = { index, end: index + limit.periodNs }
  }
}
