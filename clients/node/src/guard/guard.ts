// Leaves a server alone that is away, and decides meanwhile.
import { type Call, type Leave, waits } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import { lateMs } from '../clients/lateness.js'
import type { Duration } from '../duration.js'
import { isError, isOutage, isReply, OutageError } from '../errors.js'
import { oneOf, refuseOthers, timerMs, wholeNumber } from '../options.js'
import { makeResult, type Result } from '../result.js'
import { Breaker, type Verdict } from './breaker.js'
import type { Local } from './local.js'
import { told } from './told.js'

/**
 * How calls are decided that the server does not answer. `fail` throws an `OutageError` at once. `open` lets everything
 * through, and `closed` nothing; both know nothing of the limits, so all numbers of the result are 0. `local` decides
 * in this process by this process's part of the limits.
 */
export type Policy = 'fail' | 'open' | 'closed' | 'local'

/** Where lines of log go: the console is one, and so are pino and winston. */
export interface Logger {
  /** Gets what is wrong. */
  error(line: string): void
  /** Without it, `error` gets its lines. */
  warn?(line: string): void
  /** Gets what is right again. */
  info(line: string): void
}

/** When a server is left alone, and who is told. */
export interface BreakerOptions {
  /**
   * How many calls in a row have to fail before the server is left alone: 5, if it is left out. Four times as many in
   * ten seconds do it, too, if at least half of all calls failed.
   */
  readonly failures?: number
  /** How long it is left alone, after which one call tries it: `1s`, if it is left out. */
  readonly pause?: Duration
  /**
   * How long the server is given to answer: `20ms`, if it is left out. A call whose `AbortSignal.timeout` ends it
   * earlier says nothing about the server.
   */
  readonly patience?: Duration
  /**
   * Is called when the breaker of a node opens, with the error that opened it, and when it closes, with undefined.
   * Without it, both are logged.
   */
  readonly onChange?: (node: string, outage: Error | undefined) => void
  /** Gets one line when an outage begins and one when it is over: the console, if it is left out. */
  readonly logger?: Logger
}

/** Options of `guard`. */
export interface GuardOptions extends BreakerOptions {
  /** How calls are decided that the server does not answer: `fail`, if it is left out. */
  readonly policy?: Policy
  /**
   * How many processes share the limits, of the policy `local`: each gets that part of them. 1, if it is left out,
   * which is right for a single process only.
   */
  readonly processes?: number
  /**
   * Keeps all processes together to the limits even where a limit is smaller than `processes`: nobody has a unit of it
   * while the server is away. Without it each process has one, so all together may exceed it by up to `processes`
   * units.
   */
  readonly neverMore?: boolean
  /**
   * How many keys the policy `local` remembers: 100,000, if it is left out. When there are more, those used least
   * recently begin with full limits.
   */
  readonly keys?: number
  /**
   * Which server has a key: each has a breaker of its own. Without it, it is the master of a cluster, and else there is
   * one breaker.
   */
  readonly node?: (key: string) => string
  /** Which errors are outages: those of `isOutage`, if it is left out. */
  readonly isOutage?: (error: unknown) => boolean
}

export const breakerOptions = ['failures', 'pause', 'patience', 'onChange', 'logger'] as const satisfies (keyof BreakerOptions)[]
const known = [...breakerOptions, 'policy', 'processes', 'neverMore', 'keys', 'node', 'isOutage'] as const satisfies (keyof GuardOptions)[]
const policies = ['fail', 'open', 'closed', 'local'] as const satisfies Policy[]

/** A decider that knows which server has a key. */
interface Spread {
  nodeOf?(key: string): string
  /** Tells whether the server that has a key went on answering while a call had no reply that began at an instant. */
  alive?(key: string, beganMs: number): boolean
}

/** The decider without the breaker that a limiter has of its own. */
export const bare: unique symbol = Symbol.for('redis-throttle.bare')

const decides = new Set<Call['verb']>(['limit', 'peek', 'wait', 'lease'])
const ends = new Set<Call['verb']>(['renew', 'release', 'settle'])

