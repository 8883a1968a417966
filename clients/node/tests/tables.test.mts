// The tables of all languages: which key an address makes, which fields a result gets, and what becomes of a request
// without a decision.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { describe, test } from 'node:test'
import {
  clientAddress, type Denied, fromNetworks, LeaseLostError, Limit, LimitedError, type LimitFields, type Limiter, makeResult, MistakeError,
    OutageError, OverloadError, type Result,
  rate, type ThrottleError,
} from '@redis-throttle/client'
import { rateLimit } from '@redis-throttle/client/express'
import { root } from './servers.mjs'

const { apart, policies } = (await import(new URL('../../dist/esm/web/fields.js', import.meta.url).href)) as typeof import('../dist/esm/web/fields.js')

const read = <T,>(name: string) => JSON.parse(readFileSync(path.join(root, 'spec/clients', name), 'utf8')) as T

const addresses = read<{
  trusted: string[]
  keys: { address: string; ipv6?: number; key: string }[]
  clients: { rule: string; peer: string; forwarded?: string[]; client: string }[]
}>('addresses.json')

describe('the key of an address', () => {
  for (const { address, ipv6, key } of addresses.keys) {
    test(`'${address}', ${ipv6 ?? 'no length'}`, () => {
      const options = ipv6 === undefined ? {} : { ipv6 }
      assert.equal(clientAddress(address, options), key)
      assert.equal(clientAddress({ socket: { remoteAddress: address }, headers: {} }, options), key)
    })
  }

  for (const { rule, peer, forwarded, client } of addresses.clients) {
    test(`behind proxies: ${rule}`, () => {
      const request = (value: unknown) => ({ socket: { remoteAddress: peer }, headers: { 'x-forwarded-for': value } })
      assert.equal(clientAddress(request(forwarded), { trusted: addresses.trusted }), client)
      assert.equal(clientAddress(request(forwarded?.join(', ')), { trusted: addresses.trusted }), client, 'as Node.js joins fields')
    })
  }

  test('a framework says who the client is, but never what is no address', () => {
    const socket = { remoteAddress: '10.1.0.1' }
    const headers = { 'x-forwarded-for': '203.0.113.7' }
    assert.equal(clientAddress({ ip: '2001:db8:1:2::7', socket, headers }), '2001:db8:1:2::/64')
    assert.equal(clientAddress({ ip: '203.0.113.7:4711', socket, headers }), '203.0.113.7')
    assert.equal(clientAddress({ ip: 'whatever', socket, headers }), '10.1.0.1')
    assert.equal(clientAddress({ ip: '198.51.100.1', socket, headers }, { trusted: ['10.1.0.1'] }), '203.0.113.7')
  })

  test('a peer that has closed its connection has no address, and nobody believes what it says', () => {
    const gone = { socket: { remoteAddress: undefined, server: { address: () => ({ port: 80 }) } }, headers: { 'x-forwarded-for': '203.0.113.7' } }
    assert.equal(clientAddress(gone), '@')
    assert.throws(() => clientAddress({}), /does not tell the address of its peer/)
  })

  test('options that are wrong are refused', () => {
    for (const ipv6 of [0, 129, 1.5, '64']) assert.throws(() => clientAddress('::1', { ipv6: ipv6 as number }), /ipv6 must be a prefix length/)
    for (const network of ['10.1.0.0/33', '10.1', 'proxy', '::/129', '10.0.0.0/8/8', '::ffff:10.2.0.0/40', '10.0.0.0/']) {
      assert.throws(() => clientAddress('::1', { trusted: [network] }), /neither an address nor a network/, network)
    }
    assert.throws(() => clientAddress('::1', { trust: [] } as never), /there is no option trust/)
  })
})

const networks = read<{
  networks: string[]
  trusted: string[]
  refused: string[]
  requests: { rule: string; networks?: string[]; trusted?: string[]; peer: string; forwarded?: string[]; skipped: boolean }[]
}>('networks.json')

