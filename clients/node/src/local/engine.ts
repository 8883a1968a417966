// Decisions in this process, by the rules of the server: for the time in which Redis is away, and for tests. spec/
// holds both to them.
import { type Call, commandOf } from '../call.js'
import { forever, wholeMilliseconds } from '../duration.js'
import { MistakeError } from '../errors.js'
import type { Inspection } from '../inspection.js'
import { type Fields, makeResult, Outcome, type Result } from '../result.js'
import { Held, Row, Slots, Stack } from './held.js'
import { inspectHeld } from './inspect.js'
import { never, type Standing } from './states.js'

export { Held } from './held.js'

/** What keys are kept in. */
export interface Keys {
  get(name: string): Held | undefined
  set(name: string, held: Held): unknown
  delete(name: string): unknown
}

const leases = new Set<string>(['lease', 'renew', 'release'])
const century = 36_500n * 86_400_000_000_000n
const milliseconds = (ns: bigint) => Number((ns + 999_999n) / 1_000_000n)
const afterMs = (ns: bigint) => (ns === never ? null : milliseconds(ns))
const longer = (a: bigint, b: bigint) => (a === never || b === never ? never : a > b ? a : b)
const isLonger = (a: bigint, b: bigint) => b !== never && (a === never || a > b)

/** What becomes of a call, as far as its limits go. */
interface Said {
  readonly limited: boolean
  readonly rule: Row
  readonly retry: bigint
  readonly granted: bigint
  readonly wait: bigint
  readonly shadow: Row | undefined
}

/** Whether a call is limited, and how long it waits or until it is to be tried again. */
interface Outlook {
  readonly limited: boolean
  readonly ns: bigint
}

/** Decides one call. Its limits are brought to now. */
class Decision {
  readonly held: readonly Held[]
  readonly stacks: readonly Stack[]
  readonly rows: readonly Row[]
  readonly slots: readonly Slots[]
  readonly cost: bigint
  readonly maxWait: bigint

  constructor(
    readonly call: Call,
    readonly keys: Keys,
    readonly now: bigint,
  ) {
    this.cost = BigInt(call.cost ?? 1)
    this.maxWait = maxWaitNs(call)
    if (new Set(call.keys.map(({ name }) => name)).size < call.keys.length) throw new MistakeError(`${commandOf(call)}: ERR syntax error: each key can be given once`)
    const leased = call.keys.map((key) => leases.has(call.verb) || key.leased === true || key.ttl !== undefined || (call.verb === 'settle' && !key.limits))
    this.held = call.keys.map(({ name }) => {
      const there = keys.get(name)
      const held = there?.exists(now) ? there : new Held()
      if (there && held !== there) keys.delete(name)
      return held
    })
    for (const [i, held] of this.held.entries()) {
      if (leased[i] ? held.kept.length > 0 || held.bannedUntil > 0n : held.isLeases) throw new MistakeError(`${commandOf(call)}: WRONGTYPE Operation against a key holding the wrong kind of value`)
    }
    const spares = call.verb !== 'refund' && call.verb !== 'settle'
    this.stacks = this.held.map((held, i) => {
      const limits = call.keys[i]?.limits ?? []
      return new Stack(held, limits.map((limit, rule) => new Row(i, rule, limit, BigInt((spares && limit.fields.spare) || 0))), now)
    })
    this.rows = this.stacks.flatMap(({ rows }) => rows)
    this.slots = this.held.flatMap((held, i) => {
      const { slots = 0, ttl = '0' } = call.keys[i] ?? {}
      return leased[i] ? [new Slots(held, i, BigInt(slots), wholeMilliseconds(ttl, 'ttl'), call.id ?? '', now)] : []
    })
  }

  /** Keeps what the keys hold now. */
  keep(): void {
    for (const [i, { name }] of this.call.keys.entries()) {
      const held = this.held[i]
      if (held?.exists(this.now)) this.keys.set(name, held)
      else this.keys.delete(name)
    }
  }

  /** Stores what the call has changed, except for one key. */
  store(but?: Stack): void {
    for (const stack of this.stacks) if (stack.changed && stack !== but) stack.store()
    this.keep()
  }

