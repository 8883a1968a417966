// An interceptor of undici for requests to somebody else's service.
import type { Dispatcher } from 'undici'
import { gate, type OutgoingOptions } from './outgoing.js'

/** Options of `limited`. */
export type LimitedOptions = OutgoingOptions<Dispatcher.DispatchOptions>

/**
 * Returns an interceptor with which requests keep to the limits of a service. A request beyond them waits for its turn,
 * or is not sent: it rejects with a `LimitedError`. With `maxWait` it waits as long at most; without it not at all.
 *
 *     const agent = new Agent().compose(limited({ limiter, limits: window(10, '1s'), key: 'partner', maxWait: '30s' }))
 *     const { statusCode } = await request('https://partner.example/orders', { dispatcher: agent })
 *
 * Put the interceptors of undici that retry and follow redirects behind it, in a later `compose`, so that their
 * requests count as well.
 */
export function limited(options: LimitedOptions): Dispatcher.DispatcherComposeInterceptor {
  const pass = gate('limited', options)
  return (dispatch) => (request, handler) => {
    const caller = new Caller(handler)
    const { signal } = request as { signal?: unknown }
    pass(request, signal instanceof AbortSignal ? AbortSignal.any([signal, caller.signal]) : caller.signal).then(
      () => {
        dispatch(request, caller.handler)
      },
      (error: unknown) => {
        // Interceptors have handlers of undici 7, or those of before.
        if (handler.onResponseError) handler.onResponseError(caller, error as Error)
        else (handler as Before).onError?.(error as Error)
      },
    )
    return true
  }
}

/** A handler of undici 6. */
interface Before {
  onConnect?(abort: (reason?: Error) => void, context?: unknown): void
  onError?(error: Error): void
}

/**
 * The caller of a request, who may leave while it waits. `fetch` has no signal in its options: it aborts by what its
 * handler gets when the request begins. So the request begins here, for its handler, and what comes from the connection
 * later follows.
 */
class Caller implements Dispatcher.DispatchController {
  readonly #left = new AbortController()
  #connection: Pick<Dispatcher.DispatchController, 'abort' | 'pause' | 'resume'> | undefined
  readonly handler: Dispatcher.DispatchHandler
  paused = false

  constructor(handler: Dispatcher.DispatchHandler) {
    const started = (controller: Dispatcher.DispatchController) => {
      this.#begin(controller)
    }
    const connected = (abort: (reason?: Error) => void) => {
      this.#begin({ abort, pause: () => {}, resume: () => {} })
    }
    this.handler = new Proxy(handler, {
      get: (target, name) => {
        const value: unknown = Reflect.get(target, name)
        if (typeof value !== 'function') return value
        return name === 'onRequestStart' ? started : name === 'onConnect' ? connected : (value.bind(target) as unknown)
      },
    })
    if (handler.onRequestStart) handler.onRequestStart(this, {})
    else (handler as Before).onConnect?.((reason) => { this.abort(reason ?? new Error('aborted')) }, null)
  }

  get signal(): AbortSignal {
    return this.#left.signal
  }

  get aborted(): boolean {
    return this.signal.aborted
  }

  get reason(): Error | null {
    return (this.signal.reason as Error | undefined) ?? null
  }

  abort(reason: Error): void {
    this.#left.abort(reason)
    this.#connection?.abort(reason)
  }

  pause(): void {
    this.paused = true
    this.#connection?.pause()
  }

  resume(): void {
    this.paused = false
    this.#connection?.resume()
  }

  #begin(connection: Pick<Dispatcher.DispatchController, 'abort' | 'pause' | 'resume'>): void {
    this.#connection = connection
    if (this.reason) connection.abort(this.reason)
    else if (this.paused) connection.pause()
  }
}