/** The breaker of one node: a server of a cluster that is down must not keep calls from the others. */
interface Node {
  readonly name: string
  readonly breaker: Breaker
  outage: Error | undefined // the last one
  key: string // whose call met it
  first: Error[] // before the outage was told
  began: number | undefined // when the outage did
  gone: boolean // another node has its keys
}

const leftAlone = new Error('the server is left alone')

/**
 * A decider that leaves a server alone that is away, made by `guard`.
 *
 *     const limiter = new Limiter(guard(new Limiter(client), { policy: 'closed' }))
 */
export class Guard implements Decider {
  readonly #next: Decider
  readonly #options: GuardOptions
  readonly #local: Local | undefined
  readonly #policy: Policy
  readonly #nodeOf: ((key: string) => string) | undefined
  readonly #isOutage: (error: unknown) => boolean
  readonly #failures: number
  readonly #pauseMs: number
  readonly #patienceMs: number
  readonly #nodes = new Map<string, Node>()
  #open = 0
  #instead = 0

  /** `local` makes what the policy `local` decides with. */
  constructor(next: Decider, options: GuardOptions = {}, local?: (processes: number, atLeastOne: boolean, keys: number) => Local) {
    refuseOthers('guard', options, known)
    this.#options = options
    this.#policy = oneOf(options.policy ?? 'fail', 'policy', policies)
    this.#failures = wholeNumber(options.failures ?? 5, 'failures', 1)
    this.#pauseMs = timerMs(options.pause ?? '1s', 'pause')
    this.#patienceMs = timerMs(options.patience ?? '20ms', 'patience')
    const processes = wholeNumber(options.processes ?? 1, 'processes', 1)
    const keys = wholeNumber(options.keys ?? 100_000, 'keys', 1)
    if (this.#policy !== 'local') {
      for (const option of ['processes', 'neverMore', 'keys'] as const) if (options[option] !== undefined) throw new TypeError(`${option}: it goes with the policy local`)
    }
    this.#next = (asDecider(next, 'next') as { [bare]?: Decider })[bare] ?? next
    this.#isOutage = options.isOutage ?? isOutage
    const spread = this.#next as Spread
    this.#nodeOf = options.node ?? (spread.nodeOf ? (key) => spread.nodeOf?.(key) ?? '' : undefined)
    this.#local = this.#policy === 'local' ? local?.(processes, options.neverMore !== true, keys) : undefined
  }

