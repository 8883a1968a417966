// Middleware for Koa.
//
//     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
import type { Context, Next } from 'koa'
import { Policy, setFields, type RateLimitOptions } from './http.js'

export type { Answer, RateLimitOptions } from './http.js'

/** Lets requests through as long as there are units, and answers the others with status 429. */
export function rateLimit(options: RateLimitOptions<Context>) {
  const policy = new Policy('Koa', options, (ctx) => ctx.app.proxy)
  return async (ctx: Context, next: Next): Promise<void> => {
    const decision = await policy.decide(ctx)
    setFields(decision, (name) => ctx.response.get(name), (name, value) => { ctx.set(name, value) })
    if (!decision?.response) {
      await next()
      return
    }
    ctx.status = decision.response.status
    // A buffer, because a text would get a content type of its own.
    ctx.body = Buffer.from(decision.response.body)
    for (const [name, value] of decision.response.headers) if (name === 'Content-Type') ctx.set(name, value)
  }
}
