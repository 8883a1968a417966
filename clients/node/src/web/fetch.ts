// Requests by fetch to somebody else's service that keep to its limits.
import { gate, type OutgoingOptions } from './outgoing.js'

type Fetch = typeof globalThis.fetch

/** Options of `limitedFetch`. */
export interface LimitedFetchOptions extends OutgoingOptions<Request> {
  /** Sends the requests: the global `fetch`, if it is left out. */
  readonly fetch?: Fetch
}

/**
 * Returns a `fetch` that keeps to the limits of a service. A request beyond them waits for its turn, or is not sent: it
 * rejects with a `LimitedError`.
 *
 *     const fetchPartner = limitedFetch({ limiter, limits: window(10, '1s'), key: 'partner', maxWait: '30s' })
 *     const response = await fetchPartner('https://partner.example/orders')
 *
 * Redirects that `fetch` follows by itself do not count.
 */
export function limitedFetch(options: LimitedFetchOptions): Fetch {
  const pass = gate<Request>('limitedFetch', options, ['fetch'])
  return async (input, init) => {
    const request = new Request(input, init)
    await pass(request, request.signal)
    return await (options.fetch ?? fetch)(request)
  }
}
