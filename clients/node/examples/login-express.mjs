// A login page with Express. docs/choosing.md ("Login protection") says why it has these limits.
import express from 'express'
import { Redis } from 'ioredis'
import { clientAddress, Limiter, rate } from '@redis-throttle/client'
import { rateLimit } from '@redis-throttle/client/express'

const client = new Redis('redis://127.0.0.1:6379')
await client.ping() // it is connected
const limiter = new Limiter(client)
const account = (req) => String(req.body?.user ?? '').normalize('NFKC').trim().toLowerCase().slice(0, 200)
const pair = (req) => `{login:${account(req)}}:${clientAddress(req)}`
const attempts = (req) => ({
  [pair(req)]: rate(5, '15m', { name: 'address' }),
  [`{login:${account(req)}}`]: rate(300, '1d', { name: 'account' }),
})

const app = express()
app.use(express.json())
app.post('/login', rateLimit({ limiter, keys: attempts, ban: '1h', banAfter: '10/1h', outage: 'deny' }), async (req, res) => {
  if (req.body?.password !== 'correct horse') return res.sendStatus(401)
  await limiter.reset(pair(req))
  res.send('welcome')
})

app.listen(3000)
