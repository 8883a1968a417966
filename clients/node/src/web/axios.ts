// An interceptor of axios for requests to somebody else's service.
import type { InternalAxiosRequestConfig } from 'axios'
import { gate, type OutgoingOptions } from './outgoing.js'

/** Options of `limited`. */
export type LimitedOptions = OutgoingOptions<InternalAxiosRequestConfig>

/**
 * Returns a request interceptor with which requests keep to the limits of a service. A request beyond them waits for
 * its turn, or is not sent: it rejects with a `LimitedError`. With `maxWait` it waits as long at most; without it not
 * at all.
 *
 *     const partner = axios.create({ baseURL: 'https://partner.example' })
 *     partner.interceptors.request.use(limited({ limiter, limits: window(10, '1s'), key: 'partner', maxWait: '30s' }))
 */
export function limited(options: LimitedOptions): (config: InternalAxiosRequestConfig) => Promise<InternalAxiosRequestConfig> {
  const pass = gate('limited', options)
  return async (config) => {
    const { signal, end } = leaving(config)
    try {
      await pass(config, signal)
    } catch (error) {
      if (!signal?.aborted || error !== signal.reason) throw error
      // axios does not send it then, and throws its own error, which axios.isCancel knows.
    } finally {
      end()
    }
    return config
  }
}

/** Returns what tells that the caller leaves, by either way that axios has. */
function leaving({ signal, cancelToken }: InternalAxiosRequestConfig): { signal: AbortSignal | undefined; end: () => void } {
  if (!cancelToken) return { signal: signal instanceof AbortSignal ? signal : undefined, end: () => {} }
  const left = new AbortController()
  const abort = () => {
    left.abort()
  }
  const token = cancelToken as { subscribe?: (listener: () => void) => void; unsubscribe?: (listener: () => void) => void }
  token.subscribe?.(abort)
  signal?.addEventListener?.('abort', abort)
  if (signal?.aborted) abort()
  return {
    signal: left.signal,
    end: () => {
      token.unsubscribe?.(abort)
      signal?.removeEventListener?.('abort', abort)
    },
  }
}
