// A plugin for Fastify.
//
//     await app.register(rateLimit, { limiter, limits: rate(100, '1m') })
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { Policy, setFields, type RateLimitOptions } from './http.js'

export type { Answer, RateLimitOptions } from './http.js'

async function plugin(app: FastifyInstance, options: RateLimitOptions<FastifyRequest>): Promise<void> {
  const policy = new Policy('Fastify', options, (request) => request.ips !== undefined)
  await Promise.resolve()
  app.addHook('onRequest', async (request, reply) => {
    const decision = await policy.decide(request)
    setFields(decision, (name) => reply.getHeader(name), (name, value) => { void reply.header(name, value) })
    if (decision?.response) {
      reply.code(decision.response.status)
      return reply.send(Buffer.from(decision.response.body)) // a text would get a charset
    }
    return undefined
  })
}

/**
 * Lets requests through as long as there are units, and answers the others with status 429. It counts for the routes of the
 * instance that it is registered on, and of those below.
 */
export const rateLimit = Object.assign(plugin, { [Symbol.for('skip-override')]: true, [Symbol.for('fastify.display-name')]: 'redis-throttle' })
