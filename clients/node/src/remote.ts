// The decider on a client: sends each call to the server once.
import { type Call, commandOf, type Leave, readReply, waits, wordsOf } from './call.js'
import { ioRedis, isIoRedis } from './clients/ioredis.js'
import { nodeRedis } from './clients/noderedis.js'
import { type Client, type Transport, wait, within } from './clients/transport.js'
import type { Decider } from './decider.js'
import { translate } from './errors.js'
import type { Result } from './result.js'

export class Remote implements Decider {
  readonly #transport: Transport

  constructor(
    client: Client,
    readonly timeout: number,
    readonly patience: number,
  ) {
    this.#transport = isIoRedis(client) ? ioRedis(client) : nodeRedis(client)
  }

  async decide(call: Call, { signal }: Leave = {}): Promise<Result> {
    if (!waits(call)) return await this.#atOnce(call, signal)
    const words = wordsOf(call, this.#transport.prefix)
    if (call.verb === 'lease') {
      // Most often a slot is free, and no connection of its own is needed. Nobody is overtaken.
      const result = await this.#atOnce({ verb: call.verb, keys: call.keys, id: call.id ?? '' }, signal)
      if (!result.limited) return result
    }
    const late = (reply: unknown) => {
      this.#giveBack(call, reply)
    }
    return await this.#read(call, wait(this.#transport, words, call.keys[0]?.name ?? '', this.patience, signal, late), signal)
  }

  /** The master of a cluster that has a key, as far as it is known. */
  nodeOf(key: string): string {
    return this.#transport.node?.(key) ?? ''
  }

  // Returns the units of a reply that came after its caller had left. A lease is released by Lease.
  #giveBack(call: Call, reply: unknown): void {
    if (call.verb !== 'wait') return
    const { limited, granted } = readReply(call, reply)
    if (limited || granted <= 0) return
    const refund: Call = { verb: 'refund', keys: call.keys, ...(call.cost !== undefined && { cost: call.cost }) }
    this.#atOnce(refund, undefined).catch(() => {}) // in an outage they are lost, as those of any reply are
  }

  #atOnce(call: Call, signal: AbortSignal | undefined): Promise<Result> {
    const words = wordsOf(call, this.#transport.prefix)
    const key = call.keys[0]?.name ?? ''
    return this.#read(call, within(this.timeout, signal, (left) => this.#transport.send(words, key, left)), signal)
  }

  async #read(call: Call, attempt: Promise<unknown>, signal: AbortSignal | undefined): Promise<Result> {
    try {
      return readReply(call, await attempt)
    } catch (error) {
      if (signal?.aborted && error === signal.reason) throw error
      throw translate(commandOf(call), error)
    }
  }
}