describe('the networks of skip', () => {
  const denying = { decide: () => Promise.resolve(makeResult({ limited: true })) }
  const everybody = { limiter: denying, limits: rate(1, '1h'), key: () => 'k' }

  for (const { rule, networks: skip = networks.networks, trusted = networks.trusted, peer, forwarded, skipped } of networks.requests) {
    test(rule, async () => {
      for (const value of [forwarded, forwarded?.join(', ')]) {
        const headers = { forwarded: 'for=10.2.3.4', 'x-real-ip': '10.2.3.4', ...(value !== undefined && { 'x-forwarded-for': value }) }
        const request = { socket: { remoteAddress: peer }, headers, ip: '10.2.3.4' } // which a client may have written
        assert.equal(await isServed(rateLimit({ ...everybody, skip, trusted }), request), skipped, 'rateLimit')
        assert.equal(fromNetworks(skip, { trusted })(request), skipped, 'fromNetworks')
      }
      // A Request of fetch knows no peer: a proxy on this machine has written whom it saw.
      const said = [...(forwarded ?? []), ...(peer ? [peer] : [])].join(', ')
      const request = new Request('http://127.0.0.1/', { headers: { forwarded: 'for=10.2.3.4', 'x-real-ip': '10.2.3.4', ...((said || forwarded) && { 'x-forwarded-for': said }) } })
      assert.equal(fromNetworks(skip, { trusted })(request), skipped, 'a Request of fetch')
    })
  }

  test('what is no network is refused, here and of trusted', () => {
    for (const entry of networks.refused) {
      for (const option of ['skip', 'trusted']) {
        const options = { ...everybody, key: undefined, [option]: ['127.0.0.1', entry] }
        assert.throws(() => rateLimit(options as never), (error: Error) => error.message.startsWith(`${option}: '${entry}' is neither an address nor a network`), entry)
      }
      assert.throws(() => fromNetworks([entry]), (error: Error) => error.message.startsWith(`networks: '${entry}' is neither an address nor a network`), entry)
      assert.throws(() => fromNetworks([], { trusted: [entry] }), (error: Error) => error.message.startsWith(`trusted: '${entry}' is neither`), entry)
    }
    assert.throws(() => rateLimit({ ...everybody, skip: ['10.1.2.3/8'] }), /write 10\.0\.0\.0\/8, or the address 10\.1\.2\.3$/)
    assert.throws(() => rateLimit({ ...everybody, skip: ['2001:db8::1/32'] }), /write 2001:db8::\/32, or the address 2001:db8::1$/)
    assert.throws(() => rateLimit({ ...everybody, skip: '10.0.0.0/8' as never }), /skip must be a function, or a list of addresses and networks, such as \['10.0.0.0\/8'\], not '10.0.0.0\/8'/)
    assert.throws(() => rateLimit({ ...everybody, skip: [10] as never }), /skip: '10' is neither/)
    assert.throws(() => rateLimit({ ...everybody, key: undefined, trusted: '10.0.0.0/8' } as never), /trusted must be a list/)
    assert.throws(() => rateLimit({ ...everybody, trusted: ['10.1.0.1'] }), /trusted: it is a part of the default key/)
    assert.throws(() => rateLimit({ ...everybody, trusted: ['10.1.0.1'], skip: () => true }), /trusted: it is a part of the default key/)
  })

  test('what fromNetworks cannot tell of a request is an error, and lets nobody through', () => {
    const inside = fromNetworks(['0.0.0.0/0', '::/0'])
    const request = new Request('http://127.0.0.1/', { headers: { 'x-forwarded-for': '10.2.3.4' } })
    assert.throws(() => inside(request), /networks: a Request of fetch does not tell whom it is from; .* give trusted/, 'the client may have written it')
    assert.equal(fromNetworks(['10.0.0.0/8'], { trusted: [] })(request), true)
    for (const none of [undefined, null, '10.2.3.4']) assert.throws(() => inside(none as never), /fromNetworks: the function takes a request, not (a undefined|null|a string)/)
    assert.throws(() => inside({}), /does not tell the address of its peer/)
    assert.throws(() => fromNetworks('10.0.0.0/8' as never), /networks must be a list of addresses and networks/)
    assert.throws(() => fromNetworks([], { proxies: [] } as never), /fromNetworks: there is no option proxies/)
  })

  test('a peer that has closed its connection is limited', async () => {
    const gone = { socket: { remoteAddress: undefined, server: { address: () => ({ port: 80 }) } }, headers: { 'x-forwarded-for': '10.2.3.4' } }
    assert.equal(await isServed(rateLimit({ ...everybody, skip: ['0.0.0.0/0', '::/0'], trusted: [] }), gone), false)
  })
})

/** Whether a middleware passes a request on. */
async function isServed(middleware: ReturnType<typeof rateLimit>, request: object): Promise<boolean> {
  let passed = false
  const response = { getHeader: () => undefined, setHeader: () => undefined, end: () => undefined, statusCode: 200 }
  await middleware(request as http.IncomingMessage, response as unknown as http.ServerResponse, (error) => {
    if (error !== undefined) throw error instanceof Error ? error : new Error('no error')
    passed = true
  })
  return passed
}

interface Row {
  rule: string
  limits: LimitFields[]
  result: Record<string, number | boolean>
  fields: Record<string, string>
}

