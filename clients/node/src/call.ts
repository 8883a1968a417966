// Calls: the commands in words, and their replies as results. Nothing here sends anything.
import { type Duration, forever, wholeMilliseconds, word } from './duration.js'
import { asLimits, denialsOf, integer, isSlots, type Limit, type Limits, type Slots, text } from './limit.js'
import { positions } from './positions.js'
import { type Fields, makeResult, Outcome, type Result } from './result.js'

/**
 * What a call does. The methods of a `Limiter` make calls: its `limitAll`, `limitAny` and `admit` are a `limit` of
 * several keys. `denied` tells the server of `cost` calls on a key that were denied without it, so that its CL.TOP
 * counts them: `cached` and `batched` do so by themselves.
 */
export type Verb = 'limit' | 'peek' | 'refund' | 'wait' | 'ban' | 'lease' | 'renew' | 'release' | 'settle' | 'reset' | 'denied'

/** A key of a call, with its limits, or leased: with slots. */
export interface Key {
  /** Its name, to which the client may add a prefix. */
  readonly name: string
  /** The limits that the call takes units of. */
  readonly limits?: readonly Limit[]
  /** Whether the call takes or ends a slot of it. */
  readonly leased?: boolean
  /** How many slots it has. */
  readonly slots?: number
  /** How long a lease of it lasts that is not renewed. */
  readonly ttl?: Duration
}

/**
 * What a call is charged beside the rule, all or nothing: `up_to` as much of its cost as there is, at least one unit;
 * `strict` also when it is denied, so that a caller that keeps retrying stays blocked; `force` even if the units are
 * not there, into debt.
 */
export type Charge = 'up_to' | 'strict' | 'force'

/** How a caller leaves before it has its answer. */
export interface Leave {
  /**
   * Ends the call. One that was sent before may be decided all the same; a caller that waits leaves the line, and units
   * that it is granted meanwhile are returned.
   */
  readonly signal?: AbortSignal
}

/** What a call may have beside its keys. */
export interface CallOptions {
  /** How many units it takes of every limit that has no `take`: 1, if it is left out. With 0 only a ban denies it. */
  readonly cost?: number
  /** What it is charged: all of its cost or nothing, if it is left out. */
  readonly charge?: Charge
  /** One key is enough: the first that has room. Without it all of them are charged, or none. */
  readonly any?: boolean
  /** Ban the key of a denied call for so long, such as `15m`. Without it nothing is banned. */
  readonly ban?: Duration
  /**
   * Of which denial the ban begins: the first, if it is left out; with `10/1h`, the tenth call that is denied within an
   * hour of the first one. The key counts them.
   */
  readonly banAfter?: string
  /**
   * Reserve units that come within this time. The caller holds its request for `Result.waitMs`. Of `wait` and `lease`,
   * the timeout. If it is left out, nothing is reserved, and `wait` waits as long as it takes.
   */
  readonly maxWait?: Duration | typeof forever
  /** Callers that wait take turns by group. Those of which it is left out are one group. */
  readonly group?: string
  /**
   * How many turns the group has for each one of a group of weight 1, from now on: 1 to 1000, and 1 if it is left out.
   * It goes with a group.
   */
  readonly weight?: number
  /** Callers with a higher priority come first: from -100 to 100, and 0 if it is left out. */
  readonly priority?: number
  /** Whose lease it is: a random one, if it is left out of `lease` and `admit`. */
  readonly id?: string
  /** Fill `Result.each`: what every limit by itself says. It stays empty, if it is left out. */
  readonly each?: boolean
}

/** One verb on one key or several: a plain value. Whatever decides it reads it and changes nothing in it. */
export interface Call extends CallOptions {
  /** What it does. */
  readonly verb: Verb
  /** One key; of `limit` with `several`, and of `settle`, several. */
  readonly keys: readonly Key[]
  /** Whether the command for several keys is sent (CL.MLIMIT), and not CL.LIMIT, which is for one. */
  readonly several?: boolean
}

