// Plugins for Fastify.
//
//     await app.register(rateLimit, { limiter, limits: rate(100, '1m') })
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import fastifyPlugin from 'fastify-plugin'
import { type ConcurrencyOptions, Places } from './concurrency.js'
import { type Decision, Policy, setFields, type RateLimitOptions } from './http.js'

export type { ConcurrencyOptions } from './concurrency.js'
export type { Answer, RateLimitOptions } from './http.js'

const trusts = (request: FastifyRequest) => request.ips !== undefined

type Decide = (request: FastifyRequest, reply: FastifyReply) => Promise<Decision | undefined>

async function decideFirst(app: FastifyInstance, decide: Decide): Promise<void> {
  await Promise.resolve()
  app.addHook('onRequest', async (request, reply) => {
    const decision = await decide(request, reply)
    setFields(decision, (name) => reply.getHeader(name), (name, value) => { void reply.header(name, value) })
    if (decision?.response) {
      reply.code(decision.response.status)
      return reply.send(Buffer.from(decision.response.body)) // a text would get a charset
    }
    return undefined
  })
}

const versions = { fastify: '>=5 <6', name: 'redis-throttle' }

/**
 * Lets requests through as long as there are units, and answers the others with status 429. It counts for the routes of
 * the instance that it is registered on, and of those below.
 */
export const rateLimit = fastifyPlugin(async (app: FastifyInstance, options: RateLimitOptions<FastifyRequest>): Promise<void> => {
  const policy = new Policy('Fastify', options, trusts)
  await decideFirst(app, (request) => policy.decide(request))
}, versions)

/**
 * Serves so many requests of a client at a time, in all processes together, and answers the others with status 429.
 * Each holds a slot until its response is closed. Register it after `rateLimit`, so that requests that are denied there
 * hold none.
 *
 *     await app.register(concurrency, { limiter, slots: 3, timeout: '5s' })
 */
export const concurrency = fastifyPlugin(async (app: FastifyInstance, options: ConcurrencyOptions<FastifyRequest>): Promise<void> => {
  const places = new Places('Fastify', options, trusts)
  await decideFirst(app, (request, reply) => places.take(request, reply.raw))
}, versions)
