// Decisions in this process, by the rules of the server: for the time in which Redis is away, and for tests. spec/ holds both to them.
import type { Call, Key } from '../call.js'
import { forever, wholeMilliseconds } from '../duration.js'
import { denialsOf, Limit } from '../limit.js'
import { type Fields, makeResult, Outcome, type Result } from '../result.js'
import { longestNs, never, newState, type Standing, type State } from './states.js'

/** What is kept of a key. */
export interface Kept {
  readonly states: Map<string, State>
  readonly leases: Map<string, bigint> // until when, by id
  bannedUntil: bigint
}

/** What keys are kept in. */
export interface Keys {
  get(name: string): Kept | undefined
  set(name: string, kept: Kept): unknown
  delete(name: string): unknown
}

const mostStates = 8
const shortest = (a: bigint, b: bigint) => (a < b ? a : b)
const longest = (a: bigint, b: bigint) => (a === never || b === never ? never : a > b ? a : b)
const milliseconds = (ns: bigint) => Number((ns + 999_999n) / 1_000_000n)
const afterMs = (ns: bigint) => (ns === never ? null : milliseconds(ns))

/** A limit of a call with its state, or the slots of a key. */
interface Layer {
  readonly keyIndex: number
  readonly rule: number
  readonly units: number
  readonly spare: number
  readonly shadow: boolean
  readonly name: string // in Kept.states
  readonly state: State
  charged: number
}

export class Engine {
  readonly #keys: Keys

  constructor(keys: Keys = new Map<string, Kept>()) {
    this.#keys = keys
  }

  /** Decides a call at an instant, ns since the epoch. Nobody waits here: a call that would is denied instead. */
  decide(call: Call, now: bigint): Result {
    const [first] = call.keys
    const key = { key: first?.name ?? '' }
    switch (call.verb) {
      case 'limit':
      case 'wait':
        return call.any ? this.#any(call, now) : this.#take(call, call.keys.map((_, i) => i), now)
      case 'peek':
        return this.#peek(call, now)
      case 'refund':
        return this.#refund(call, now)
      case 'settle':
        return this.#settle(call, now)
      case 'ban':
        return makeResult({ ...key, lastsMs: this.#ban(key.key, wholeMilliseconds(call.ban, 'duration'), now) })
      case 'reset': {
        const there = this.#there(key.key, now)
        this.#keys.delete(key.key)
        return makeResult({ ...key, granted: there ? -1 : 0 })
      }
      case 'lease':
      case 'renew':
      case 'release':
        return this.#lease(call, first ?? { name: '' }, now)
    }
  }

  /** Tells whether a key holds anything. */
  #there(name: string, now: bigint): boolean {
    const kept = this.#keys.get(name)
    if (!kept) return false
    this.#clean(name, kept, now)
    return this.#keys.get(name) !== undefined
  }

  #kept(name: string, now: bigint): Kept {
    const kept: Kept = this.#keys.get(name) ?? { states: new Map(), leases: new Map(), bannedUntil: 0n }
    for (const [id, until] of kept.leases) if (until <= now) kept.leases.delete(id)
    return kept
  }