/** Keys in order, each with what it is asked for. In a cluster they need a common hash tag, such as `{acme}`. */
export type Entries<What> = Iterable<readonly [string, What]>

/** The keys of a call, each with its limits: an object, a Map or entries. */
export type Keys<What = Limits> = Readonly<Record<string, What>> | Entries<What>

/** What a method may be given beside its keys: everything that any of them takes. */
interface MethodOptions extends CallOptions {
  /** How long to wait at most: `forever`, if it is left out, and of `lease` not at all. */
  readonly timeout?: Duration | typeof forever
  /** How many callers may hold a slot at a time: with 0 nobody gets one. */
  readonly slots?: number
  /** How long a lease lasts that is not renewed: then the slot of a process that has died is free. */
  readonly ttl?: Duration
}

/** Which options a method takes. The types of the options come from here. */
export const methods = {
  limit: ['cost', 'charge', 'ban', 'banAfter', 'maxWait', 'each'],
  limitAll: ['cost', 'charge', 'ban', 'banAfter', 'maxWait', 'each'],
  limitAny: ['cost', 'charge', 'maxWait', 'each'],
  admit: ['cost', 'charge', 'id'],
  peek: ['cost', 'each'],
  refund: ['cost'],
  wait: ['cost', 'timeout', 'group', 'weight', 'priority', 'each'],
  ban: [],
  lease: ['slots', 'ttl', 'timeout', 'group', 'weight', 'priority', 'id'],
  renew: ['id', 'ttl'],
  release: ['id'],
  settle: ['id'],
  reset: [],
} as const satisfies Record<string, readonly (keyof MethodOptions)[]>

/** The methods of a `Limiter` that make calls. */
export type Method = keyof typeof methods

type Needed = { lease: 'slots' | 'ttl'; renew: 'id' | 'ttl'; release: 'id'; settle: 'id' }
/** What methods may be charged where not all of it goes. */
interface Charged {
  limitAny: 'up_to' | 'force'
  admit: 'strict'
}
type Picked<M extends Method> = Pick<MethodOptions, (typeof methods)[M][number]>
type Taken<M extends Method> = M extends keyof Charged ? Omit<Picked<M>,
  'charge'> & { /** What it is charged: all of its cost or nothing, if it is left out. */ readonly charge?: Charged[M] } : Picked<M>
type Need<M extends Method> = M extends keyof Needed ? Needed[M] : never

/** The options of a method, as the table has them, and a signal. */
export type OptionsOf<M extends Method> = Leave & Omit<Taken<M>, Need<M>> & Required<Pick<Taken<M>, Need<M> & keyof Taken<M>>>

/** What the command of a verb takes of a call and of its keys, as spec/clients/calls.json. */
export const takes: Record<Verb | 'mlimit', readonly (keyof CallOptions | 'limits' | 'slots' | 'ttl')[]> = {
  limit: ['limits', 'cost', 'charge', 'ban', 'banAfter', 'maxWait', 'each'],
  mlimit: ['limits', 'slots', 'ttl', 'cost', 'charge', 'ban', 'banAfter', 'maxWait', 'each', 'any', 'id'],
  peek: ['limits', 'cost', 'each'],
  refund: ['limits', 'cost', 'each'],
  wait: ['limits', 'cost', 'each', 'maxWait', 'group', 'weight', 'priority'],
  ban: ['ban'],
  lease: ['slots', 'ttl', 'maxWait', 'group', 'weight', 'priority', 'id'],
  renew: ['ttl', 'id'],
  release: ['ttl', 'id'], // how long the lease lasts says how long to go on in an outage
  settle: ['limits', 'slots', 'ttl', 'id', 'each'],
  reset: [],
  denied: ['cost'],
}

const charged: { readonly [A in keyof Charged]: readonly Charged[A][] } = { limitAny: ['up_to', 'force'], admit: ['strict'] }

const formerly: Record<string, string> = { upTo: "charge: 'up_to'", strict: "charge: 'strict'", force: "charge: 'force'", any: 'limitAny()' }