interface Together {
  rule: string
  taken: string[]
  keys: LimitFields[][]
  names: string[][]
}

const fields = read<{ cases: Row[]; together: Together[]; refused: { why: string; limits: LimitFields[] }[] }>('fields.json')

/** A result as Node.js has it. */
function resultOf(row: Row['result']): Result {
  const fields: Record<string, unknown> = {}
  for (const [name, value] of Object.entries(row)) {
    const own = { key: 'keyIndex', shadow_key: 'shadowKeyIndex' }[name] ?? name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
    fields[own] = own === 'retryAfterMs' && value === -1 ? null : value
  }
  return makeResult(fields)
}

describe('the fields of a result', () => {
  for (const { rule, limits, result, fields: expected } of fields.cases) {
    test(rule, async () => {
      const limiter = { decide: () => Promise.resolve(resultOf(result)) } as unknown as Limiter
      const use = rateLimit({ limiter, limits: limits.map((limit) => new Limit(limit)), key: () => 'k', xRateLimit: 'seconds' })
      const server = http.createServer((req, res) => void use(req, res, () => res.end()))
      try {
        await once(server.listen(0, '127.0.0.1'), 'listening')
        const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, { headers: { connection: 'close' } })
        const names = ['RateLimit-Policy', 'RateLimit', 'Retry-After', 'X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset']
        const sent = names.flatMap((name) => (response.headers.has(name) ? [[name, response.headers.get(name)]] : []))
        assert.deepEqual(Object.fromEntries(sent), expected)
        assert.equal(response.status, result['limited'] === true ? 429 : 200)
      } finally {
        server.close()
      }
    })
  }

  for (const { rule, taken, keys, names } of fields.together) {
    test(rule, () => {
      const named = apart(keys.map((limits) => limits.map((limit) => new Limit(limit))), new Set(taken))
      assert.deepEqual(named.map((limits) => policies(limits).map((text) => /^"(.*)";q=/.exec(text)?.[1])), names)
    })
  }

  for (const { why, limits } of fields.refused) {
    test(why, () => {
      const limiter = { decide: () => assert.fail('it was sent') } as unknown as Limiter
      assert.throws(() => rateLimit({ limiter, limits: limits.map((limit) => new Limit(limit)) }), /is printable ASCII/)
    })
  }
})

const undecided = read<{
  defaults: Record<string, string>
  answers: Record<string, { served: boolean; status: number; retry_after?: string }>
  refused: string[]
}>('undecided.json')

const errors: Record<string, Error> = { outage: new OutageError('away'), overload: new OverloadError('busy'), mistake: new MistakeError('wrong') }

test('errors have the codes of all languages', () => {
  const { codes } = read<{ codes: Record<string, string> }>('undecided.json')
  const lost = new LeaseLostError()
  const limited = new LimitedError(makeResult({ limited: true, retryAfterMs: 1 }) as Denied)
  const found = Object.entries({ ...errors, limited, 'lease lost': lost }).map(([kind, error]) => [kind, (error as ThrottleError).code])
  const { interrupted, ...all } = codes
  assert.deepEqual(Object.fromEntries(found), all)
  assert.equal(interrupted, 'INTERRUPTED') // of Go and Java: a caller that leaves has the error of its signal here
})

describe('a request that could not be decided', () => {
  for (const [kind, error] of Object.entries(errors)) {
    const limiter = { decide: () => Promise.reject(error) } as unknown as Limiter
    const options = { limiter, limits: new Limit({ kind: 'RATE', count: 1, period: '1s' }), key: () => 'k', onError: () => undefined }
    for (const word of [undefined, ...Object.keys(undecided.answers)]) {
      test(`${kind}: ${word ?? 'by default'}`, async () => {
        const use = rateLimit({ ...options, ...(word === undefined ? {} : { [kind]: word }) })
        let served = false
        const server = http.createServer((req, res) => {
          void use(req, res, (failed?: unknown) => {
            served = failed === undefined
            res.statusCode = served ? 200 : 500 // as Express does
            res.end()
          })
        })
        try {
          await once(server.listen(0, '127.0.0.1'), 'listening')
          const response = await fetch(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, { headers: { connection: 'close' } })
          const want = undecided.answers[word ?? undecided.defaults[kind] ?? '']
          assert.deepEqual([served, response.status, response.headers.get('retry-after') ?? undefined], [want?.served, want?.status, want?.retry_after])
        } finally {
          server.close()
        }
      })
    }

    for (const word of undecided.refused) {
      test(`${kind}: '${word}' is refused`, () => {
        assert.throws(() => rateLimit({ ...options, [kind]: word }), /allow/)
      })
    }
  }
})
