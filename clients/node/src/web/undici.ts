// An interceptor of undici for requests to somebody else's service.
import type { Dispatcher } from 'undici'
import { gate, type OutgoingOptions } from './outgoing.js'

/** Options of `limited`. */
export type LimitedOptions = OutgoingOptions<Dispatcher.DispatchOptions>

/**
 * Returns an interceptor with which requests keep to the limits of a service. A request beyond them waits for its turn, or is not sent: it
 * rejects with a `LimitedError`. With `maxWait` it waits as long at most; without it not at all.
 *
 *     const agent = new Agent().compose(limited({ limiter, limits: window(10, '1s'), key: 'partner', maxWait: '30s' }))
 *     const { statusCode } = await request('https://partner.example/orders', { dispatcher: agent })
 *
 * Put the interceptors of undici that retry and follow redirects behind it, in a later `compose`, so that their requests count as well.
 */
export function limited(options: LimitedOptions): Dispatcher.DispatcherComposeInterceptor {
  const pass = gate('limited', options)
  return (dispatch) => (request, handler) => {
    const { signal } = request as { signal?: unknown }
    pass(request, signal instanceof AbortSignal ? signal : undefined).then(
      () => {
        dispatch(request, handler)
      },
      (error: unknown) => {
        // Interceptors have handlers of undici 7, or those of before.
        if (handler.onResponseError) handler.onResponseError(undefined as unknown as Dispatcher.DispatchController, error as Error)
        else (handler as { onError?(error: Error): void }).onError?.(error as Error)
      },
    )
    return true
  }
}
