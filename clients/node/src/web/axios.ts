// An interceptor of axios for requests to somebody else's service.
import type { InternalAxiosRequestConfig } from 'axios'
import { gate, type OutgoingOptions } from './outgoing.js'

/** Options of `limited`. */
export type LimitedOptions = OutgoingOptions<InternalAxiosRequestConfig>

/**
 * Returns a request interceptor with which requests keep to the limits of a service. A request beyond them waits for its turn, or is not
 * sent: it rejects with a `LimitedError`. With `maxWait` it waits as long at most; without it not at all.
 *
 *     const partner = axios.create({ baseURL: 'https://partner.example' })
 *     partner.interceptors.request.use(limited({ limiter, limits: window(10, '1s'), key: 'partner', maxWait: '30s' }))
 */
export function limited(options: LimitedOptions): (config: InternalAxiosRequestConfig) => Promise<InternalAxiosRequestConfig> {
  const pass = gate('limited', options)
  return async (config) => {
    await pass(config, config.signal instanceof AbortSignal ? config.signal : undefined)
    return config
  }
}
