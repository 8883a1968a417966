// A limiter with a client of its own, for a URL.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Call, Leave } from '../call.js'
import type { Client } from '../clients/transport.js'
import type { Logger } from '../guard/guard.js'
import { isError, isOutage, isOverload, MistakeError } from '../errors.js'
import { reasonOf } from '../clients/refusal.js'
import { within } from '../clients/within.js'
import { Limiter, limiterOptions, type LimiterOptions } from '../limiter.js'
import { refuseOthers, timerMs } from '../options.js'
import type { Result } from '../result.js'

/** Options of `fromUrl`: those of a `Limiter`, and of the client that is made. */
export interface UrlOptions<ClientOptions> extends LimiterOptions {
  /**
   * Options of the client library for its connections, such as `{ keyPrefix: 'app:' }`: none, if it is left out. They
   * go before those that make the client fail fast, but not before the URL.
   */
  readonly options?: ClientOptions
  /** The same for connections to Sentinels, such as their `password`: none, if it is left out. */
  readonly sentinel?: ClientOptions
}

/** What this package needs of a client that it makes. */
export interface Made<C extends Client> {
  readonly client: C
  on(event: 'error' | 'ready', listener: (error?: unknown) => void): unknown
  /** Connects, and goes on until it is connected or closed. */
  connect(): Promise<unknown>
  isReady(): boolean
  /** Ends it when the calls that are under way have their replies. */
  end(): Promise<unknown>
  /** Ends it at once. */
  destroy(): unknown
}

/**
 * A `Limiter` with a client of its own, which `close` ends; so does the end of an `await using` block.
 *
 *     const limiter = await fromUrl('redis://127.0.0.1:6379')
 *     await limiter.close()
 */
export class UrlLimiter<C extends Client> extends Limiter implements AsyncDisposable {
  readonly #made: Made<C>
  readonly #closeMs: number
  #closed: Promise<void> | undefined

  constructor(made: Made<C>, options: LimiterOptions) {
    super(made.client, options)
    this.#made = made
    this.#closeMs = timerMs(options.timeout ?? '200ms', 'timeout')
  }

  /** The client of the library. */
  get client(): C {
    return this.#made.client
  }

  /** Ends the client. Calls that are under way get their replies, for as long as a call may take. */
  close(): Promise<void> {
    this.#closed ??= this.#end()
    return this.#closed
  }

  override async decide(call: Call, options?: Leave): Promise<Result> {
    if (this.#closed) throw new MistakeError('the limiter is closed')
    return await super.decide(call, options)
  }

  async #end(): Promise<void> {
    const leave = new AbortController()
    const late = sleep(this.#closeMs, undefined, { signal: leave.signal }).catch(() => {})
    if (this.#made.isReady()) await Promise.race([this.#made.end().catch(() => {}), late])
    leave.abort()
    // node-redis waits for a Sentinel to which it is connecting, and which may hang.
    await Promise.race([this.#made.destroy(), sleep(this.#closeMs, undefined, { ref: false })])
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

/** Returns the options of a limiter among those of `fromUrl`. */
export function checkedOptions<ClientOptions>(options: UrlOptions<ClientOptions>): { mine: LimiterOptions; options: ClientOptions | undefined;
  sentinel: ClientOptions | undefined } {
  refuseOthers('fromUrl', options, [...limiterOptions, 'options', 'sentinel'])
  const { options: ofClient, sentinel, ...mine } = options
  return { mine, options: ofClient, sentinel }
}

const pauseMs = 500

/**
 * Returns a limiter on a client that is just made, to `where`, when it is connected, or when time is up: an outage at
 * start is one of the calls. What is no outage, such as a wrong password, is thrown.
 */
export async function connected<C extends Client>(made: Made<C>, where: string, options: LimiterOptions): Promise<UrlLimiter<C>> {
  const { logger = console } = options
  const refused = new Promise<never>((_, reject) => {
    told(made, where, logger, reject)
  })
  let limiter
  try {
    limiter = new UrlLimiter(made, options)
    const ready = new Promise<void>((resolve) => {
      made.on('ready', () => {
        resolve()
      })
      if (made.isReady()) resolve()
    })
    void made.connect().catch(() => {}) // its errors are told by its event
    await within(timerMs(options.timeout ?? '200ms', 'timeout'), undefined, () => Promise.race([ready, refused]))
    return limiter
  } catch (error) {
    if (limiter && isOutage(error)) return limiter
    await made.destroy()
    throw error
  } finally {
    refused.catch(() => {})
  }
}

/**
 * Listens to errors of a client, which would end the process: what is no outage is logged, once until it is over.
 * Outages are told by calls.
 */
function told<C extends Client>(made: Made<C>, where: string, logger: Logger, reject: (error: unknown) => void): void {
  let last = ''
  made.on('ready', () => {
    last = ''
  })
  made.on('error', (told) => {
    const error = reasonOf(told)
    if (!(isError(error)) || isOutage(error) || isOverload(error) || error.message === last) return
    last = error.message
    const message = `the server (${where}) does not let this client in: ${last}`
    reject(new MistakeError(message))
    logger.error(`redis-throttle: ${message}`)
  })
}

/**
 * Repeats an attempt to connect until it succeeds or the client is closed, with pauses: some clients give up after the
 * first.
 */
export async function persistently(attempt: () => Promise<unknown>, closed: () => boolean, failed: (error: unknown) => void): Promise<void> {
  while (!closed()) {
    try {
      await attempt()
      return
    } catch (error) {
      if (closed()) return
      failed(error)
      await sleep(pauseMs, undefined, { ref: false })
    }
  }
}

