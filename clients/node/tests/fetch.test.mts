// Requests to somebody else's service that keep to its limits.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { after, before, beforeEach, test } from 'node:test'
import { LimitedError, OutageError, OverloadError, rate, window } from '@redis-throttle/client'
import * as axiosNew from 'axios'
import * as axiosOld from 'axios-1.7'
import * as undiciNew from 'undici'
import * as undiciOld from 'undici-6'
import { limited as forAxios } from '@redis-throttle/client/axios'
import { limitedFetch } from '@redis-throttle/client/fetch'
import { limited as forUndici } from '@redis-throttle/client/undici'
import { FakeLimiter } from '@redis-throttle/client/testing'
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
  const get = limitedFetch({ limiter, limits: window(1, '1m'), key: ({ url: to }) => (to.endsWith('/free') ? undefined : 'partner'),
    cost: ({ method }) => (method === 'GET' ? 1 : 0), maxWait: '90s' })
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

for (const [name, { Agent, fetch: undiciFetch, request }] of Object.entries({ 'undici 7': undiciNew, 'undici 6': undiciOld as unknown as typeof undiciNew })) {
  test(`${name}: a request beyond the limits is not sent, or waits for its turn`, async () => {
    const limiter = new FakeLimiter()
    const agentOf = (options: Partial<Parameters<typeof forUndici>[0]>) => new Agent().compose(forUndici({ limiter, limits: window(1, '1m'),
      key: ({ path }) => (path === '/free' ? undefined : 'partner'), ...options }))
    const get = (path: string, dispatcher: undiciNew.Dispatcher, signal?: AbortSignal) => request(url + path, { dispatcher, ...(signal && { signal }) })
    const fast = agentOf({})
    await (await get('/1', fast)).body.dump()
    await (await get('/free', fast)).body.dump()
    await assert.rejects(get('/2', fast), (error) => error instanceof LimitedError && error.result.retryAfterMs === 60_000)
    const waits = agentOf({ maxWait: '90s' })
    const third = get('/3', waits)
    const leaving = new AbortController()
    const fourth = get('/4', waits, leaving.signal)
    await until(() => limiter.blocked === 2, 'they wait')
    leaving.abort(new Error('enough'))
    await assert.rejects(fourth, /enough/)
    await until(() => limiter.blocked === 1, 'one has left the line')
    const gone = new AbortController()
    const fetched = undiciFetch(`${url}/fetched`, { dispatcher: waits, signal: gone.signal })
    await until(() => limiter.blocked === 2, 'a fetch waits')
    gone.abort(new Error('enough'))
    await assert.rejects(fetched, /enough/)
    await until(() => limiter.blocked === 1, 'the fetch has left the line')
    limiter.advance('1m')
    await (await third).body.dump()
    const later = undiciFetch(`${url}/later`, { dispatcher: agentOf({ key: () => 'other' }) })
    assert.equal(await (await later).text(), '')
    limiter.fail()
    await assert.rejects(get('/5', fast), OutageError)
    await (await get('/6', agentOf({ outage: 'allow' }))).body.dump()
    assert.deepEqual(served, ['GET /1', 'GET /free', 'GET /3', 'GET /later', 'GET /6'])
    await Promise.all([fast.close(), waits.close()])
  })
}

for (const [name, { default: axios }] of Object.entries({ axios: axiosNew, 'axios 1.7': axiosOld as unknown as typeof axiosNew })) {
  test(`${name}: a request beyond the limits is not sent, or waits for its turn`, async () => {
    const limiter = new FakeLimiter()
    const partnerOf = (options: Partial<Parameters<typeof forAxios>[0]>) => {
      const instance = axios.create({ baseURL: url })
      instance.interceptors.request.use(forAxios({ limiter, limits: window(1, '1m'), key: ({ url: path }) => (path === '/free' ? undefined : 'partner'), ...options }))
      return instance
    }
    const fast = partnerOf({})
    await fast.get('/1')
    await fast.get('/free')
    await assert.rejects(fast.get('/2'), (error) => error instanceof LimitedError && error.result.retryAfterMs === 60_000)
    const waits = partnerOf({ maxWait: '90s' })
    const third = waits.get('/3')
    const leaving = new AbortController()
    const fourth = waits.get('/4', { signal: leaving.signal })
    await until(() => limiter.blocked === 2, 'they wait')
    leaving.abort(new Error('enough'))
    await assert.rejects(fourth, axios.isCancel)
    const token = axios.CancelToken.source()
    const cancelled = waits.get('/cancelled', { cancelToken: token.token })
    await until(() => limiter.blocked === 2, 'it waits')
    token.cancel('enough')
    await assert.rejects(cancelled, axios.isCancel)
    await until(() => limiter.blocked === 1, 'it has left the line')
    limiter.advance('1m')
    assert.equal((await third).status, 200)
    limiter.fail()
    await assert.rejects(fast.get('/5'), OutageError)
    await partnerOf({ outage: 'allow' }).get('/6')
    assert.deepEqual(served, ['GET /1', 'GET /free', 'GET /3', 'GET /6'])
  })
}