/** Refuses options that a method cannot use. Nothing that somebody asked for is dropped in silence. */
export function check(method: Method, options: object): void {
  const taken = methods[method] as readonly string[]
  for (const option of Object.keys(options)) {
    if (option === 'signal' || taken.includes(option)) continue
    if (option === 'maxWait' && taken.includes('timeout')) throw new TypeError(`${method}: its maxWait is the option timeout`)
    const now = Object.hasOwn(formerly, option) && taken.includes('charge') ? `; write ${formerly[option] ?? ''}` : ''
    throw new TypeError(`${method}: there is no option ${option}; it takes ${[...taken, 'signal'].join(', ')}${now}`)
  }
  const { charge } = options as CallOptions
  if (charge !== undefined && (method === 'limitAny' || method === 'admit') && !(charged[method] as readonly Charge[]).includes(charge)) {
    throw new TypeError(`${method}: charge must be ${charged[method].join(' or ')}, not '${charge}'`)
  }
}

const beside = new Set(['verb', 'keys', 'several'])

/** Refuses what the command of a call has no word for. */
function checkCall(call: Call): void {
  const command = call.verb === 'limit' && call.several ? 'mlimit' : call.verb
  const taken = takes[command] as readonly string[]
  for (const option of Object.keys(call)) {
    if (beside.has(option) || taken.includes(option) || call[option as keyof Call] === undefined) continue
    throw new TypeError(`${option}: ${commandOf(call)} has no such option`)
  }
  if (call.charge !== undefined && !Object.hasOwn(charges, call.charge)) throw new TypeError(`charge must be up_to, strict or force, not '${call.charge as string}'`)
  const several = call.verb === 'settle' || (call.verb === 'limit' && call.several === true)
  if (call.several && !several) throw new TypeError(`several: ${commandOf(call)} takes one key`)
  if (call.keys.length > 1 && !several) throw new RangeError(`keys: ${commandOf(call)} takes one key, not ${call.keys.length}`)
  for (const key of call.keys) checkKey(call, key, taken)
  if (command === 'mlimit' && call.id !== undefined && !call.keys.some((key) => key.leased)) throw new TypeError('id: it is for a key with slots')
}

const charges: Record<Charge, string> = { up_to: 'UPTO', strict: 'STRICT', force: 'FORCE' }

/** Refuses what the command of a call has no word for, in one of its keys. */
function checkKey(call: Call, { limits, leased, slots, ttl }: Key, taken: readonly string[]): void {
  const grouped = call.several === true || call.verb === 'settle'
  if (limits !== undefined && (leased || slots !== undefined || ttl !== undefined)) throw new TypeError('keys: a key has limits or slots, not both; slots have a key of their own')
  if (limits !== undefined && !taken.includes('limits')) throw new TypeError(`limits: ${commandOf(call)} has none`)
  if (leased && !taken.includes('ttl')) throw new TypeError(`leased: ${commandOf(call)} has no slots`)
  if (slots !== undefined && !(taken.includes('slots') && (leased || !grouped))) throw new TypeError(`slots: ${commandOf(call)} has none`)
  if (ttl !== undefined && !(taken.includes('ttl') && (leased || !grouped))) throw new TypeError(`ttl: ${commandOf(call)} has none`)
}

const commands: Record<Verb, string> = {
  limit: 'CL.LIMIT', peek: 'CL.PEEK', refund: 'CL.REFUND', wait: 'CL.WAIT', ban: 'CL.BAN',
  lease: 'CL.LEASE', renew: 'CL.RENEW', release: 'CL.RELEASE', settle: 'CL.SETTLE', reset: 'DEL', denied: 'CL.DENIED',
}
const longestWait = 36_500n * 86_400_000_000_000n // of the server

/** Returns the name of the command of a call. */
export function commandOf(call: Call): string {
  return call.verb === 'limit' && call.several ? 'CL.MLIMIT' : commands[call.verb]
}

