// Six requests to a web server that allows five an hour, then two jobs under a limit.
import { once } from 'node:events'
import http from 'node:http'
import { createClient } from 'redis'
import { limit, rateLimit, retry } from './rate-limit.js'

// A limiter must not keep requests waiting for Redis.
const options = { disableOfflineQueue: true, commandOptions: { timeout: 1000 } }

const hello = (req, res) => res.end('hello\n')

// The response to GET / from a server with middleware.
async function get(middleware) {
  const server = http.createServer((req, res) => middleware(req, res, () => hello(req, res)))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const response = await fetch(`http://127.0.0.1:${server.address().port}/`)
  await response.text()
  server.close()
  server.closeAllConnections()
  return response
}

const client = createClient({ ...options, url: process.env.REDIS_URL ?? 'redis://127.0.0.1:6379' })
await client.connect()
await client.del(['http:127.0.0.1', 'jobs']) // so that it prints the same each time

const fiveAnHour = { count: 5, window: 3600 }
for (let n = 1; n <= 6; n++) {
  const response = await get(rateLimit(client, fiveAnHour))
  console.log(`request ${n}: ${response.status}`)
  for (const field of ['RateLimit-Policy', 'RateLimit', 'Retry-After']) {
    if (response.headers.has(field)) console.log(`  ${field}: ${response.headers.get(field)}`)
  }
}

const nowhere = createClient({ ...options, socket: { port: 1 } })
nowhere.on('error', () => {})
nowhere.connect().catch(() => {})
console.log('request without Redis:', (await get(rateLimit(nowhere, fiveAnHour))).status)
nowhere.destroy()

for (const n of [1, 2]) {
  let calls = 0
  await retry(() => {
    calls++
    return limit(client, 'jobs', 'RATE', '1/2s')
  })
  console.log(`job ${n}: done`, calls === 1 ? 'at once' : 'after a wait')
}
await client.close()