  /** What an enforced limit makes a call wait at most: the first of the longest waits, `never` being the longest. */
  longest(rows: readonly Row[], cost: bigint): { rule: Row; wait: bigint } {
    let [rule, wait] = [rows[0] as Row, 0n]
    for (const row of rows) {
      const own = row.shadow ? 0n : row.wait(row.units(cost))
      if (own === never) return { rule: row, wait: own }
      if (own > wait) [rule, wait] = [row, own]
    }
    return { rule, wait }
  }

  /** How long the call may wait: as long as it says, or less where a limit cannot be charged for so late. */
  longestWait(rows: readonly Row[]): bigint {
    return rows.reduce((ns, row) => (row.shadow ? ns : row.longestWait(ns)), this.maxWait)
  }

  /** How long the call would wait if no other limit were asked. */
  waitAlone(row: Row): bigint {
    return row.wait(this.call.charge === 'up_to' ? 1n : row.units(this.cost))
  }

  /** Until a limit alone lets the call through: 0 if it does now, or `never`. */
  retryAlone(row: Row): bigint {
    const wait = this.waitAlone(row)
    const may = row.longestWait(this.maxWait)
    if (wait === never || wait === 0n) return wait
    return wait > may ? wait - may : 0n
  }

  /** What the call takes, and what it needs to pass. */
  needed(rows: readonly Row[]): { takes: bigint; needs: bigint } {
    const { cost } = this
    if (this.call.charge !== 'up_to') return { takes: cost, needs: cost }
    let takes = cost
    for (const row of rows) if (!row.shadow && row.left < takes) takes = row.left
    if (takes === 0n && cost > 0n) takes = 1n
    return { takes, needs: takes || 1n } // also of a call for nothing
  }

  outlook(rows: readonly Row[]): Outlook {
    const { wait } = this.longest(rows, this.needed(rows).needs)
    const may = this.longestWait(rows)
    if (wait !== never && wait <= may) return { limited: false, ns: wait }
    return { limited: true, ns: wait > may ? wait - may : wait }
  }

  retryAfter(rows: readonly Row[]): bigint {
    const { limited, ns } = this.outlook(rows)
    return limited ? ns : 0n
  }

  firstShadow(rows: readonly Row[]): Row | undefined {
    return rows.find((row) => row.shadow && this.retryAlone(row) !== 0n)
  }

  /** Charges the limits, or none. Something else may have denied the call. */
  take(rows: readonly Row[], denied = false): Said {
    const { charge } = this.call
    const { takes, needs } = this.needed(rows)
    const shadow = this.firstShadow(rows)
    const may = this.longestWait(rows)
    let { rule, wait } = this.longest(rows, needs)
    if (!denied && wait !== never && wait <= may) {
      for (const row of rows) this.#charge(row, takes, wait)
      rule = tightest(rows, shadow)
      return { limited: false, rule, retry: 0n, granted: rule.shadow ? rule.charged : rule.units(takes), wait, shadow }
    }
    if (!denied && charge === 'force') {
      for (const row of rows) {
        row.charged = row.units(this.cost) > 0n ? row.state.force(row.units(this.cost)) : 0n
        row.changed = row.charged > 0n
      }
      ;({ rule, wait } = this.longest(rows, this.cost))
      return { limited: true, rule, retry: wait, granted: rule.charged, wait: 0n, shadow }
    }
    if (rows.some((row) => row.units(this.cost) > 0n)) {
      for (const row of rows) {
        row.changed = row.state.corrected
        if (charge === 'strict' && row.state.chargeDenied(row.units(this.cost), row.spare) > 0n) row.changed = true
      }
      if (charge === 'strict') ({ rule, wait } = this.longest(rows, needs))
    }
    return { limited: true, rule, retry: !denied && wait > may ? wait - may : wait, granted: 0n, wait: 0n, shadow }
  }