/** Tells whether the server may keep the caller waiting. */
export function waits(call: Call): boolean {
  return call.maxWait !== undefined && (call.verb === 'wait' || call.verb === 'lease')
}

/** Returns a call on one key. */
export function one(verb: Verb, key: string, limits: Limits, options: CallOptions): Call {
  // V8 takes microseconds for properties behind a spread.
  return { verb, keys: [{ name: key, limits: asLimits(limits) }], ...options }
}

const isEntries = <What>(keys: Keys<What>): keys is Entries<What> => Symbol.iterator in keys

/** Returns keys and what they are asked for, in order. */
export function entriesOf<What>(keys: Keys<What>): (readonly [string, What])[] {
  if (typeof keys !== 'object') throw new TypeError('keys must be an object, a Map or entries, [[key, limits], ...]')
  return isEntries(keys) ? [...keys] : Object.entries(keys)
}

/** Returns a call on several keys. */
export function many(verb: 'limit' | 'settle', keys: Keys<Limits | Slots>, options: CallOptions): Call {
  if (options.any && !isEntries(keys)) {
    throw new TypeError('keys: their order matters, which JavaScript changes in an object: names that are integers come first; give a Map or entries, [[key, limits], ...]')
  }
  const some = entriesOf(keys).map(([name, what]): Key => {
    if (!isSlots(what)) {
      const limits = asLimits(what, 'keys')
      if (limits.length === 0) throw new RangeError('keys: each needs limits or slots')
      return { name, limits }
    }
    if (verb === 'settle') return { name, leased: true, ...(what.ttl !== undefined && { ttl: what.ttl }) }
    if (what.n === undefined || what.ttl === undefined) throw new RangeError("slots need a number and a ttl, such as slots(4, '1m')")
    return { name, leased: true, slots: what.n, ttl: what.ttl }
  })
  if (some.length === 0) throw new RangeError('keys: there must be at least one')
  return { verb, keys: some, several: true, ...options }
}

/** Returns a call in words, with a prefix before its keys. */
export function wordsOf(call: Call, prefix = ''): string[] {
  checkCall(call)
  const [key] = call.keys
  if (!key) throw new RangeError('keys: there must be at least one')
  if (call.several) return tail(severalWords(call, prefix), call)
  const words = [commandOf(call), prefix + text('key', key.name)]
  switch (call.verb) {
    case 'reset':
      return words
    case 'denied':
      return [...words, integer('cost', call.cost ?? 1, 1)]
    case 'ban':
      return [...words, word(wholeMilliseconds(call.ban, 'duration'))]
    case 'release':
      return [...words, 'ID', identity(call)]
    case 'lease':
      words.push('SLOTS', integer('slots', key.slots, 0), 'TTL', ttlOf(key), 'ID', identity(call), ...line(call))
      break
    case 'renew':
      words.push('ID', identity(call), 'TTL', ttlOf(key))
      break
    default:
      limitWords(words, call, key)
      options(words, call)
      words.push(...line(call))
      if (words.length === 2) return words // with COMPACT the server's error would be about a word that the caller did not write
  }
  return tail(words, call)
}

function severalWords(call: Call, prefix: string): string[] {
  const words = [commandOf(call), String(call.keys.length), ...call.keys.map((key) => prefix + text('key', key.name))]
  const groups = call.keys.map((key) => {
    if (!key.leased) return limitWords([], call, key)
    return call.verb === 'settle' ? ['SLOTS'] : ['SLOTS', integer('slots', key.slots, 0), 'TTL', ttlOf(key)]
  })
  // One group without NEXT is that of every key.
  const [first = [], ...rest] = groups
  const same = call.keys.every((key) => !key.leased) && rest.every((group) => group.join(' ') === first.join(' '))
  words.push(...first)
  if (!same) for (const group of rest) words.push('NEXT', ...group)
  options(words, call)
  if (call.any) words.push('ANY')
  if (call.id) words.push('ID', text('id', call.id))
  return words
}

