// The decider on a client: sends each call to the server once.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Call, commandOf, type Leave, readReply, waits, wordsOf } from './call.js'
import { type Commands, Doors } from './clients/doors.js'
import { transportOf } from './clients/library.js'
import { type Client, type Heard, heard, wait } from './clients/transport.js'
import { type Left, within } from './clients/within.js'
import type { Decider } from './decider.js'
import { forever, milliseconds } from './duration.js'
import { isOutage, isReply, MistakeError, OverloadError, textOf, translate } from './errors.js'
import type { Logger } from './guard/guard.js'
import { type Inspection, type Inspector, readInspection } from './inspection.js'
import { makeResult, type Result } from './result.js'

export interface RemoteOptions {
  readonly timeout: number
  readonly patience: number
  readonly commands: Commands
  /** In ms; undefined refuses calls that wait where the server has no module. */
  readonly poll: number | undefined
  readonly logger: Logger
}

export class Remote implements Decider, Inspector {
  readonly #transport: Heard
  readonly #doors: Doors
  #underWay = 0

  constructor(
    client: Client,
    readonly options: RemoteOptions,
  ) {
    this.#transport = heard(transportOf(client))
    this.#doors = new Doors(this.#transport, options.commands, options.timeout, options.logger)
  }

  decide(call: Call, { signal }: Leave = {}): Promise<Result> {
    return waits(call) ? this.#inLine(call, signal) : this.#atOnce(call, signal)
  }

  /** Sends a call that waits. */
  async #inLine(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    const words = wordsOf(call, this.#transport.prefix)
    const key = call.keys[0]?.name ?? ''
    if (call.verb === 'lease') {
      // Most often a slot is free, and no connection of its own is needed. Nobody is overtaken.
      const result = await this.#atOnce(atOnce(call), signal)
      if (!result.limited) return result
    }
    if (!this.#doors.module(key)) return await this.#polled(call, signal)
    const late = (reply: unknown) => {
      this.#giveBack(call, reply)
    }
    const asked = wait(this.#transport, words, key, longestOf(call), this.options.patience, signal, late)
    let without = false
    const result = asked.catch(async (error: unknown) => {
      without = await within(this.options.timeout, signal, () => this.#doors.without(key, error))
      throw error
    }).then((reply) => readReply(call, reply)).catch((error: unknown) => { throw this.#explained(commandOf(call), key, error, signal) })
    return await result.catch((error: unknown) => {
      if (without && !this.#doors.module(key)) return this.#polled(call, signal)
      throw error
    })
  }

  /** The master of a cluster that has a key, as far as it is known. */
  nodeOf(key: string): string {
    return this.#transport.node?.(key) ?? ''
  }

  /**
   * Tells whether the server that has a key went on answering while a call had no reply that began at an instant of
   * `performance.now()`.
   */
  alive(key: string, beganMs: number): boolean {
    return this.#transport.alive(key, beganMs)
  }

  /**
   * Waits without the module, which alone can keep a caller waiting: asks until there is room. The caller that asks at
   * the right moment gets it.
   */
  async #polled(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    const { poll } = this.options
    const { maxWait: _, group, weight, priority, ...rest } = call
    const wait = call.verb === 'lease' ? 'CL.LEASE with a timeout' : 'CL.WAIT'
    if (group || weight !== undefined || priority) throw new MistakeError(`${wait}: group, weight and priority need the module: without it nobody stands in line`)
    if (poll === undefined) throw new MistakeError(`${wait} needs the module, or the option poll: a function cannot make its caller wait`)
    const began = performance.now()
    const ends = began + longestOf(call)
    const rates = call.verb === 'wait' && call.keys[0]?.limits?.every(({ fields }) => fields.kind === 'RATE') === true
    for (;;) {
      const asked = performance.now()
      const left = Math.max(ends - asked, 0)
      // Rates reserve their units at once, in order of arrival, as in line.
      const reserves = rates && left >= 1 ? { maxWait: `${Math.floor(Math.min(left, longestWait))}ms` as const } : {}
      const late = (reply: unknown) => {
        this.#giveBack(call, reply)
      }
      const result = await this.#atOnce(call.verb === 'lease' ? atOnce(call) : { ...rest, ...reserves, verb: 'limit' }, signal, late)
      const waited = Math.floor(asked - began)
      if (!result.limited) {
        if (result.waitMs > 0) await this.#turn(call, result.waitMs, signal)
        return makeResult({ ...result, waitMs: waited + result.waitMs })
      }
      const after = result.retryAfterMs
      // What is reserved, or a ban, ends when it was said to: the module, too, tells a caller at once that it is too
      // late for it.
      if (after === null || left === 0 || ((rates || result.banned) && asked + after > ends)) return makeResult({ ...result, waitMs: waited })
      const pause = after <= poll ? after * (1 + Math.random() / 10) : poll * (1 + Math.random()) / 2
      // The last question is asked when the time is over.
      await pauseFor(Math.min(Math.max(pause, 1), ends - performance.now()), signal)
    }
  }

  /** Waits for the turn of units that are reserved. A caller that leaves returns them. */
  async #turn(call: Call, ms: number, signal: AbortSignal | undefined): Promise<void> {
    try {
      await pauseFor(ms, signal)
    } catch (error) {
      this.#refund(call)
      throw error
    }
  }

  // Returns the units of a reply that came after its caller had left. A lease is released by Lease.
  #giveBack(call: Call, reply: unknown): void {
    if (call.verb !== 'wait') return
    const { limited, granted } = readReply(call, reply)
    if (!limited && granted > 0) this.#refund(call)
  }

  #refund(call: Call): void {
    const refund: Call = { verb: 'refund', keys: call.keys, ...(call.cost !== undefined && { cost: call.cost }) }
    this.#atOnce(refund, undefined).catch(() => {}) // in an outage they are lost, as those of any reply are
  }

  /** Tells what a key holds. */
  inspect(key: string, { signal }: Leave = {}): Promise<Inspection> {
    return this.#ask('CL.INSPECT', key, () => ['CL.INSPECT', this.#transport.prefix + key], readInspection, signal)
  }

  /** Sends a call that is answered at once. `late` gets a reply that comes after its caller has left. */
  #atOnce(call: Call, signal: AbortSignal | undefined, late?: (reply: unknown) => void): Promise<Result> {
    return this.#ask(commandOf(call), call.keys[0]?.name ?? '', () => wordsOf(call, this.#transport.prefix), (reply) => readReply(call, reply), signal, late)
  }

