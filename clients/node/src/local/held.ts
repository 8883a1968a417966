// What a key holds, as the server keeps it: a ban, what is used of limits, or leases. Instants are ns since the epoch.
import { denialsOf, type Limit } from '../limit.js'
import { calendarIdOf } from './calendar.js'
import { First, most, never, type Standing, type State, stateOf, type Stored } from './states.js'

const ms = 1_000_000n
const mostStates = 8
const mostSwept = 16 // lapsed leases that a call removes
const mostSlack = 3600n // seconds

const secondOf = (at: bigint) => (at - 1n) / 1_000_000_000n + 1n

/** What is used of a limit of the call before, or of another one that is not full yet. */
export interface Kept {
  readonly id: string
  /** The period; 0 of a window of the calendar, whose number only a call that names the limit can read. */
  readonly periodNs: bigint
  readonly stored: Stored | undefined
  /** It is not forgotten for want of room: a count of denials. */
  readonly named?: boolean
}

/** Of a rate that was a number alone, which has no period. */
const unknown = 'RATE ?'

const isRate = (id: string) => id.startsWith('RATE ')
const endIsUnknown = ({ id, periodNs, stored }: Kept) => periodNs === 0n && stored !== undefined && !isRate(id)

function fullAt({ id, periodNs, stored }: Kept): bigint {
  if (!stored || endIsUnknown({ id, periodNs, stored })) return 0n
  if (isRate(id)) return stored.at
  const end = id.startsWith('FIXED ') ? (stored.at + 1n) * periodNs : stored.at + periodNs
  return end < most ? end : most
}

/** Tells which of two is the one to forget. */
function goesBefore(one: Kept, other: Kept): boolean {
  if (endIsUnknown(one) !== endIsUnknown(other)) return endIsUnknown(other)
  if (endIsUnknown(one)) return (one.stored?.at ?? 0n) > (other.stored?.at ?? 0n)
  return fullAt(one) < fullAt(other)
}

/** What a key holds, and until when. */
export class Held {
  /** The limits that the call before named come first, in its order, then others. */
  kept: readonly Kept[] = []
  /** 0 without a ban; one that is over stays until something else is stored. */
  bannedUntil = 0n
  /** When leases lapse, in ms, by id. Some may have. */
  readonly #leases = new Map<string, bigint>()
  #expiresMs = 0n

