// Six requests to a web server that allows five an hour, then jobs under limits of other kinds.
import { once } from 'node:events'
import http from 'node:http'
import { createClient, createCluster } from 'redis'
import { Limited, limit, limitKeys, modules, rateLimit, retry, withSlot } from './rate-limit.js'

// A limiter must not keep requests waiting for Redis.
const options = { disableOfflineQueue: true, socket: { connectTimeout: 1000 } }

const hello = (req, res) => res.end('hello\n')

// A server with middleware, and its URL.
async function serve(middleware) {
  const server = http.createServer((req, res) => middleware(req, res, () => hello(req, res)))
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return { server, url: `http://127.0.0.1:${server.address().port}/` }
}

// The response to GET / from a server with middleware.
async function get(middleware) {
  const { server, url } = await serve(middleware)
  const response = await fetch(url)
  await response.text()
  server.close()
  server.closeAllConnections()
  return response
}

async function demo() {
  for (const key of ['http:127.0.0.1', 'jobs', '{acme}', '{acme}:ann', '{acme}:bob', 'exports']) await client.del(key) // so that it prints the same each time

  const fiveAnHour = { count: 5, window: 3600 }
  for (let n = 1; n <= 6; n++) {
    const response = await get(rateLimit(client, fiveAnHour))
    console.log(`request ${n}: ${response.status}`)
    for (const field of ['RateLimit-Policy', 'RateLimit', 'Retry-After']) {
      if (response.headers.has(field)) console.log(`  ${field}: ${response.headers.get(field)}`)
    }
  }

  const nowhere = createClient({ ...options, modules, socket: { port: 1 } })
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

  for (const user of ['ann', 'ann', 'ann', 'bob', 'bob']) {
    const reply = await limitKeys(client, { [`{acme}:${user}`]: ['RATE', '2/h'], '{acme}': ['RATE', '3/h'] })
    console.log(`${user}:`, reply.limited ? `limited by ${reply.key}` : 'allowed')
  }

  await exporting(1, () =>
    exporting(2, async () => {
      try {
        await exporting(3, () => {})
      } catch (error) {
        if (!(error instanceof Limited)) throw error
        console.log('export 3: no slot is free')
      }
    }),
  )
  await exporting(4, (renew) => renew())
  await client.close()
}

// One of two exports at once.
function exporting(n, work) {
  return withSlot(client, 'exports', { slots: 2, ttl: 30 }, (renew) => {
    console.log(`export ${n}: begun`)
    return work(renew)
  })
}

// A client for REDIS_URL, with REDIS_CLUSTER for the cluster that it is a node of.
function connect() {
  const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
  if (!process.env.REDIS_CLUSTER) return createClient({ ...options, modules, url })
  return createCluster({ rootNodes: [{ url }], defaults: options, modules })
}

const client = connect()
client.on('error', (error) => console.error(error.message)) // or else it would end the process
await client.connect()
if (process.argv[2] === 'serve') {
  // Until it is ended, with as many requests an hour as the next argument says.
  const { url } = await serve(rateLimit(client, { count: process.argv[3] ?? 5, window: 3600 }))
  console.log(url)
} else {
  await demo()
}