  /** Takes the units of a call that is let through. A shadow is charged as if it were enforced. */
  #charge(row: Row, takes: bigint, wait: bigint): void {
    const units = row.units(takes)
    if (units === 0n) return
    if (!row.shadow) {
      row.state.charge(units, wait)
      row.changed = true
      return
    }
    const { charge } = this.call
    const alone = this.waitAlone(row)
    if (alone !== never && alone <= row.longestWait(this.maxWait)) {
      row.charged = charge === 'up_to' && row.left < units ? row.left : units
      if (row.charged > 0n) row.state.charge(row.charged, row.longestWait(alone > wait ? alone : wait))
    } else {
      if (charge === 'force') row.charged = row.state.force(units)
      else if (charge === 'strict') row.charged = row.state.chargeDenied(units, row.spare)
      row.changed = charge !== 'force' && row.state.corrected
    }
    if (row.charged > 0n) row.changed = true
  }

  /** Which limits alone would not let the call through. It comes before any is charged. */
  judge(): ReadonlySet<Row> {
    return new Set(this.call.each ? this.rows.filter((row) => this.retryAlone(row) !== 0n) : [])
  }

  describe({ limited, rule, retry, granted, wait, shadow }: Said, limiting: ReadonlySet<Row>): Result {
    const result = this.#placed(rule.keyIndex, rule.rule, rule.standing)
    result.limited = limited
    result.retryAfterMs = limited ? afterMs(retry) : 0
    result.granted = Number(granted)
    result.waitMs = milliseconds(wait)
    return this.#finish(result, shadow, limiting)
  }

  describeSlots(slots: Slots, shadow: Row | undefined, limiting: ReadonlySet<Row>): Result {
    const { nextNs, allNs } = slots.until
    const result = this.#placed(slots.keyIndex, 0, { capacity: slots.slots, available: slots.remaining, resetNs: allNs, nextNs })
    result.limited = slots.limited
    result.retryAfterMs = slots.limited ? afterMs(slots.retry) : 0
    result.granted = slots.limited ? 0 : 1
    return this.#finish(result, shadow, limiting)
  }

  /** A caller that came back when only the ban is over would be limited again, and perhaps banned anew. */
  describeBan(stack: Stack, limitsNs: bigint, granted: bigint, limiting: ReadonlySet<Row>): Result {
    const rest = stack.held.bannedUntil - this.now
    const [first] = stack.rows
    const result = this.#placed(this.stacks.indexOf(stack), 0, { capacity: first?.state.capacity ?? 0n, available: 0n, resetNs: rest, nextNs: rest })
    result.limited = true
    result.banned = true
    result.retryAfterMs = afterMs(longer(rest, limitsNs))
    result.granted = Number(granted)
    return this.#finish(result, undefined, limiting)
  }

  describeSettled(settled: boolean, holds: ReadonlyMap<number, boolean>): Result {
    const rule = this.rows.length > 0 ? tightest(this.rows, undefined) : undefined
    const result = rule ? this.#placed(rule.keyIndex, rule.rule, rule.standing) : this.#placed(0, 0, nothing)
    result.limited = !settled
    result.retryAfterMs = settled ? 0 : null
    result.granted = Number(rule?.charged ?? 0n)
    // Of slots it says whether the lease was there, and when the last one lapses.
    const ofSlots = this.slots.map((slots) => {
      const retry = holds.get(slots.keyIndex) === true ? undefined : null
      return this.#one(slots.keyIndex, 0, { capacity: -1n, available: -1n, resetNs: slots.until.allNs, nextNs: 0n }, retry)
    })
    return this.#finish(result, undefined, new Set(), ofSlots)
  }

  #placed(keyIndex: number, rule: number, { capacity, available, resetNs, nextNs }: Standing): Outcome {
    const result = new Outcome()
    result.keyIndex = keyIndex
    result.key = this.call.keys[keyIndex]?.name ?? ''
    result.rule = rule
    result.limit = Number(capacity)
    result.remaining = Number(available)
    result.resetAfterMs = milliseconds(resetNs)
    result.nextAfterMs = milliseconds(nextNs)
    return result
  }

  #finish(result: Outcome, shadow: Row | undefined, limiting: ReadonlySet<Row>, ofSlots?: readonly Result[]): Result {
    if (shadow) {
      result.shadowed = true
      result.shadow = shadow.rule
      result.shadowKeyIndex = shadow.keyIndex
      result.shadowKey = this.call.keys[shadow.keyIndex]?.name ?? ''
    }
    if (this.call.each) result.each = this.#each(limiting, ofSlots ?? this.slots.map((slots) => this.#eachSlots(slots, result.limited)))
    return result as Fields as unknown as Result
  }

  /** What each limit says, and each group of slots. */
  #each(limiting: ReadonlySet<Row>, ofSlots: readonly Result[]): Result[] {
    const ofRows = this.rows.map((row) => {
      const retry = limiting.has(row) ? afterMs(this.retryAlone(row) || never) : undefined
      return this.#one(row.keyIndex, row.rule, { ...row.standing, nextNs: 0n }, retry)
    })
    return [...ofRows, ...ofSlots].sort((a, b) => a.keyIndex - b.keyIndex || a.rule - b.rule)
  }

  #eachSlots(slots: Slots, denied: boolean): Result {
    const standing = { capacity: slots.slots, available: denied ? slots.free : slots.remaining, resetNs: slots.until.allNs, nextNs: 0n }
    return this.#one(slots.keyIndex, 0, standing, slots.limited ? afterMs(slots.retry) : undefined)
  }

  /** One of each. It is limited if it says when to try again. */
  #one(keyIndex: number, rule: number, standing: Standing, retryAfterMs: number | null | undefined): Result {
    const one = this.#placed(keyIndex, rule, standing)
    one.limited = retryAfterMs !== undefined
    one.retryAfterMs = retryAfterMs === undefined ? 0 : retryAfterMs
    return one as Fields as unknown as Result
  }
}

