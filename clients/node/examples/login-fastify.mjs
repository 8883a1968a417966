// A login page with Fastify, where the body is there from preHandler on. docs/choosing.md ("Login protection") says why
// it has these limits.
import fastify from 'fastify'
import { Redis } from 'ioredis'
import { clientAddress, headerFields, Limiter, problemDocument, rate } from '@redis-throttle/client'

const client = new Redis('redis://127.0.0.1:6379')
await client.ping() // it is connected
const limiter = new Limiter(client)
const account = (request) => String(request.body?.user ?? '').normalize('NFKC').trim().toLowerCase().slice(0, 200)
const pair = (request) => `{fastify-login:${account(request)}}:${clientAddress(request)}`
const attempts = (request) => ({
  [pair(request)]: rate(5, '15m', { name: 'address' }),
  [`{fastify-login:${account(request)}}`]: rate(300, '1d', { name: 'account' }),
})

const app = fastify()
const preHandler = async (request, reply) => {
  const limits = attempts(request)
  const result = await limiter.limitAll(limits, { ban: '1h', banAfter: '10/1h', each: true }) // throws in an outage
  for (const [name, value] of headerFields(limits, result)) reply.header(name, value)
  if (result.limited) return reply.code(429).type('application/problem+json').send(problemDocument(limits, result))
}
app.post('/login', { preHandler }, async (request, reply) => {
  if (request.body?.password !== 'correct horse') return reply.code(401).send()
  await limiter.reset(pair(request))
  return 'welcome'
})

await app.listen({ port: 3000 })
