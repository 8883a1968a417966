// Has a hash in Redis say which limits count, while programs run.
import type { Call, Key, Leave } from '../call.js'
import type { Client } from '../clients/transport.js'
import { asDecider, type Decider } from '../decider.js'
import type { Duration } from '../duration.js'
import type { Logger } from '../guard/guard.js'
import { type Limit, type LimitFields, policyOf } from '../limit.js'
import { refuseOthers, timerMs } from '../options.js'
import { type Applied, decidedBy, makeResult, type Result } from '../result.js'
import { type Entry, Hash } from './hash.js'
import { type Source, sourceOf } from './source.js'

/** Options of `policies`. */
export interface PoliciesOptions {
  /** The name of the hash: `throttle:policies`, if it is left out. The client puts no prefix before it. */
  readonly hash?: string
  /**
   * How old what was read last may be, 10 % more or less, before a call has the hash read again: `1s`, if it is left
   * out.
   */
  readonly refresh?: Duration
  /**
   * Gets a line for each change, each value that cannot be read, and when the hash cannot: the console, if it is left
   * out.
   */
  readonly logger?: Logger
}

const known = ['hash', 'refresh', 'logger'] as const satisfies (keyof PoliciesOptions)[]
const firstMs = 200 // how long calls wait for the first read
const jitter = 0.1

const hasPolicy = ({ limits }: Key) => limits?.[0]?.fields.policy !== undefined

/** What goes with the call, whatever limits it has. */
const ofCalls = ['take', 'used', 'spare', 'unit'] as const satisfies (keyof LimitFields)[]

/**
 * A decider that takes limits from a hash, made by `policies`.
 *
 *     const limiter = new Limiter(policies(new Limiter(client), client, { refresh: '5s' }))
 */
export class Policies implements Decider {
  readonly #next: Decider
  readonly #source: Source
  readonly #hash: Hash
  readonly #refreshMs: number
  #due = -Infinity
  #reading = false
  #opened = false // the first read has ended, or took too long
  #opening: Promise<void> | undefined

  constructor(next: Decider, client: Client | (() => Promise<object>), options: PoliciesOptions = {}) {
    refuseOthers('policies', options, known)
    const { hash = 'throttle:policies', refresh = '1s', logger = console } = options
    if (typeof hash !== 'string' || hash === '') throw new TypeError('hash must be a string that is not empty')
    this.#next = asDecider(next, 'next')
    this.#source = sourceOf(client)
    this.#hash = new Hash(hash, logger)
    this.#refreshMs = timerMs(refresh, 'refresh')
  }

  decide(call: Call, options?: Leave): Promise<Result> {
    if (!call.keys.some(hasPolicy)) return this.#next.decide(call, options)
    if (!this.#opened) return this.#first(call, options)
    try {
      return this.#apply(call, options)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** The first calls wait for the first read, within their own time. */
  async #first(call: Call, options: Leave = {}): Promise<Result> {
    const { signal } = options
    signal?.throwIfAborted()
    this.#opening ??= new Promise((resolve) => {
      const open = () => {
        clearTimeout(timer)
        this.#opened = true
        resolve()
      }
      const timer = setTimeout(open, firstMs)
      void this.#read().then(open)
    })
    const opening = this.#opening
    if (!signal) await opening
    else {
      await new Promise<void>((resolve, reject) => {
        const leave = () => { reject(signal.reason) }
        signal.addEventListener('abort', leave)
        void opening.then(() => {
          signal.removeEventListener('abort', leave)
          resolve()
        })
      })
    }
    return await this.#apply(call, options)
  }

  /** Reads the hash. It never fails: then what was read last counts. */
  async #read(): Promise<void> {
    this.#reading = true
    this.#due = performance.now() + this.#refreshMs * (1 - jitter + 2 * jitter * Math.random())
    try {
      this.#hash.take(await this.#source.read(this.#hash))
    } catch (error) {
      this.#hash.fail(error)
    } finally {
      this.#reading = false
    }
  }

  #apply(call: Call, options: Leave | undefined): Promise<Result> {
    if (!this.#reading && performance.now() >= this.#due) void this.#read()
    let change: Change | undefined
    for (let i = 0; i < call.keys.length; i++) {
      const { name = '', limits = [] } = call.keys[i] ?? {}
      const policy = policyOf(limits)
      const entry = policy === undefined ? undefined : this.#hash.find(policy, this.#source.prefix + name)
      const some = entry && this.#limits(call, limits, entry)
      if (!entry || !some) continue
      change ??= new Change(call)
      change.set(i, entry, some)
    }
    return change ? change.decide(this.#next, options) : this.#next.decide(call, options)
  }

  /** The limits that come in the place of those of the code; undefined if the default counts, which is said once. */
  #limits(call: Call, limits: readonly Limit[], entry: Entry): readonly Limit[] | undefined {
    const made = entry.value.limits
    const why = made.length > 0 ? refusal(call, limits, made) : undefined
    if (why !== undefined) {
      this.#hash.refuse(entry, why)
      return undefined
    }
    if (limits.every(({ fields }) => ofCalls.every((option) => fields[option] === undefined))) return made
    return made.map((limit, i) => {
      const { take, used, spare, unit } = (made.length === limits.length ? limits[i] : limits[0])?.fields ?? {}
      return limit.with({ take, used, spare, unit })
    })
  }
}