  /** Stores what a key holds, without what is over. */
  #clean(name: string, kept: Kept, now: bigint, named: ReadonlySet<string> = new Set()): void {
    for (const [id, state] of kept.states) if (state.fullAt <= now) kept.states.delete(id)
    while (kept.states.size > mostStates) {
      let soonest: [string, bigint] | undefined
      for (const [id, { fullAt }] of kept.states) if (!named.has(id) && (!soonest || fullAt < soonest[1])) soonest = [id, fullAt]
      if (!soonest) break
      // Of limits of the same kind and period, the last one goes first.
      const of = soonest[0].slice(0, soonest[0].lastIndexOf(' ') + 1)
      kept.states.delete([...kept.states.keys()].filter((id) => id.startsWith(of) && !named.has(id)).sort().at(-1) ?? soonest[0])
    }
    if (kept.states.size === 0 && kept.leases.size === 0 && kept.bannedUntil <= now) this.#keys.delete(name)
    else this.#keys.set(name, kept)
  }

  #ban(name: string, ns: bigint, now: bigint): number {
    const kept = this.#kept(name, now)
    kept.bannedUntil = ns === 0n ? 0n : kept.bannedUntil > now + ns ? kept.bannedUntil : now + ns
    this.#clean(name, kept, now)
    return milliseconds(kept.bannedUntil > now ? kept.bannedUntil - now : 0n)
  }

  /** Returns the limits of keys with their states, brought to now. */
  #layers(call: Call, indexes: readonly number[], kept: ReadonlyMap<number, Kept>, now: bigint): Layer[] {
    return indexes.flatMap((keyIndex) => {
      const { limits = [] } = call.keys[keyIndex] as Key
      const { states } = kept.get(keyIndex) as Kept
      const seen = new Map<string, number>()
      // A lone rate is a number, which any other rate reads, unless the call names the one that it is.
      const [lone] = states.size === 1 ? states : []
      let free = lone && lone[0].startsWith('RATE ') && !limits.some((limit) => `${identityOf(limit)} 0` === lone[0]) ? lone : undefined
      return limits.map((limit, rule): Layer => {
        const identity = identityOf(limit)
        const nth = seen.get(identity) ?? 0
        seen.set(identity, nth + 1)
        const name = `${identity} ${nth}`
        if (free && limit.fields.kind === 'RATE') {
          states.delete(free[0])
          states.set(name, free[1])
          free = undefined
        }
        const { fields } = limit
        const state = limit.fields.count === 0 ? new Zero(limit) : (states.get(name) ?? newState(limit))
        state.limit = limit
        state.bringTo(now)
        return { keyIndex, rule, units: fields.take ?? call.cost ?? 1, spare: fields.spare ?? 0, shadow: fields.shadow === true, name, state, charged: 0 }
      })
    })
  }

  #store(call: Call, layers: readonly Layer[], kept: ReadonlyMap<number, Kept>, now: bigint, addsNone = false): void {
    for (const [keyIndex, each] of kept) {
      const mine = layers.filter((layer) => layer.keyIndex === keyIndex && !(layer.state instanceof Zero))
      for (const { name, state, charged } of mine) if (!addsNone || charged > 0 || each.states.has(name)) each.states.set(name, state)
      this.#clean(call.keys[keyIndex]?.name ?? '', each, now, new Set([...mine.map(({ name }) => name), ...(call.banAfter === undefined ? [] : [`AFTER ${denialsOf(call.banAfter).periodNs} 0`])]))
    }
  }

  #any(call: Call, now: bigint): Result {
    const { index } = this.#best(call, now)
    const result = this.#take(call, [index], now)
    if (result.limited) Object.assign(result, { retryAfterMs: afterMs(this.#best(call, now).retry) })
    if (!call.each) return result
    const each = call.keys.flatMap((key, i) => {
      if (i === index) return result.each
      const kept = copied(new Map([[i, this.#kept(key.name, now)]]))
      const waits = this.#layers(call, [i], kept, now).map((layer): [Layer, bigint] => [layer, waitOf(layer, layer.units, now)])
      return eachOf(call, waits.map(([layer]) => layer), [], (layer) => waits.some(([other, ns]) => other === layer && ns !== 0n), waits, now)
    })
    return Object.assign(result, { each })
  }

  /** The first key that has room; if there is none, the one with the shortest wait, or else the one to come back to soonest. */
  #best(call: Call, now: bigint): { index: number; limited: boolean; wait: bigint; retry: bigint } {
    const maxWait = maxWaitNs(call)
    const all = call.keys.map(({ name }, index) => {
      const kept = copied(new Map([[index, this.#kept(name, now)]]))
      const enforced = this.#layers(call, [index], kept, now).filter(({ shadow }) => !shadow)
      const { wait } = worst(enforced.map((layer) => [layer, waitOf(layer, needed(layer, call), now)]))
      const mayWait = longestWait(enforced, maxWait)
      const banned = (kept.get(index)?.bannedUntil ?? 0n) - now
      const late = wait === never ? never : wait > mayWait ? wait - mayWait : 0n
      if (banned > 0n) return { index, limited: true, wait: longest(banned, late), retry: longest(banned, late) }
      return { index, limited: late !== 0n, wait, retry: late }
    })
    return all.reduce((best, next) => {
      if (best.limited !== next.limited) return best.limited ? next : best
      if (next.wait === never) return best
      return best.wait === never || next.wait < best.wait ? next : best
    })
  }

  #take(call: Call, indexes: readonly number[], now: bigint): Result {
    const keptAll = new Map(indexes.map((i) => [i, this.#kept((call.keys[i] as Key).name, now)]))
    const leased = indexes.filter((i) => call.keys[i]?.ttl !== undefined || call.keys[i]?.leased)
    const kept = new Map([...keptAll].filter(([i]) => !leased.includes(i)))
    const layers = this.#layers(call, [...kept.keys()], kept, now)
    const slots = leased.map((i) => new Slot(call.keys[i] as Key, i, keptAll.get(i) as Kept, call.id ?? '', now))
    if (slots.length > 0 && slots.every(({ held }) => held)) return this.#again(call, layers, slots, now)

    // What the call needs, and how long it would wait for it.
    const grants = call.charge === 'up_to' ? grantable(layers, call, now) : undefined
    const asked = (layer: Layer) => (grants === undefined || layer.state.limit.fields.take !== undefined ? layer.units : grants)
    const waits = layers.map((layer): [Layer, bigint] => [layer, waitOf(layer, grants === undefined ? layer.units : Math.max(asked(layer), 1), now)])
    const enforced = waits.filter(([layer]) => !layer.shadow)
    const maxWait = maxWaitNs(call)
    const mayWait = longestWait(enforced.map(([layer]) => layer), maxWait)
    const isLate = (layer: Layer, wait: bigint) => wait === never || wait > longestWait([layer], maxWait)
    const shadows = waits.filter(([layer, wait]) => layer.shadow && isLate(layer, wait))
    const eachLimited = new Map(waits.map(([layer, wait]) => [layer, layer.shadow ? isLate(layer, wait) : wait !== 0n]))
    const busy = slots.map((slot): [Slot, bigint] => [slot, slot.wait])
    const limited = worst<Layer | Slot>([...enforced, ...busy])
    // The longest ban counts, of equal ones the first.
    const bans = [...kept].filter(([, { bannedUntil }]) => bannedUntil > now).sort(([, a], [, b]) => (a.bannedUntil > b.bannedUntil ? -1 : a.bannedUntil < b.bannedUntil ? 1 : 0))
    const allowed = bans.length === 0 && limited.wait !== never && limited.wait <= mayWait
    const asks = layers.some(({ units }) => units > 0)

    const result = new Outcome()
    let rule: Layer | Slot | undefined
    if (allowed) {
      for (const layer of layers) {
        const own = waits.find(([each]) => each === layer)?.[1] ?? 0n
        if (!layer.shadow || !isLate(layer, own)) layer.charged = charge(layer, asked(layer), layer.shadow ? shortest(longest(limited.wait, own), layer.state.longestWait) : limited.wait, now)
        else if (call.charge === 'force') layer.charged = layer.state.force(now, layer.units)
        else if (call.charge === 'strict') layer.state.chargeDenied(now, layer.units, layer.spare)
      }
      for (const slot of slots) slot.take()
      rule = tightest(layers, slots, shadows[0]?.[0], now)
      result.waitMs = milliseconds(limited.wait)
      result.granted = rule instanceof Slot ? 1 : rule.shadow ? rule.charged : asked(rule)
      if ((!(rule instanceof Slot) && rule.state instanceof Zero)) result.granted = 0
    } else {
      result.limited = true
      let wait = limited.wait
      rule = limited.of ?? layers[0] ?? slots[0]
      if (call.charge === 'force' && asks) {
        for (const layer of layers) layer.charged = layer.units > 0 ? layer.state.force(now, layer.units) : 0
      } else if (call.charge === 'strict' && asks) {
        for (const layer of layers) layer.state.chargeDenied(now, layer.units, layer.spare)
      }
      if (call.charge === 'force' || call.charge === 'strict') {
        const after = worst<Layer | Slot>([...layers.filter((layer) => !layer.shadow).map((layer): [Layer, bigint] => [layer, waitOf(layer, layer.units, now)]), ...busy])
        wait = after.wait
        rule = after.of ?? rule
        result.granted = rule instanceof Slot ? 0 : (rule?.charged ?? 0)
      }
      const retry = wait !== never && wait > mayWait ? wait - mayWait : wait !== never && bans[0] ? 0n : wait
      const of = bans[0]?.[0] ?? rule?.keyIndex ?? 0
      let banNs = bans[0] ? bans[0][1].bannedUntil - now : 0n
      if (call.ban !== undefined && retry !== never && !(bans[0] && call.charge !== 'strict')) {
        const mine = kept.get(of)
        const ns = wholeMilliseconds(call.ban, 'ban')
        if (mine && ns > 0n && (call.banAfter === undefined || bans[0] || isLastDenial(mine, call.banAfter, now))) {
          mine.bannedUntil = mine.bannedUntil > now + ns ? mine.bannedUntil : now + ns
          banNs = mine.bannedUntil - now
        }
      }
      result.retryAfterMs = afterMs(longest(retry, banNs))
      if (bans[0]) {
        const firstOf = layers.find(({ keyIndex }) => keyIndex === of)
        result.banned = true
        result.limit = firstOf?.state.limit.capacity ?? 0
        result.resetAfterMs = result.nextAfterMs = milliseconds(banNs)
        if (call.charge === 'force') result.granted = firstOf?.charged ?? 0
        place(result, call, of, 0)
        rule = undefined
      }
    }
    if (rule) describe(result, call, rule, now)
    const [shadow] = shadows
    if (shadow) {
      result.shadowed = true
      result.shadow = shadow[0].rule
      result.shadowKeyIndex = shadow[0].keyIndex
      result.shadowKey = call.keys[shadow[0].keyIndex]?.name ?? ''
    }
    if (call.each) {
      // What a denied call was charged counts for what each limit says.
      const charged = !allowed && (call.charge === 'force' || call.charge === 'strict')
      const told = charged ? layers.map((layer): [Layer, bigint] => [layer, waitOf(layer, layer.units, now)]) : waits
      const late = told.map(([layer, wait]): [Layer, bigint] => [layer, wait !== never && isLate(layer, wait) ? wait - longestWait([layer], maxWait) : wait])
      const isLimited = (layer: Layer | Slot) => (layer instanceof Slot ? layer.wait !== 0n && !allowed : eachLimited.get(layer) === true)
      result.each = eachOf(call, layers, slots, (layer) => isLimited(layer) && (!allowed || (!(layer instanceof Slot) && layer.shadow)), late, now)
    }
    if (allowed || call.charge === 'force' || call.charge === 'strict' || call.ban !== undefined) this.#store(call, layers, kept, now)
    for (const slot of slots) if (allowed) this.#clean(slot.key.name, slot.kept, now)
    return result as Fields as unknown as Result
  }

  /** A call whose id holds all its slots is a retry: it renews them and is charged nothing. */
  #again(call: Call, layers: readonly Layer[], slots: readonly Slot[], now: bigint): Result {
    for (const slot of slots) {
      slot.take()
      this.#clean(slot.key.name, slot.kept, now)
    }
    const result = new Outcome()
    const rule = tightest(layers, slots, undefined, now)
    result.granted = rule instanceof Slot ? 1 : rule.units
    describe(result, call, rule, now)
    if (call.each) result.each = eachOf(call, layers, slots, () => false, [], now)
    return result as Fields as unknown as Result
  }

  #peek(call: Call, now: bigint): Result {
    const kept = new Map([[0, this.#kept(call.keys[0]?.name ?? '', now)]])
    const layers = this.#layers(call, [0], copied(kept), now)
    const waits = layers.map((layer): [Layer, bigint] => [layer, waitOf(layer, layer.units, now)])
    const { wait, of } = worst(waits.filter(([layer]) => !layer.shadow))
    const shadow = waits.find(([layer, ns]) => layer.shadow && ns !== 0n)
    const banNs = (kept.get(0)?.bannedUntil ?? 0n) - now
    const result = new Outcome()
    if (banNs > 0n) {
      Object.assign(result, { limited: true, banned: true, limit: layers[0]?.state.limit.capacity ?? 0, retryAfterMs: afterMs(longest(banNs, wait)), resetAfterMs: milliseconds(banNs), nextAfterMs: milliseconds(banNs) })
      place(result, call, 0, 0)
    } else {
      result.limited = wait !== 0n
      result.retryAfterMs = result.limited ? afterMs(wait) : 0
      describe(result, call, result.limited ? (of as Layer) : tightest(layers, [], shadow?.[0], now), now)
    }
    if (shadow) Object.assign(result, { shadowed: true, shadow: shadow[0].rule, shadowKey: call.keys[0]?.name ?? '' })
    if (call.each) result.each = eachOf(call, layers, [], (layer) => waits.some(([each, ns]) => each === layer && ns !== 0n), waits, now)
    return result as Fields as unknown as Result
  }

  #refund(call: Call, now: bigint): Result {
    const kept = new Map([[0, this.#kept(call.keys[0]?.name ?? '', now)]])
    const layers = this.#layers(call, [0], kept, now)
    const returned = new Map(layers.map((layer) => [layer, layer.state.refund(now, layer.units)]))
    const rule = tightest(layers, [], undefined, now)
    const result = new Outcome()
    result.granted = 0 - (rule instanceof Slot ? 0 : (returned.get(rule) ?? 0))
    describe(result, call, rule, now)
    if (call.each) result.each = eachOf(call, layers, [], () => false, [], now)
    this.#store(call, layers, kept, now, true)
    return result as Fields as unknown as Result
  }

  #settle(call: Call, now: bigint): Result {
    const all = new Map(call.keys.map((key, i) => [i, this.#kept(key.name, now)]))
    const leased = [...all].filter(([i]) => !call.keys[i]?.limits)
    const kept = new Map([...all].filter(([i]) => call.keys[i]?.limits))
    const result = new Outcome()
    place(result, call, 0, 0)
    const settled = leased.every(([, { leases }]) => leases.has(call.id ?? ''))
    if (!settled) Object.assign(result, { limited: true, retryAfterMs: null })
    const held = new Map(leased.map(([i, { leases }]) => [i, leases.has(call.id ?? '')]))
    if (settled) {
      for (const [i, each] of leased) {
        each.leases.delete(call.id ?? '')
        this.#clean(call.keys[i]?.name ?? '', each, now)
      }
    }
    const layers = this.#layers(call, [...kept.keys()], kept, now)
    for (const layer of settled ? layers : []) {
      const { take, used } = layer.state.limit.fields
      const more = used === undefined ? 0 : used - (take ?? 0)
      layer.charged = more > 0 ? layer.state.force(now, more) : more < 0 ? 0 - layer.state.refund(now, -more) : 0
    }
    if (layers.length > 0) {
      const rule = tightest(layers, [], undefined, now) as Layer
      result.granted = rule.charged
      describe(result, call, rule, now)
    }
    if (call.each) {
      const told = eachOf(call, layers, [], () => false, [], now)
      // Of slots it says whether the lease was there, and when the last one lapses.
      const slots = leased.map(([keyIndex, { leases }]) => {
        const last = [...leases.values()].reduce((a, b) => (a > b ? a : b), now)
        const limited = held.get(keyIndex) !== true
        return makeResult({ keyIndex, key: call.keys[keyIndex]?.name ?? '', limit: -1, remaining: -1, limited, retryAfterMs: limited ? null : 0, resetAfterMs: milliseconds(last - now) })
      })
      result.each = [...told, ...slots].sort((a, b) => a.keyIndex - b.keyIndex)
    }
    this.#store(call, layers, kept, now, true)
    return result as Fields as unknown as Result
  }

  #lease(call: Call, key: Key, now: bigint): Result {
    const kept = this.#kept(key.name, now)
    const id = call.id ?? ''
    const result = { key: key.name }
    if (call.verb === 'release') {
      const held = kept.leases.delete(id)
      this.#clean(key.name, kept, now)
      return makeResult({ ...result, granted: held ? -1 : 0 })
    }
    const slot = new Slot(key, 0, kept, id, now)
    if (call.verb === 'renew' && !slot.held) return makeResult({ ...result, limited: true, retryAfterMs: null })
    if (slot.held || slot.wait === 0n) {
      slot.take()
      this.#clean(key.name, kept, now)
      const { capacity, available } = slot.standing()
      return makeResult({ ...result, limit: capacity, remaining: available, lastsMs: milliseconds(wholeMilliseconds(key.ttl, 'ttl')) })
    }
    return makeResult({ ...result, limit: key.slots ?? 0, limited: true, retryAfterMs: afterMs(slot.wait) })
  }
}

/** The slots of a key. */
class Slot {
  readonly units = 1
  readonly rule = 0

  constructor(
    readonly key: Key,
    readonly keyIndex: number,
    readonly kept: Kept,
    readonly id: string,
    readonly now: bigint,
  ) {}

  get held(): boolean {
    return this.kept.leases.has(this.id)
  }

  /** Until there is one free. */
  get wait(): bigint {
    const { slots = 0 } = this.key
    if (slots === 0) return never
    if (this.held || this.kept.leases.size < slots) return 0n
    return this.standing().nextNs
  }

  take(): void {
    this.kept.leases.set(this.id, this.now + wholeMilliseconds(this.key.ttl, 'ttl'))
  }

  standing(): Standing {
    const { slots = this.kept.leases.size } = this.key
    const lapses = [...this.kept.leases.values()].map((until) => until - this.now).sort((a, b) => (a < b ? -1 : 1))
    return { capacity: slots, available: Math.max(slots - this.kept.leases.size, 0), resetNs: lapses.at(-1) ?? 0n, nextNs: lapses[0] ?? 0n }
  }
}

/** The state of a limit of 0: there is none. */
class Zero implements State {
  readonly fullAt = 0n
  readonly longestWait = longestNs

  constructor(public limit: Limit) {}

  copy(): State {
    return this
  }

  bringTo(): void {}

  available(): number {
    return 0
  }

  retryAfter(_: bigint, units: number): bigint {
    return units > 0 ? never : 0n
  }

  standing(): Standing {
    return { capacity: 0, available: 0, resetNs: 0n, nextNs: 0n }
  }

  charge(): void {}

  force(): number {
    return 0
  }

  chargeDenied(): void {}

  refund(): number {
    return 0
  }
}

const identities = new WeakMap<Limit, string>()

/** Counts a denied call, and tells whether it was the last of those that a ban takes. Then the count is gone. */
function isLastDenial({ states }: Kept, banAfter: string, now: bigint): boolean {
  const limit = denialsOf(banAfter)
  const name = `AFTER ${limit.periodNs} 0`
  const state = states.get(name) ?? newState(limit)
  state.limit = limit
  state.force(now, 1)
  states.set(name, state)
  return state.available(now) === 0 && states.delete(name)
}

/** What makes limits of a key one: their kind and their windows, but no count. */
function identityOf(limit: Limit): string {
  let identity = identities.get(limit)
  if (identity === undefined) {
    const { kind, period, first, offset, zone } = limit.fields
    identity = new Limit({ kind, count: 1, period, ...(first && { first }), ...(offset !== undefined && { offset }), ...(zone && { zone }) }).toString()
    identities.set(limit, identity)
  }
  return identity
}

function maxWaitNs(call: Call): bigint {
  if (call.verb !== 'limit' || call.maxWait === undefined) return 0n
  return call.maxWait === forever ? longestNs : wholeMilliseconds(call.maxWait, 'maxWait')
}

/** How long a call may wait for its units: as long as it says, or less where a limit cannot be charged for so late. */
const longestWait = (layers: readonly Layer[], maxWait: bigint) => layers.reduce((ns, { state }) => shortest(ns, state.longestWait), maxWait)

const needed = (layer: Layer, { charge }: Call) => (charge === 'up_to' ? Math.min(layer.units, 1) : layer.units)

/** Until a limit has units and, unless they are 0, those to spare. */
function waitOf({ state, spare }: Layer, units: number, now: bigint): bigint {
  return units === 0 ? 0n : state.retryAfter(now, units + spare)
}

/** Returns the longest wait, `never` being the longest, and the first that has it. */
function worst<Of>(waits: readonly (readonly [Of, bigint])[]): { wait: bigint; of: Of | undefined } {
  let wait = 0n
  let of: Of | undefined
  for (const [each, ns] of waits) {
    if (ns === never) return { wait: ns, of: each }
    if (ns > wait) [wait, of] = [ns, each]
  }
  return { wait, of: of ?? waits[0]?.[0] }
}

const left = ({ state, spare }: Layer, now: bigint) => Math.max(state.available(now) - spare, 0)

/** How much of its cost every limit has, but at least one unit of a cost that is not 0. */
function grantable(layers: readonly Layer[], { cost = 1 }: Call, now: bigint): number {
  const least = Math.min(cost, ...layers.filter(({ shadow }) => !shadow).map((layer) => left(layer, now)))
  return Math.max(least, Math.min(cost, 1))
}

function charge(layer: Layer, units: number, waitNs: bigint, now: bigint): number {
  if (units > 0) layer.state.charge(now, layer.shadow ? Math.min(units, Math.max(left(layer, now), waitNs > 0n ? units : 0)) : units, waitNs)
  return units
}

/** The limit with the fewest units left. Where all are shadows, the one that would have denied. */
function tightest(layers: readonly Layer[], slots: readonly Slot[], shadow: Layer | undefined, now: bigint): Layer | Slot {
  const enforced = layers.filter((layer) => !layer.shadow)
  if (enforced.length === 0 && slots.length === 0 && shadow) return shadow
  let tight: Layer | Slot | undefined
  let fewest = Infinity
  const among: (Layer | Slot)[] = [...(enforced.length > 0 || slots.length > 0 ? enforced : layers), ...slots].sort((a, b) => a.keyIndex - b.keyIndex || a.rule - b.rule)
  for (const each of among) {
    const n = each instanceof Slot ? each.standing().available : left(each, now)
    if (n < fewest) [tight, fewest] = [each, n]
  }
  return tight as Layer | Slot
}

function place(result: Outcome, call: Call, keyIndex: number, rule: number): void {
  result.keyIndex = keyIndex
  result.key = call.keys[keyIndex]?.name ?? ''
  result.rule = rule
}

function standing(of: Layer | Slot, now: bigint): Standing {
  if (of instanceof Slot) return of.standing()
  const state = of.state.standing(now)
  return { ...state, available: Math.max(state.available - of.spare, 0) }
}

function describe(result: Outcome, call: Call, of: Layer | Slot, now: bigint): void {
  place(result, call, of.keyIndex, of.rule)
  const { capacity, available, resetNs, nextNs } = standing(of, now)
  result.limit = capacity
  result.remaining = available
  result.resetAfterMs = milliseconds(resetNs)
  result.nextAfterMs = milliseconds(nextNs)
}

function eachOf(call: Call, layers: readonly Layer[], slots: readonly Slot[], isLimited: (of: Layer | Slot) => boolean, waits: readonly (readonly [Layer, bigint])[], now: bigint): Result[] {
  const all: (Layer | Slot)[] = [...layers, ...slots].sort((a, b) => a.keyIndex - b.keyIndex || a.rule - b.rule)
  return all.map((of) => {
    const each = new Outcome()
    describe(each, call, of, now)
    each.nextAfterMs = 0
    each.limited = isLimited(of)
    const wait = of instanceof Slot ? of.wait : (waits.find(([layer]) => layer === of)?.[1] ?? 0n)
    each.retryAfterMs = each.limited ? afterMs(wait) : 0
    return each as Fields as unknown as Result
  })
}

/** Copies what would change, for a look. */
function copied(kept: ReadonlyMap<number, Kept>): Map<number, Kept> {
  return new Map([...kept].map(([i, each]) => [i, { ...each, states: new Map([...each.states].map(([name, state]) => [name, state.copy()])) }]))
}
