// Rate limiting with redis-throttle and node-redis: middleware for node:http, Express and
// Connect, and a retry.
import { setTimeout as sleep } from 'node:timers/promises'

// Sends CL.LIMIT with its limits and options in words, resolves to the reply's fields.
export async function limit(client, key, ...words) {
  const reply = await client.sendCommand(['CL.LIMIT', key, ...words])
  if (!Array.isArray(reply)) return reply // RESP3
  const fields = {}
  for (let i = 0; i < reply.length; i += 2) fields[reply[i]] = reply[i + 1]
  return fields
}

// Middleware: count requests per window (seconds) from each address, then 429.
export function rateLimit(client, { count, window }) {
  return async (req, res, next) => {
    let reply
    try {
      reply = await limit(client, `http:${req.socket.remoteAddress}`, 'RATE', `${count}/${window}`)
    } catch (error) {
      console.warn('requests are not limited:', error.message)
      return next()
    }
    res.setHeader('RateLimit-Policy', `"default";q=${count};w=${window}`)
    res.setHeader('RateLimit', `"default";r=${reply.remaining};t=${seconds(reply.next_after_ms)}`)
    if (!reply.limited) return next()
    res.writeHead(429, { 'Retry-After': seconds(reply.retry_after_ms), 'Content-Type': 'text/plain' })
    res.end('Too many requests\n')
  }
}

const seconds = (ms) => Math.ceil(ms / 1000)

// Calls until the reply is not limited, and resolves to it. Pauses for as long as the
// reply says, plus a random time of up to base, twice base and so on, to cap (ms):
// exponential backoff with full jitter.
export async function retry(call, { attempts = 10, base = 100, cap = 10_000 } = {}) {
  for (let attempt = 0; ; attempt++) {
    const reply = await call()
    if (!reply.limited) return reply
    // -1: it never succeeds
    if (reply.retry_after_ms < 0 || attempt + 1 === attempts) throw new Error('limited')
    await sleep(reply.retry_after_ms + Math.random() * Math.min(cap, base * 2 ** attempt))
  }
}