  /** Whether a server is left alone, or is just being tried again. */
  get out(): boolean {
    return [...this.#nodes.values()].some(({ breaker, gone }) => !gone && breaker.out)
  }

  async decide(call: Call, options: Leave = {}): Promise<Result> {
    options.signal?.throwIfAborted()
    const here = ends.has(call.verb) ? this.#local?.ended(call) : undefined
    const node = this.#nodeFor(call)
    let result
    try {
      result = await this.#try(node, call, options)
    } catch (error) {
      if (here) return here // the server does not know the lease, or is away
      if (error !== leftAlone && !this.#isOutage(error)) throw error
      return this.#without(node, call, error === leftAlone ? this.#aloneAfter(node) : (error as Error))
    }
    if (here && (result.limited || (call.verb === 'release' && result.granted === 0))) return here
    if (this.#open > 0 && result.by === 'server') this.#replace(node)
    return result
  }

  /** Sends a call, if the breaker lets it. */
  async #try(node: Node, call: Call, options: Leave): Promise<Result> {
    for (;;) {
      const { breaker } = node
      const generation = breaker.before()
      if (generation === undefined) throw leftAlone
      // One that waits would be the one call that tries the server, for as long as it waits.
      const probes = waits(call) && breaker.out
      const sent = probes ? probe(call) : call
      const began = performance.now()
      const late = lateMs()
      let result: Result
      try {
        result = await this.#next.decide(sent, options)
      } catch (error) {
        const verdict = this.#judge(node, sent, error, options.signal, began, lateMs() - late)
        breaker.after(generation, verdict)
        if (verdict === 'up' && probes) continue // the server is back, even if the user may not send what tried it
        throw error
      }
      breaker.after(generation, result.by === 'server' ? 'up' : 'nothing')
      if (!probes || (sent.verb === 'lease' && !result.limited)) return result
      if (result.by !== 'server') return await this.#next.decide(call, options) // which needs no server
      options.signal?.throwIfAborted()
    }
  }

  /** What a call that failed says about the server. */
  #judge(node: Node, call: Call, error: unknown, signal: AbortSignal | undefined, beganMs: number, busyMs: number): Verdict {
    if (signal?.aborted && error === signal.reason) {
      const tookMs = performance.now() - beganMs
      const late = isError(error) && error.name === 'TimeoutError' && tookMs - busyMs >= this.#patienceMs && !waits(call)
      // The server may have answered while this process was busy, or others while this call stood behind them.
      if (!late || (this.#next as Spread).alive?.(call.keys[0]?.name ?? '', beganMs)) return 'nothing'
    } else if (!this.#isOutage(error)) {
      return node.breaker.out && isError(error) && isReply(error.cause) ? 'up' : 'nothing' // it is there, whatever it says
    }
    node.outage = error as Error
    node.key = call.keys[0]?.name ?? ''
    if (node.began !== undefined) told.add(error as Error)
    else if (node.first.push(error as Error) > this.#failures) node.first.shift()
    return 'down'
  }

  /** What the policy makes of an outage. */
  #without(node: Node, call: Call, outage: Error): Result {
    this.#instead++
    if (!decides.has(call.verb)) throw outage
    const key = call.keys[0]?.name ?? ''
    switch (this.#policy) {
      case 'open':
        return makeResult({ key, by: 'policy' })
      case 'closed':
        return makeResult({ key, limited: true, retryAfterMs: Math.ceil(node.breaker.untilRetryMs), by: 'policy' })
      case 'local':
        if (this.#local) return this.#local.decide(call, node.breaker.untilRetryMs)
    }
    throw outage
  }

  #aloneAfter(node: Node): Error {
    const error = new OutageError(`the server is left alone after: ${node.outage?.message ?? 'an outage'}`, { cause: node.outage })
    told.add(error)
    return error
  }

  #nodeFor(call: Call): Node {
    const name = this.#nodeOf?.(call.keys[0]?.name ?? '') ?? ''
    let node = this.#nodes.get(name)
    if (!node) {
      const made: Node = { name, breaker: new Breaker(this.#failures, this.#pauseMs, (open) => { this.#changed(made, open) }), outage: undefined,
        key: '', first: [], began: undefined, gone: false }
      node = made
      this.#nodes.set(name, node)
    }
    return node
  }

  /**
   * Ends the outages of nodes whose keys another node has now, `by`, which has just answered: nobody calls them any
   * more. Such a node is a master that a failover replaced, or the one without a name, which has all keys while a
   * cluster is unknown.
   */
  #replace(by: Node): void {
    if (!this.#nodeOf) return
    for (const node of [...this.#nodes.values()]) {
      if (node.began === undefined || node === by || this.#nodeOf(node.key) !== by.name) continue
      this.#nodes.delete(node.name)
      this.#changed(node, false)
      node.gone = true
    }
  }

  /**
   * An outage begins when the breaker opens and is over when it closes; the attempts in between are nobody's business.
   */
  #changed(node: Node, open: boolean): void {
    if (node.gone || open === (node.began !== undefined)) return
    const after = performance.now() - (node.began ?? 0)
    node.began = open ? performance.now() : undefined
    this.#open += open ? 1 : -1
    for (const error of node.first.splice(0)) told.add(error)
    if (this.#options.onChange) {
      this.#options.onChange(node.name, open ? node.outage : undefined)
      return
    }
    const { logger = console } = this.#options
    const at = node.name === '' ? '' : ` at ${node.name}`
    if (open) {
      logger.error(`redis-throttle: Redis${at} is out of reach, the policy is ${this.#policy}: ${node.outage?.message ?? ''}`)
    } else {
      logger.info(`redis-throttle: Redis${at} is back after ${Math.round(after)} ms; calls that were decided without it: ${this.#instead}`)
      this.#instead = 0
    }
  }
}

/**
 * A call that is answered at once, and that tries the server for one that waits. A lease that it takes is the answer.
 */
function probe(call: Call): Call {
  if (call.verb === 'wait') return { verb: 'peek', keys: call.keys, ...(call.cost !== undefined && { cost: call.cost }) }
  return { verb: 'lease', keys: call.keys, id: call.id ?? '' }
}