  async #ask<T>(command: string, key: string, write: () => readonly string[], read: (reply: unknown) => T, signal: AbortSignal | undefined,
    late?: (reply: unknown) => void): Promise<T> {
    if (this.#underWay >= mostUnderWay) throw new OverloadError(`${command}: ${mostUnderWay} calls of this limiter wait for their replies`)
    const words = write()
    const attempt = (left: Left) => {
      const reply = this.#doors.send(words, key, left)
      if (late) {
        reply.then((value) => {
          if (left.aborted) late(value)
        }, () => {})
      }
      return reply
    }
    this.#underWay++
    try {
      return read(await within(this.options.timeout, signal, attempt, (beganMs) => this.#transport.alive(key, beganMs)))
    } catch (error) {
      throw this.#explained(command, key, error, signal)
    } finally {
      this.#underWay--
    }
  }

  /** Tells which server is out of reach, and why, as far as the client knows. */
  #about(key: string, error: unknown, refusal: unknown): string {
    const address = this.#transport.node?.(key) || this.#transport.address?.(key)
    const reason = refusal ? '' : textOf(this.#transport.reason?.(key) ?? (notConnected.test(textOf(error)) ? 'no answer yet' : ''))
    const where = [address && !reason.includes(address) ? address : '', this.#transport.secured?.() ? 'by TLS' : ''].filter(Boolean).join(', ')
    return `${where && ` (${where})`}${reason && `: ${reason}`}`
  }

  /** Returns what a caller is told of an error. */
  #explained(command: string, key: string, error: unknown, signal: AbortSignal | undefined): Error {
    if (signal?.aborted && error === signal.reason) return error as Error
    const refusal = isOutage(error) ? this.#transport.refusal?.(key) : undefined
    return translate(command, refusal ?? error, !isOutage(error) || isReply(error) ? '' : this.#about(key, error, refusal))
  }
}

/** What the libraries, and this package, say of a call that was not sent, for want of a connection. */
const notConnected = /The client is offline|Stream isn't writeable|Cluster isn't ready|there is no connection yet/

/** How many calls may wait for their replies. More would be late in any case, and take memory. */
const mostUnderWay = 10_000

const longestWait = 36_500 * 86_400_000 // of the server
const longestTimer = 2 ** 31 - 1

/** Returns how long a call waits at most, in ms. */
const longestOf = ({ maxWait }: Call): number => (maxWait === forever || maxWait === undefined ? Infinity : milliseconds(maxWait, 'timeout'))

/** Returns the question whether a slot is free. */
const atOnce = ({ verb, keys, id }: Call): Call => ({ verb, keys, id: id ?? '' })

async function pauseFor(ms: number, signal: AbortSignal | undefined): Promise<void> {
  const ends = performance.now() + ms
  for (let left = ms; left > 0; left = ends - performance.now()) {
    try {
      await sleep(Math.min(Math.ceil(left), longestTimer), undefined, signal && { signal })
    } catch (error) {
      signal?.throwIfAborted()
      throw error
    }
  }
}