/** Tells why limits of a policy cannot come in the place of those of a call. */
function refusal({ verb, maxWait, group, weight, priority }: Call, limits: readonly Limit[], made: readonly Limit[]): string | undefined {
  const rates = made.every(({ fields }) => fields.kind === 'RATE')
  if (verb === 'limit' && maxWait !== undefined && !rates) return 'is not of rates alone, and maxWait reserves no other units'
  if (verb === 'wait' && made.some(({ fields }) => fields.shadow)) return 'has a shadow, and a call that waits takes none'
  if (verb === 'wait' && rates && (group || (weight ?? 1) !== 1 || priority)) return 'is of rates alone, at which callers take no turns by group, weight and priority'
  const common = limits.every(({ fields }) => ofCalls.every((option) => fields[option] === limits[0]?.fields[option]))
  return made.length === limits.length || common ? undefined : 'has another number of limits than the code, of which each takes something else'
}

/** A call with other limits than the code has. */
class Change {
  readonly #call: Call
  readonly #applied: (Applied | undefined)[]
  readonly #keys: Key[]
  #ban: Entry['value'] | undefined
  #none = false
  #shadow = false

  constructor(call: Call) {
    this.#call = call
    this.#applied = call.keys.map(() => undefined)
    this.#keys = [...call.keys]
  }

  set(i: number, { name, field, value }: Entry, limits: readonly Limit[]): void {
    const key = this.#keys[i]
    if (!key) return
    this.#applied[i] = { name, field, limits }
    this.#keys[i] = { ...key, limits }
    if (value.ban !== undefined) this.#ban ??= value
    if (limits.length === 0) this.#none = true
    else if (limits.some(({ fields }) => fields.shadow)) this.#shadow = true
  }

  async decide(next: Decider, options: Leave = {}): Promise<Result> {
    const { any, keys } = this.#call
    // The keys that are asked. Where one is enough, the first that lets everything through ends the search.
    let asked = [...keys.keys()]
    let free = -1
    if (this.#none) {
      const none = asked.filter((i) => this.#applied[i]?.limits.length === 0)
      free = none[0] ?? 0
      asked = any ? asked.slice(0, free) : asked.filter((i) => !none.includes(i))
    }
    if (asked.length === 0) {
      options.signal?.throwIfAborted()
      return this.#free(free)
    }
    const result = await next.decide(this.#made(asked), options)
    if (any && this.#none && result.limited) return this.#free(free)
    return decidedBy(result, this.#applied, this.#none ? asked : undefined)
  }

  #free(keyIndex: number): Result {
    return makeResult({ key: this.#keys[keyIndex]?.name ?? '', keyIndex, by: 'none', policies: this.#applied })
  }

  #made(asked: number[]): Call {
    const { verb, any, maxWait, id } = this.#call
    const keys = this.#none ? asked.flatMap((i) => this.#keys[i] ?? []) : this.#keys
    // Whether a shadow was charged says only its own result, and who settles needs it.
    const each = this.#shadow && verb === 'limit' && id !== undefined ? { each: true } : {}
    // No server takes a ban with these.
    const bans = this.#ban && verb === 'limit' && maxWait === undefined && !any && !keys.some(({ leased }) => leased)
    if (!this.#ban || !bans) return { ...this.#call, ...each, keys }
    const { banAfter, ...rest } = this.#call
    return { ...rest, ...each, keys, ...(this.#ban.ban !== undefined && { ban: this.#ban.ban }),
      ...(this.#ban.banAfter !== undefined && { banAfter: this.#ban.banAfter }) }
  }
}

/**
 * Returns a decider that takes the limits of a policy from a hash in Redis, so that they change while programs run.
 *
 *     const limiter = new Limiter(policies(new Limiter(client), client))
 *     await limiter.limit('user:42', policy('api', rate(100, '1m')))
 *     // HSET throttle:policies api 'RATE 60/m BURST 20'
 *
 * A field is the name of a policy, `api/prefix*` or `api/key`, and its value the words of limits, or NONE:
 * `docs/policies.md` has the rules. Put it around `guard`, `cached` and `batched`, and inside `observed`. Calls without
 * a policy, and those of which the hash says nothing, are handed on as they are. `Result.policies` says what counted.
 *
 * The first call with a policy waits for the hash, for 200 ms at most; after that it is read in the background when a
 * call comes and the last read is older than `refresh`. A read that fails, and a value that cannot be read, change
 * nothing, and are logged once. A client may be any that `new Limiter(client)` takes. A function that returns the
 * fields of the hash may take its place.
 */
export function policies(next: Decider, client: Client | (() => Promise<object>), options: PoliciesOptions = {}): Policies {
  return new Policies(next, client, options)
}
