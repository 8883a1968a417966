// Middleware for Hono.
//
//     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
import type { Context, MiddlewareHandler } from 'hono'
import { isList, merged } from './fields.js'
import { Policy, type RateLimitOptions } from './http.js'

export type { Answer, RateLimitOptions } from './http.js'

/**
 * Lets requests through as long as there are units, and answers the others with status 429. Without a key it knows the
 * address of the peer on @hono/node-server only, and behind proxies it needs the option `trusted`.
 *
 *     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
 */
export function rateLimit(options: RateLimitOptions<Context>): MiddlewareHandler {
  const policy = new Policy('Hono', options, () => false)
  return async (c, next) => {
    const decision = await policy.decide(c)
    if (decision?.response) return c.newResponse(decision.response.body, decision.response.status as 429, Object.fromEntries(decision.response.headers))
    await next()
    for (const [name, value] of decision?.headers ?? []) {
      // What is inside of this middleware has set its items by now.
      const there = c.res.headers.get(name)
      c.header(name, there && isList(name) ? merged(name, there, value) : value)
    }
    return undefined
  }
}
