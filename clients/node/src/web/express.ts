// Middleware for Express, Connect and node:http.
//
//     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
import type { IncomingMessage, ServerResponse } from 'node:http'
import { Policy, setFields, type RateLimitOptions } from './http.js'

export type { Answer, RateLimitOptions } from './http.js'

/**
 * Lets requests through as long as there are units, and answers the others with status 429. Without a key it counts for each client
 * by itself: in Express it is `req.ip`, which believes proxies by the setting `trust proxy`.
 */
export function rateLimit<Req extends IncomingMessage = IncomingMessage>(options: RateLimitOptions<Req>) {
  const policy = new Policy('Express', options, (req) => {
    const app = (req as { app?: { get?: (setting: string) => unknown } }).app
    return Boolean(app?.get?.('trust proxy'))
  })
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