function tail(words: string[], call: Call): string[] {
  words.push('COMPACT')
  if (call.each) words.push('EACH')
  return words
}

function identity(call: Call): string {
  if (!call.id) throw new RangeError('id: a lease needs one')
  return text('id', call.id)
}

function ttlOf(key: Key): string {
  return word(wholeMilliseconds(key.ttl, 'ttl'))
}

function limitWords(words: string[], call: Call, key: Key): string[] {
  for (const limit of key.limits ?? []) {
    const spared = (call.verb === 'refund' || call.verb === 'settle') && limit.fields.spare // which have no SPARE
    words.push(...(spared ? limit.with({ spare: 0 }) : limit).words)
  }
  return words
}

function options(words: string[], call: Call): void {
  if (call.cost !== undefined && call.cost !== 1) words.push('COST', integer('cost', call.cost, 0))
  if (call.charge) words.push(charges[call.charge])
  if (call.ban !== undefined) words.push('BAN', word(wholeMilliseconds(call.ban, 'ban')))
  if (call.banAfter !== undefined) {
    if (call.ban === undefined) throw new TypeError('banAfter goes with ban')
    words.push('AFTER', denialsOf(call.banAfter).words[1] ?? '')
  }
  if (call.verb === 'limit' && call.maxWait !== undefined) {
    const wait = wholeMilliseconds(call.maxWait, 'maxWait')
    words.push('MAXWAIT', word(wait < longestWait ? wait : longestWait))
  }
}

function line(call: Call): string[] {
  if (!waits(call)) return []
  const ns = call.maxWait === forever ? longestWait : wholeMilliseconds(call.maxWait, 'timeout')
  if (ns === 0n) throw new RangeError("timeout must not be 0: use limit() or no timeout to have an answer at once, 'forever' to wait as long as it takes")
  const words = ['TIMEOUT', word(ns < longestWait ? ns : 0n)]
  if (call.group) words.push('GROUP', text('group', call.group))
  if (call.weight !== undefined && call.weight !== 1) {
    if (!call.group) throw new TypeError('weight: it goes with a group')
    words.push('WEIGHT', integer('weight', call.weight, 1))
  }
  if (call.priority !== undefined && call.priority !== 0) words.push('PRIORITY', integer('priority', call.priority, Number.MIN_SAFE_INTEGER))
  return words
}

/** Reads the reply to a call. */
export function readReply(call: Call, reply: unknown): Result {
  switch (call.verb) {
    case 'ban':
      return makeResult({ ...only(call), lastsMs: whole(reply) })
    case 'denied':
      return makeResult({ ...only(call), granted: whole(reply) })
    case 'release':
    case 'reset':
      return makeResult({ ...only(call), granted: 0 - whole(reply) })
    case 'lease':
    case 'renew': {
      const at = positions.lease
      const field = integers(reply, size.lease)
      const result = { ...only(call), limit: field(at.limit), remaining: field(at.remaining), waitMs: field(at.waitMs) }
      if (field(at.limited)) return makeResult({ ...result, limited: true, retryAfterMs: after(field(at.retryAfterMs)) })
      return makeResult({ ...result, lastsMs: field(at.leaseMs) })
    }
    default:
      return compact(call, reply)
  }
}

const only = (call: Call) => ({ key: call.keys[0]?.name ?? '' })

const sizeOf = (fields: object) => Object.keys(fields).length
const size = { limit: sizeOf(positions.limit), mlimit: sizeOf(positions.mlimit), lease: sizeOf(positions.lease), each: sizeOf(positions.each) }