const nothing: Standing = { capacity: 0n, available: 0n, resetNs: 0n, nextNs: 0n }

export class Engine {
  readonly #keys: Keys

  constructor(keys: Keys = new Map<string, Held>()) {
    this.#keys = keys
  }

  /** Decides a call at an instant, ns since the epoch. Nobody waits here: a call that would is denied instead. */
  decide(call: Call, now: bigint): Result {
    if (call.verb === 'reset') return this.#reset(call, now)
    if (call.verb === 'denied') return makeResult({ key: call.keys[0]?.name ?? '' }) // nobody lists keys here
    const decision = new Decision(call, this.#keys, now)
    switch (call.verb) {
      case 'limit':
      case 'wait':
        if (decision.slots.length > 0) return admit(decision)
        return call.any ? limitOne(decision) : limitAll(decision)
      case 'peek':
        return peek(decision)
      case 'refund':
        return refund(decision)
      case 'settle':
        return settle(decision)
      case 'ban':
        return ban(decision)
      case 'lease':
      case 'renew':
      case 'release':
        return lease(decision)
    }
  }

  /** Tells what a key holds at an instant, where so many callers wait. */
  inspect(key: string, now: bigint, waiting: number): Inspection {
    return inspectHeld(this.#keys.get(key), now, waiting)
  }

  #reset(call: Call, now: bigint): Result {
    const key = call.keys[0]?.name ?? ''
    const there = this.#keys.get(key)?.exists(now)
    this.#keys.delete(key)
    return makeResult({ key, granted: there ? -1 : 0 })
  }
}

function maxWaitNs(call: Call): bigint {
  if (call.verb !== 'limit' || call.maxWait === undefined) return 0n
  const ns = call.maxWait === forever ? century : wholeMilliseconds(call.maxWait, 'maxWait')
  return ns < century ? ns : century
}

/** The limit with the fewest units left. Where all are shadows, the one that would have denied. */
function tightest(rows: readonly Row[], shadow: Row | undefined): Row {
  const enforced = rows.filter((row) => !row.shadow)
  if (enforced.length === 0 && shadow) return shadow
  return (enforced.length > 0 ? enforced : rows).reduce((tight, row) => (row.left < tight.left ? row : tight))
}

/** The key that is banned for the longest time, the first of equal ones. */
function longestBan({ stacks, now }: Decision): Stack | undefined {
  let banned: Stack | undefined
  for (const stack of stacks) if (stack.held.bannedUntil > (banned?.held.bannedUntil ?? now)) banned = stack
  return banned
}

/** Asks all keys. */
function limitAll(decision: Decision): Result {
  const { call, rows, stacks, now } = decision
  const limiting = decision.judge()
  const banNs = call.ban === undefined ? 0n : wholeMilliseconds(call.ban, 'ban')
  const banned = longestBan(decision)
  if (banned && call.charge !== 'force') {
    if (call.charge === 'strict' && now + banNs > banned.held.bannedUntil) banned.held.ban(now + banNs)
    return decision.describeBan(banned, decision.retryAfter(rows), 0n, limiting)
  }
  const said = decision.take(rows)
  if (banned) { // what was used is a fact, and is kept behind the bans
    decision.store()
    return decision.describeBan(banned, decision.retryAfter(rows), said.granted, limiting)
  }
  const key = said.limited && banNs > 0n && said.retry !== never ? stacks[said.rule.keyIndex] : undefined
  decision.store(key)
  if (!key) return decision.describe(said, limiting)
  const bans = banDenied(key, call, now + banNs)
  decision.keep()
  return decision.describe(bans && said.retry < banNs ? { ...said, retry: banNs } : said, limiting)
}

/** Bans a key for a call that was denied, or counts the denial where only the last of several bans. */
function banDenied(stack: Stack, { banAfter }: Call, until: bigint): boolean {
  const counted = banAfter === undefined ? { last: true, changed: false } : stack.countDenial(banAfter)
  if (!counted.last) stack.store()
  else if (stack.changed || counted.changed) stack.storeBehind(until)
  else stack.held.ban(until)
  return counted.last
}

/** Asks the first key that has room, or else the one that has some soonest. */
function limitOne(decision: Decision): Result {
  const { call, now } = decision
  const limiting = decision.judge()
  const { stack } = best(decision)
  const banned = stack.held.bannedUntil > now
  if (banned && call.charge !== 'force') return decision.describeBan(stack, best(decision).retry, 0n, limiting)
  const said = decision.take(stack.rows)
  decision.store()
  if (banned) return decision.describeBan(stack, best(decision).retry, said.granted, limiting)
  // The debt may have made another key the first that has room.
  return decision.describe(said.limited && call.charge === 'force' ? { ...said, retry: best(decision).retry } : said, limiting)
}

/**
 * The first key that has room; if there is none, the one with the shortest wait, or else the one to come back to
 * soonest.
 */
function best(decision: Decision): { stack: Stack; retry: bigint } {
  const all = decision.stacks.map((stack) => {
    const closed = stack.held.bannedUntil - decision.now // nothing can be reserved behind a ban
    const outlook = closed > 0n ? { limited: true, ns: longer(closed, decision.retryAfter(stack.rows)) } : decision.outlook(stack.rows)
    return { stack, ...outlook }
  })
  const { stack, limited, ns } = all.reduce((first, next) => {
    if (first.limited !== next.limited) return first.limited ? next : first
    return isLonger(first.ns, next.ns) ? next : first
  })
  return { stack, retry: limited ? ns : 0n }
}

/** Takes units and slots together, or nothing. */
function admit(decision: Decision): Result {
  const { rows, slots } = decision
  let full: Slots | undefined
  for (const each of slots) if (each.limited && (!full || isLonger(each.retry, full.retry))) full = each
  if (slots.every(({ held }) => held)) { // a retry: it renews the leases and is charged nothing
    for (const each of slots) each.take()
    decision.keep()
    const rule = rows.length > 0 ? tightest(rows, undefined) : undefined
    const said = rule && { limited: false, rule, retry: 0n, granted: rule.units(decision.cost), wait: 0n, shadow: undefined }
    return describeAdmitted(decision, said, new Set())
  }
  const limiting = decision.judge()
  const banned = longestBan(decision)
  if (banned) {
    const retry = slots.reduce((ns, { limited, retry: own }) => (limited ? longer(ns, own) : ns), rows.length > 0 ? decision.retryAfter(rows) : 0n)
    return decision.describeBan(banned, retry, 0n, limiting)
  }
  const said = rows.length > 0 ? decision.take(rows, full !== undefined) : undefined
  decision.store()
  if (full ?? said?.limited) return describeDenied(decision, said, full, limiting)
  for (const each of slots) each.take()
  decision.keep()
  return describeAdmitted(decision, said, limiting)
}

/** What has the longest wait has denied the call, the first of several. */
function describeDenied(decision: Decision, said: Said | undefined, full: Slots | undefined, limiting: ReadonlySet<Row>): Result {
  const outlasts = full && said && (isLonger(full.retry, said.retry) || (full.retry === said.retry && full.keyIndex < said.rule.keyIndex))
  if (said && (!full || (said.retry !== 0n && !outlasts))) return decision.describe(said, limiting)
  return decision.describeSlots(full as Slots, said?.shadow, limiting)
}

/** What has the fewest left decides a call that is let through, the first of several. */
function describeAdmitted(decision: Decision, said: Said | undefined, limiting: ReadonlySet<Row>): Result {
  const rule = said && !decision.rows.every(({ shadow }) => shadow) ? said.rule : undefined
  let tight: Slots | undefined
  for (const slots of decision.slots) {
    const least = tight ? tight.remaining : rule?.standing.available
    const keyIndex = tight?.keyIndex ?? rule?.keyIndex ?? 0
    if (least === undefined || slots.remaining < least || (slots.remaining === least && slots.keyIndex < keyIndex)) tight = slots
  }
  return tight || !said ? decision.describeSlots(tight as Slots, said?.shadow, limiting) : decision.describe(said, limiting)
}

function peek(decision: Decision): Result {
  const { rows, stacks } = decision
  const limiting = decision.judge()
  const banned = longestBan(decision)
  if (banned) return decision.describeBan(stacks[0] as Stack, decision.retryAfter(rows), 0n, limiting)
  const { rule, wait } = decision.longest(rows, decision.cost)
  const shadow = decision.firstShadow(rows)
  const limited = wait !== 0n
  return decision.describe({ limited, rule: limited ? rule : tightest(rows, shadow), retry: wait, granted: 0n, wait: 0n, shadow }, limiting)
}

function refund(decision: Decision): Result {
  const { rows } = decision
  for (const row of rows) {
    row.charged = -row.state.refund(row.units(decision.cost))
    row.changed = row.charged < 0n
  }
  for (const stack of decision.stacks) stack.addNone()
  decision.store()
  const rule = tightest(rows, undefined)
  return decision.describe({ limited: false, rule, retry: 0n, granted: rule.charged, wait: 0n, shadow: undefined }, new Set())
}

function settle(decision: Decision): Result {
  const { slots, rows, call, now } = decision
  const holds = new Map(slots.map(({ keyIndex, held }) => [keyIndex, held]))
  const settled = slots.every(({ held }) => held)
  if (!settled) return decision.describeSettled(false, holds)
  for (const row of rows) {
    const { take, used } = row.limit.fields
    const more = used === undefined ? 0n : BigInt(used) - BigInt(take ?? 0)
    row.charged = more > 0n ? row.state.force(more) : more < 0n ? -row.state.refund(-more) : 0n
    row.changed = row.charged !== 0n
  }
  for (const stack of decision.stacks) stack.addCharged()
  for (const { key } of slots) key.release(call.id ?? '', now)
  decision.store()
  return decision.describeSettled(true, holds)
}

function ban(decision: Decision): Result {
  const { call, now } = decision
  const [held] = decision.held as [Held]
  const ns = wholeMilliseconds(call.ban, 'duration')
  if (ns === 0n) held.liftBan()
  else if (now + ns > held.bannedUntil) held.ban(now + ns)
  decision.keep()
  return makeResult({ key: call.keys[0]?.name ?? '', lastsMs: held.bannedUntil > now ? milliseconds(held.bannedUntil - now) : 0 })
}

function lease(decision: Decision): Result {
  const { call, now } = decision
  const [held] = decision.held as [Held]
  const { name: key, slots = 0, ttl = '0' } = call.keys[0] ?? { name: '' }
  const id = call.id ?? ''
  const own = new Slots(held, 0, BigInt(slots), wholeMilliseconds(ttl, 'ttl'), id, now)
  const renews = call.verb === 'renew'
  if (call.verb === 'release') {
    if (own.held) held.release(id, now)
  } else if (renews && own.held) held.renew(id, own.lapses)
  else if (!renews && !own.limited) own.take()
  decision.keep()
  if (call.verb === 'release') return makeResult({ key, granted: own.held ? -1 : 0 })
  const [limit, remaining] = renews ? [-1, -1] : [slots, Number(own.remaining)]
  if (renews ? !own.held : own.limited) return makeResult({ key, limit, remaining, limited: true, retryAfterMs: renews ? null : afterMs(own.retry) })
  return makeResult({ key, limit, remaining, lastsMs: Number((own.lapses * 1_000_000n - now) / 1_000_000n) })
}
