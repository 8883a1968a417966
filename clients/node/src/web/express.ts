// Middleware for Express, Connect and node:http.
//
//     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
import type { IncomingMessage, ServerResponse } from 'node:http'
import { type ConcurrencyOptions, Places } from './concurrency.js'
import { Policy, setFields, type RateLimitOptions } from './http.js'

export type { ConcurrencyOptions } from './concurrency.js'
export type { Answer, RateLimitOptions } from './http.js'

/**
 * Lets requests through as long as there are units, and answers the others with status 429. Without a key it counts for
 * each client by itself: in Express it is `req.ip`, which believes proxies by the setting `trust proxy`.
 *
 *     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
 */
export function rateLimit<Req extends IncomingMessage = IncomingMessage>(options: RateLimitOptions<Req>) {
  const policy = new Policy('Express', options, trusts)
  return async (req: Req, res: ServerResponse, next: (error?: unknown) => void): Promise<void> => {
    let decision
    try {
      decision = await policy.decide(req)
    } catch (error) {
      next(error)
      return
    }
    setFields(decision, (name) => res.getHeader(name), (name, value) => res.setHeader(name, value))
    if (!decision?.response) {
      next()
      return
    }
    res.statusCode = decision.response.status
    res.end(decision.response.body)
  }
}

const trusts = (req: IncomingMessage) => {
  const app = (req as { app?: { get?: (setting: string) => unknown } }).app
  return Boolean(app?.get?.('trust proxy'))
}

/**
 * Serves so many requests of a client at a time, in all processes together, and answers the others with status 429.
 * Each holds a slot until its response is closed. Put it behind `rateLimit`, so that requests that are denied there
 * hold none.
 *
 *     app.use('/reports', concurrency({ limiter, slots: 3, timeout: '5s' }))
 */
export function concurrency<Req extends IncomingMessage = IncomingMessage>(options: ConcurrencyOptions<Req>) {
  const places = new Places('Express', options, trusts)
  return async (req: Req, res: ServerResponse, next: (error?: unknown) => void): Promise<void> => {
    let decision
    try {
      decision = await places.take(req, res)
    } catch (error) {
      next(error)
      return
    }
    if (!decision?.response) {
      next()
      return
    }
    setFields(decision, (name) => res.getHeader(name), (name, value) => res.setHeader(name, value))
    res.statusCode = decision.response.status
    res.end(decision.response.body)
  }
}
