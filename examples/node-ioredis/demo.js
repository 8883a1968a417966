// Six requests to a web server that allows five an hour, then jobs under limits of other kinds, with the package
// @redis-throttle/client.
import { once } from 'node:events'
import http from 'node:http'
import { clientAddress, LimitedError, rate } from '@redis-throttle/client'
import { rateLimit } from '@redis-throttle/client/express'
import { fromUrl } from '@redis-throttle/client/ioredis'

// Each client by itself: an IPv4 address, or the network of an IPv6 address, of which a host may use all addresses.
// Behind proxies, say which are trusted: clientAddress(req, { trusted: ['10.1.0.0/24'] }).
const key = (req) => `http:${clientAddress(req)}`

// A server with middleware, and its URL.
async function serve(middleware) {
  const server = http.createServer((req, res) =>
    middleware(req, res, (error) => {
      res.statusCode = error ? 500 : 200
      if (error) console.error(error)
      res.end('hello\n')
    }),
  )
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
  for (const name of ['http:127.0.0.1', 'jobs', '{acme}', '{acme}:ann', '{acme}:bob', 'exports']) await limiter.reset(name) // so that it prints the same each time

  // Requests go through in an outage of Redis. A mistake, such as a key of another type, is an error.
  const hello = rateLimit({ limiter, limits: rate(5, '1h'), key })
  for (let n = 1; n <= 6; n++) {
    const response = await get(hello)
    console.log(`request ${n}: ${response.status}`)
    for (const field of ['RateLimit-Policy', 'RateLimit', 'Retry-After']) {
      if (response.headers.has(field)) console.log(`  ${field}: ${response.headers.get(field)}`)
    }
  }

  const nowhere = await fromUrl('redis://127.0.0.1:1')
  console.log('request without Redis:', (await get(rateLimit({ limiter: nowhere, limits: rate(5, '1h'), key, onError() {} }))).status)
  await nowhere.close()

  for (const n of [1, 2]) {
    const { waitMs } = await limiter.wait('jobs', rate(1, '2s'), { timeout: '10s' })
    console.log(`job ${n}: done`, waitMs === 0 ? 'at once' : 'after a wait')
  }

  for (const user of ['ann', 'ann', 'ann', 'bob', 'bob']) {
    // Both keys are charged or none is. In a cluster they need a hash tag in common.
    const keys = { [`{acme}:${user}`]: rate(2, '1h'), '{acme}': rate(3, '1h') }
    const result = await limiter.limitAll(keys)
    console.log(`${user}:`, result.limited ? `limited by ${result.key}` : 'allowed')
  }

  await exporting(1, () =>
    exporting(2, async () => {
      try {
        await exporting(3, () => {})
      } catch (error) {
        if (!(error instanceof LimitedError)) throw error
        console.log('export 3: no slot is free')
      }
    }),
  )
  await exporting(4, (lease) => lease.check()) // between the steps of the work: it throws when the lease was lost
}

// One of two exports at once. The lease renews itself; if the process dies, the slot is free after 30 seconds.
function exporting(n, work) {
  return limiter.withLease('exports', { slots: 2, ttl: '30s' }, (lease) => {
    console.log(`export ${n}: begun`)
    return work(lease)
  })
}

// A limiter for REDIS_URL, with REDIS_CLUSTER for the cluster that it is a node of. In an outage its calls fail fast.
const url = process.env.REDIS_URL ?? 'redis://127.0.0.1:6379'
const limiter = await fromUrl(process.env.REDIS_CLUSTER ? url.replace(/^redis:/, 'redis+cluster:') : url)
if (process.argv[2] === 'serve') {
  // Until it is ended, with as many requests an hour as the next argument says.
  const { url } = await serve(rateLimit({ limiter, limits: rate(Number(process.argv[3] ?? 5), '1h'), key }))
  console.log(url)
} else {
  await demo()
  await limiter.close()
}