  /** Tells whether there is anything. */
  exists(now: bigint): boolean {
    return (this.kept.length > 0 || this.bannedUntil > 0n || this.#leases.size > 0) && this.#expiresMs >= now / ms
  }

  /** In the very ms of its expiry a key still exists. */
  get expiresMs(): bigint {
    return this.#expiresMs
  }

  get isLeases(): boolean {
    return this.#leases.size > 0
  }

  clear(): void {
    this.kept = []
    this.bannedUntil = 0n
    this.#leases.clear()
    this.#expiresMs = 0n
  }

  /** Bans the key until an instant, and leaves the rest as it is. */
  ban(until: bigint): void {
    this.bannedUntil = until
    this.expire(until, true)
  }

  liftBan(): void {
    this.bannedUntil = 0n
    if (this.kept.length === 0 && !this.isLeases) this.clear()
  }

  /** The key expires at an instant, rounded up to a second. */
  expire(at: bigint, noEarlier: boolean): void {
    const expiresMs = secondOf(at) * 1000n
    if (!noEarlier || expiresMs > this.#expiresMs) this.#expiresMs = expiresMs
  }

  /**
   * The key is in use until an instant: it stays up to a quarter longer, so that calls that follow leave its expiry as
   * it is.
   */
  use(until: bigint, now: bigint): void {
    const second = secondOf(until)
    const slack = (second - now / 1_000_000_000n) / 4n
    const [due, latest] = [second * 1000n, (second + (slack < mostSlack ? slack : mostSlack)) * 1000n]
    if (this.#expiresMs < due || this.#expiresMs > latest) this.#expiresMs = latest
  }

  /** The leases that have not lapsed: when they do, in ms, by id. */
  leases(now: bigint): Map<string, bigint> {
    return new Map([...this.#leases].filter(([, lapses]) => lapses > now / ms))
  }

  /** Stores a lease, and removes some that have lapsed. */
  lease(id: string, lapses: bigint, now: bigint): void {
    const lapsed = [...this.#leases].filter(([other, at]) => at <= now / ms && other !== id).sort(([, a], [, b]) => (a < b ? -1 : a > b ? 1 : 0))
    for (const [other] of lapsed.slice(0, mostSwept)) this.#leases.delete(other)
    this.renew(id, lapses)
  }

  renew(id: string, lapses: bigint): void {
    this.#leases.set(id, lapses)
    this.#expireWithLast()
  }

  release(id: string, now: bigint): void {
    const held = this.leases(now)
    if (held.size === 1 && held.has(id)) this.clear()
    this.#leases.delete(id)
    this.#expireWithLast()
  }

  #expireWithLast(): void {
    this.#expiresMs = [...this.#leases.values()].reduce((a, b) => (a > b ? a : b), 0n)
  }
}

const ids = new WeakMap<Limit, { id: string; periodNs: bigint }>()

/** What makes limits of a key one: their kind and their windows, but no count. */
function idOf(limit: Limit): { id: string; periodNs: bigint } {
  let known = ids.get(limit)
  if (known) return known
  const { kind, first } = limit.fields
  const calendar = kind === 'FIXED' && !first ? calendarIdOf(limit) : undefined
  known = calendar === undefined ? { id: `${first ? 'FIRST' : kind} ${limit.periodNs}`, periodNs: limit.periodNs } : { id: `FIXED ${calendar}`, periodNs: 0n }
  ids.set(limit, known)
  return known
}

/** A limit of a call, with what is used of it. */
export class Row {
  readonly id: string
  readonly periodNs: bigint
  readonly shadow: boolean
  /** A limit of 0, of which nothing is kept. */
  readonly zero: boolean
  state!: State
  stored = false // the key holds it, or is to
  charged = 0n
  changed = false

  constructor(
    readonly keyIndex: number,
    readonly rule: number,
    readonly limit: Limit,
    readonly spare: bigint,
  ) {
    const { id, periodNs } = idOf(limit)
    this.id = id
    this.periodNs = periodNs
    this.shadow = limit.fields.shadow === true
    this.zero = limit.fields.count === 0
  }

  get isRate(): boolean {
    return isRate(this.id) && !this.zero
  }

  /** What a call of this cost asks of the limit. */
  units(cost: bigint): bigint {
    const { take } = this.limit.fields
    return take === undefined ? cost : BigInt(take)
  }

  get left(): bigint {
    const left = this.state.available - this.spare
    return left > 0n ? left : 0n
  }

  /** Until there are units and, unless they are 0, those to spare. */
  wait(units: bigint): bigint {
    return units === 0n ? 0n : this.state.retryAfter(units + this.spare)
  }

  /** A wait, or less where the limit cannot be charged so late. */
  longestWait(wait: bigint): bigint {
    return wait < this.state.longestWait ? wait : this.state.longestWait
  }

  /** What is left for this caller, who has to spare some. */
  get standing(): Standing {
    const { state, spare } = this
    const standing = state.standing
    if (spare === 0n) return standing
    if (spare >= standing.capacity) return { ...standing, available: 0n, resetNs: 0n, nextNs: 0n }
    return standing.available < spare ? { ...standing, available: 0n, nextNs: state.retryAfter(spare + 1n) } : { ...standing,
      available: standing.available - spare }
  }
}

/** The limits of a call on a key, and what the key holds of others. */
export class Stack {
  #kept: Kept[] = []
  #addsNone = false

  constructor(
    readonly held: Held,
    readonly rows: readonly Row[],
    readonly now: bigint,
  ) {
    const found = this.#match()
    for (const row of rows) row.state = stateOf(row.limit, now, found.get(row))
  }

  /**
   * Finds out which limit has what of what the key holds: the first has the first where there are several. A rate alone
   * is the first rate.
   */
  #match(): Map<Row, Stored | undefined> {
    const found = new Map<Row, Stored | undefined>()
    const [alone] = this.held.kept
    const lone = this.held.kept.length === 1 && alone !== undefined && isRate(alone.id)
    const give = ({ id, stored }: Kept, anyRate: boolean) => {
      const row = this.rows.find((each) => !each.stored && !each.zero && (anyRate ? each.isRate : each.id === id))
      if (row) found.set(row, stored)
      if (row) row.stored = true
      return row !== undefined
    }
    for (const one of this.held.kept) {
      if (give(one, lone)) continue
      // The number alone has no period; what was reserved or forced has one.
      this.#kept.push(lone && one.stored?.more === 0n ? { id: unknown, periodNs: 0n, stored: one.stored } : { ...one, named: false })
    }
    const number = this.#kept.findIndex(({ id }) => id === unknown)
    const [one] = number < 0 || lone ? [] : this.#kept.slice(number)
    if (one && give(one, true)) this.#kept.splice(number, 1)
    return found
  }

  get changed(): boolean {
    return this.rows.some(({ changed }) => changed)
  }

  /** Limits that the key does not hold are not to be stored. */
  addNone(): void {
    this.#addsNone = true
  }

  /**
   * Limits that the key does not hold are stored if they were charged, with those in front that would be taken for
   * them.
   */
  addCharged(): void {
    this.#addsNone = true
    for (const [i, row] of this.rows.entries()) {
      if (row.stored || row.charged <= 0n) continue
      for (const before of this.rows.slice(0, i + 1)) if (row.isRate ? before.isRate : before.id === row.id && !before.zero) before.stored = true
    }
  }

  /**
   * Counts a denied call: whether it was the last of those that a ban takes, and whether what is stored has changed.
   */
  countDenial(banAfter: string): { last: boolean; changed: boolean } {
    const limit = denialsOf(banAfter)
    const id = `AFTER ${limit.periodNs}`
    const at = this.#kept.findIndex((one) => one.id === id)
    const counted = new First(limit, this.now, this.#kept[at]?.stored)
    if (at >= 0) this.#kept.splice(at, 1)
    counted.force(1n)
    if (counted.available === 0n) return { last: true, changed: at >= 0 }
    this.#kept.unshift({ id, periodNs: limit.periodNs, stored: counted.stored, named: true })
    return { last: false, changed: true }
  }

  /** Stores what the limits have become. If all are full, the key goes. */
  store(): void {
    const { held, now } = this
    if (held.bannedUntil > now) {
      this.storeBehind(held.bannedUntil)
      return
    }
    const full = this.#fullAt()
    const keepsCalendar = this.#kept.some(endIsUnknown)
    if (full <= now && !keepsCalendar) {
      held.clear()
      return
    }
    const exists = held.exists(now)
    held.kept = this.#stored()
    held.bannedUntil = 0n
    if (exists && !keepsCalendar) held.use(full, now)
    else held.expire(full > now ? full : now + 1n, exists)
  }

  /** Bans the key until an instant, and stores what the limits have become behind the ban. */
  storeBehind(until: bigint): void {
    const { held, now } = this
    const full = this.#fullAt()
    const keepsCalendar = this.#kept.some(endIsUnknown)
    const noEarlier = keepsCalendar && held.exists(now)
    held.kept = full > now || keepsCalendar ? this.#stored() : []
    held.bannedUntil = until
    held.expire(until > full ? until : full, noEarlier)
  }

  #fullAt(): bigint {
    this.#forget()
    return [...this.rows.map(({ state }) => state.fullAt), ...this.#kept.map(fullAt)].reduce((a, b) => (a > b ? a : b), 0n)
  }

  /**
   * Drops what does not have to be kept of limits that the call does not name: those that are full, and those without
   * room.
   */
  #forget(): void {
    let full: Kept | undefined
    for (let i = this.#kept.length - 1; i >= 0; i--) {
      const one = this.#kept[i]
      if (!one || endIsUnknown(one) || fullAt(one) > this.now) continue
      if (this.#countsOn(i)) {
        this.#kept[i] = { ...one, stored: undefined }
        continue
      }
      if (isRate(one.id)) full = { ...one, stored: undefined }
      this.#kept.splice(i, 1)
    }
    if (full && this.#loneRate()) this.#kept.push(full) // the number alone would belong to whichever of the two a call names first
    while (this.#kept.length + this.rows.filter((row) => this.#stores(row)).length > mostStates) this.#forgetOne()
  }

  /** Tells whether a limit of the same kind and windows is behind: only their order tells which is which. */
  #countsOn(index: number): boolean {
    return this.#kept.slice(index + 1).some(({ id }) => id === this.#kept[index]?.id)
  }

  #forgetOne(): void {
    let soonest = this.#kept.length - 1
    for (let i = soonest - 1; i >= 0; i--) {
      const [one, other] = [this.#kept[i], this.#kept[soonest]]
      if (one && other && !one.named && !this.#countsOn(i) && goesBefore(one, other)) soonest = i
    }
    this.#kept.splice(soonest, 1)
  }

  #stores(row: Row): boolean {
    return (!this.#addsNone || row.stored) && !row.zero
  }

  /** The only limit that is to be stored, if it is a rate. */
  #loneRate(): Row | undefined {
    const [first] = this.rows
    if (this.#kept.length > 0 || !first) return undefined
    if (this.rows.length === 1) return first.isRate ? first : undefined
    return this.#addsNone || this.rows.some(({ zero }) => zero) ? this.#loneRateOfStored() : undefined
  }

  /**
   * Beside a rate that is left alone, stores one of the call that stands in front of it: a later call would take the
   * number for it.
   */
  #loneRateOfStored(): Row | undefined {
    const stored = this.rows.filter((row) => this.#stores(row))
    const [rate] = stored
    if (stored.length !== 1 || !rate?.isRate) return undefined
    const before = this.rows.slice(0, this.rows.indexOf(rate))
    const other = before.filter((row) => row.isRate).at(-1)
    if (other) {
      other.stored = true
      return undefined
    }
    const zero = this.#addsNone ? undefined : before.find((row) => row.zero && isRate(row.id) && row.id !== rate.id)
    if (zero) this.#kept.push({ id: zero.id, periodNs: zero.periodNs, stored: undefined })
    return zero ? undefined : rate
  }

  #stored(): Kept[] {
    const lone = this.#loneRate()
    const { stored } = lone?.state ?? {}
    if (lone && stored) return [{ id: lone.id, periodNs: lone.periodNs, stored: { ...stored, pairs: [] } }]
    return [...this.rows.filter((row) => this.#stores(row)).map(({ id, periodNs, state }) => ({ id, periodNs, stored: state.stored })), ...this.#kept]
  }
}

/** The slots of a key, as of a call. */
export class Slots {
  readonly held: boolean
  readonly limited: boolean
  readonly remaining: bigint
  /** Until one is free; `never` if there are none at all. */
  readonly retry: bigint
  readonly lapses: bigint // in ms, the lease of the call

  constructor(
    readonly key: Held,
    readonly keyIndex: number,
    readonly slots: bigint,
    ttlNs: bigint,
    readonly id: string,
    readonly now: bigint,
  ) {
    const leases = key.leases(now)
    this.held = leases.has(id)
    const free = slots - BigInt(leases.size)
    this.limited = !this.held && free <= 0n
    this.remaining = free <= 0n ? 0n : this.held ? free : free - 1n
    this.lapses = (now + ttlNs + ms - 1n) / ms
    this.retry = !this.limited ? 0n : slots === 0n ? never : this.until.nextNs
  }

  /** Until the next lease lapses, and until the last one. */
  get until(): { nextNs: bigint; allNs: bigint } {
    const lapses = [...this.key.leases(this.now).values()].map((at) => at * ms - this.now).sort((a, b) => (a < b ? -1 : 1))
    return { nextNs: lapses[0] ?? 0n, allNs: lapses.at(-1) ?? 0n }
  }

  /** How many nobody holds. */
  get free(): bigint {
    const free = this.slots - BigInt(this.key.leases(this.now).size)
    return free > 0n ? free : 0n
  }

  take(): void {
    this.key.lease(this.id, this.lapses, this.now)
  }
}
