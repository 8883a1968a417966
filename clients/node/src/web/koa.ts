// Middleware for Koa.
//
//     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
import type { Context, Next } from 'koa'
import { type ConcurrencyOptions, Places } from './concurrency.js'
import { type Decision, Policy, setFields, type RateLimitOptions } from './http.js'

export type { ConcurrencyOptions } from './concurrency.js'
export type { Answer, RateLimitOptions } from './http.js'

const trusts = (ctx: Context) => ctx.app.proxy

async function answer(ctx: Context, next: Next, decision: Decision | undefined): Promise<void> {
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

/**
 * Lets requests through as long as there are units, and answers the others with status 429. Without a key it counts for
 * each client by itself: it is `ctx.ip`, which believes proxies by the setting `proxy`.
 *
 *     app.use(rateLimit({ limiter, limits: rate(100, '1m') }))
 */
export function rateLimit(options: RateLimitOptions<Context>) {
  const policy = new Policy('Koa', options, trusts)
  return async (ctx: Context, next: Next): Promise<void> => {
    await answer(ctx, next, await policy.decide(ctx))
  }
}

/**
 * Serves so many requests of a client at a time, in all processes together, and answers the others with status 429.
 * Each holds a slot until its response is closed. Put it behind `rateLimit`, so that requests that are denied there
 * hold none.
 *
 *     app.use(concurrency({ limiter, slots: 3, timeout: '5s' }))
 */
export function concurrency(options: ConcurrencyOptions<Context>) {
  const places = new Places('Koa', options, trusts)
  return async (ctx: Context, next: Next): Promise<void> => {
    await answer(ctx, next, await places.take(ctx, ctx.res))
  }
}