function compact(call: Call, reply: unknown): Result {
  const keyed = call.several === true
  const at = keyed ? positions.mlimit : positions.limit // CL.SETTLE has the fields of CL.MLIMIT, and settled in place of limited
  const field = integers(reply, keyed ? size.mlimit : size.limit)
  const [rule, shadow] = [field(at.rule), field(at.shadow)]
  const settles = call.verb === 'settle'
  const limited = settles ? field(positions.settle.settled) === 0 : field(at.limited) !== 0
  const rules = call.keys.reduce((n, key) => n + rulesOf(key), 0)
  const banned = limited && rule === 0 && !settles
  if (rule < 0 || rule > rules || (rule === 0 && !banned && !settles) || shadow < 0 || shadow > rules) {
    throw new RangeError(`the reply is ${String(reply)}, whose rule is none of the ${rules} limits`)
  }
  const place = rule ? placeOf(call, rule - 1) : { keyIndex: 0, rule: 0 }
  const shadowed = shadow !== 0 && !settles ? placeOf(call, shadow - 1) : undefined
  if (keyed && !settles) {
    const key = field(positions.mlimit.key) - 1
    if (key < 0 || key >= call.keys.length || (!banned && key !== place.keyIndex)) throw new RangeError(`the reply is ${String(reply)}, whose key is not that of its rule`)
    place.keyIndex = key
  }
  const result = new Outcome()
  result.limited = limited
  result.key = call.keys[place.keyIndex]?.name ?? ''
  result.keyIndex = place.keyIndex
  result.rule = place.rule
  result.banned = banned
  result.limit = field(at.limit)
  result.remaining = field(at.remaining)
  result.retryAfterMs = !limited ? 0 : settles ? null : after(field(at.retryAfterMs))
  result.resetAfterMs = field(at.resetAfterMs)
  result.nextAfterMs = field(at.nextAfterMs)
  result.granted = field(at.granted)
  result.waitMs = field(at.waitMs)
  if (shadowed) {
    result.shadowed = true
    result.shadow = shadowed.rule
    result.shadowKey = call.keys[shadowed.keyIndex]?.name ?? ''
    result.shadowKeyIndex = shadowed.keyIndex
  }
  if (call.each) result.each = eachOf(call, reply as unknown[], rules)
  return result as Fields as unknown as Result
}

function eachOf(call: Call, reply: unknown[], rules: number): Result[] {
  const arrays = reply.slice(-rules)
  if (arrays.length < rules || !arrays.every(Array.isArray)) throw new TypeError('the reply has no array for each limit')
  return arrays.map((array, i) => {
    const at = positions.each
    const field = integers(array, size.each)
    const limited = field(at.limited) !== 0
    const place = placeOf(call, i)
    return makeResult({
      ...place, key: call.keys[place.keyIndex]?.name ?? '', limited, limit: field(at.limit), remaining: field(at.remaining),
      retryAfterMs: limited ? after(field(at.retryAfterMs)) : 0, resetAfterMs: field(at.resetAfterMs),
    })
  })
}

/** Returns how many rules the server counts for a key: slots are one. */
function rulesOf(key: Key): number {
  return Math.max(key.limits?.length ?? 0, 1)
}

/** Returns the key and the index in it of a rule that is counted through all keys. */
function placeOf(call: Call, counted: number): { keyIndex: number; rule: number } {
  let rule = counted
  for (const [i, key] of call.keys.entries()) {
    if (rule < rulesOf(key)) return { keyIndex: i, rule }
    rule -= rulesOf(key)
  }
  throw new RangeError('the reply has a rule that is none of the limits')
}

function after(ms: number): number | null {
  return ms < 0 ? null : ms
}

// A client may be set to reply with texts for integers.
function whole(reply: unknown): number {
  const number = typeof reply === 'number' ? reply : typeof reply === 'string' && /^-?\d+$/.test(reply) ? Number(reply) : typeof reply === 'bigint' ? Number(reply) : NaN
  if (!Number.isInteger(number)) throw new TypeError('the reply is not an integer')
  return number
}

/** Returns a function that reads a field of a reply of at least n integers by its position. */
function integers(reply: unknown, n: number): (at: number) => number {
  if (!Array.isArray(reply) || reply.length < n) throw new TypeError(`the reply is not ${n} integers or more`)
  const numbers: number[] = []
  for (let i = 0; i < n; i++) numbers.push(whole(reply[i]))
  return (at) => numbers[at] ?? NaN
}
