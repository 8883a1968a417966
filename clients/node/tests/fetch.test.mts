// Requests to somebody else's service that keep to its limits.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import { LimitedError, OutageError, OverloadError, rate, window } from 'redis-throttle'
import { limitedFetch } from 'redis-throttle/fetch'
import { FakeLimiter } from 'redis-throttle/testing'
import { until } from './servers.mjs'

let partner: http.Server
let url: string
let served: string[]
before(async () => {
  partner = http.createServer((req, res) => {
    served.push(`${req.method} ${req.url}`)
    req.pipe(res)
  })
  await once(partner.listen(0, '127.0.0.1'), 'listening')
  url = `http://127.0.0.1:${(partner.address() as AddressInfo).port}`
})
after(() => {
  partner.closeAllConnections()
  partner.close()
})
beforeEach(() => { served = [] })

test('a request beyond the limits is not sent', async () => {
  const limiter = new FakeLimiter()
  const get = limitedFetch({ limiter, limits: rate(2, '1m'), key: 'partner' })
  const response = await get(`${url}/orders`, { method: 'POST', body: 'hello' })
  assert.equal(await response.text(), 'hello')
  await get(new Request(`${url}/more`))
  await assert.rejects(get(`${url}/refused`), (error) => error instanceof LimitedError && error.result.retryAfterMs === 30_000)
  assert.deepEqual(served, ['POST /orders', 'GET /more'])
})

test('or waits for its turn, until its signal ends the wait', async () => {
  const limiter = new FakeLimiter()
  const get = limitedFetch({ limiter, limits: window(1, '1m'), key: ({ url: to }) => (to.endsWith('/free') ? undefined : 'partner'), cost: ({ method }) => (method === 'GET' ? 1 : 0), maxWait: '90s' })
  await get(`${url}/1`)
  await get(`${url}/free`)
  await get(`${url}/2`, { method: 'POST' })
  const third = get(`${url}/3`)
  const leaving = new AbortController()
  const fourth = get(`${url}/4`, { signal: leaving.signal })
  const fifth = get(`${url}/5`)
  await until(() => limiter.blocked === 3, 'they wait')
  leaving.abort(new Error('enough'))
  await assert.rejects(fourth, /enough/)
  limiter.advance('1m')
  assert.equal((await third).status, 200)
  limiter.advance('30s')
  await assert.rejects(fifth, LimitedError)
  assert.deepEqual(served, ['GET /1', 'GET /free', 'POST /2', 'GET /3'])
})

test('errors throw, or let requests through if you say so', async () => {
  const limiter = new FakeLimiter()
  const options = { limiter, limits: rate(2, '1m'), key: 'partner' }
  limiter.fail()
  await assert.rejects(limitedFetch(options)(url), OutageError)
  await assert.rejects(limitedFetch({ ...options, outage: 'deny' })(url), OutageError)
  assert.equal((await limitedFetch({ ...options, outage: 'allow' })(url)).status, 200)
  limiter.fail('overload')
  await assert.rejects(limitedFetch({ ...options, outage: 'allow' })(url), OverloadError)
})

test('options are checked', () => {
  const options = { limiter: new FakeLimiter(), limits: rate(2, '1m'), key: 'partner' }
  assert.throws(() => limitedFetch({ ...options, keys: 1 } as never), /limitedFetch: there is no option keys/)
  assert.throws(() => limitedFetch({ ...options, outage: 'open' as never }), /outage must be allow, deny or raise/)
  assert.throws(() => limitedFetch({ ...options, maxWait: '0' }), /maxWait must not be 0/)
  assert.throws(() => limitedFetch({ ...options, key: undefined as never }), /key must be a string or a function/)
})
