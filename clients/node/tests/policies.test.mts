// Policies, by the table of all languages, spec/clients/policies.json, and what this package has beside it, without a
// server.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { setImmediate } from 'node:timers/promises'
import { afterEach, describe, mock, test } from 'node:test'
import { batched, type By, cached, type Call, type CallOptions, type Decider, type Decision, type Duration, fixed, guard, headerFields, type Key,
  Limit, type LimitFields, Limiter, makeResult, observed, OutageError, policies, policy, problemDocument, prometheusMetrics, rate, type Denied,
  type Result, slots, type Verb, window } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'
import * as prometheus from 'prom-client'
import { noting } from './noting.mjs'
import { root } from './servers.mjs'

type Hash = Record<string, string>
type TableLimit = LimitFields & { name?: string; unit?: string }
interface TableCall extends Omit<CallOptions, 'maxWait'> {
  verb: Verb
  keys: { name: string; policy?: string; limits?: TableLimit[]; slots?: number; ttl?: Duration }[]
  max_wait?: Duration
  ban_after?: string
}
interface Case {
  name: string
  hash: Hash
  call: TableCall
  passes_on: TableCall | null
  names?: string[][]
  next?: Record<string, number | boolean>
  result?: { limited: boolean; by?: By; granted?: number; key?: number; rule?: number; limit?: number }
  logs: string[]
}

const table = JSON.parse(readFileSync(path.join(root, 'spec/clients/policies.json'), 'utf8')) as {
  names: { good: string[]; bad: string[] }
  values: { value: string; limits?: TableLimit[]; names?: string[]; ban?: string; ban_after?: string; none?: boolean; error?: string }[]
  fields: { field: string; name?: string; key?: string; prefix?: string; error?: boolean }[]
  choices: { hash: Hash; of: { name: string; key: string; field: string | null }[] }
  calls: Case[]
  reads: { name: string; steps: { hash: Hash | null; counts: { name: string; key: string; value: string | null }[]; logs: string[] }[] }[]
}

type Part = typeof import('../dist/esm/policies/value.js') & Pick<typeof import('../dist/esm/limit.js'), 'nameOf'>
const part = async (name: string) => (await import(new URL(`../../dist/esm/${name}.js`, import.meta.url).href)) as Part
const { readField, readValue } = await part('policies/value')
const { nameOf } = await part('limit')

const namesOf = (limits: readonly Limit[]) => limits.map((_, rule) => nameOf(limits, rule))

/** Limits as the table has them, whose periods may be written in several ways. */
const told = (limits: readonly Limit[] = []) => limits.map((limit) => [String(limit), limit.fields.name, limit.fields.unit])

function callOf({ verb, keys, max_wait, ban_after, ...options }: TableCall): Call {
  return {
    ...options,
    ...(ban_after !== undefined && { banAfter: ban_after }),
    ...(max_wait !== undefined && { maxWait: max_wait }),
    verb,
    ...((keys.length > 1 || verb === 'settle' || keys[0]?.slots !== undefined) && { several: true }),
    keys: keys.map(({ policy: name, limits, ...key }): Key => (limits ? { ...key,
      limits: limits.map((limit) => new Limit({ ...limit, ...(name !== undefined && { policy: name }) })) } : { ...key, leased: verb !== 'reset' })),
  }
}

/** A call as the table has it: which command it is for several keys, its verb says. */
function shown({ several: _, keys, ...call }: Call): object {
  return { ...call, keys: keys.map(({ limits, ...key }) => ({ ...key, ...(limits && { limits: told(limits) }) })) }
}

/** Notes lines of log. */
function logging() {
  const lines: string[] = []
  const note = (line: string) => void lines.push(line)
  return { lines, logger: { error: note, info: note } }
}

/** Returns a limiter over a hash, with what it hands on and what it says. */
function over(hash: () => Hash | null | Promise<Hash>, next: Decider = { decide: () => Promise.resolve(makeResult()) }) {
  const asked = noting(next)
  const { lines, logger } = logging()
  const read = async () => (await hash()) ?? Promise.reject(new OutageError('away'))
  const limiter = new Limiter(policies(asked, read, { logger }))
  return { asked, calls: asked.calls, lines, limiter }
}

afterEach(() => mock.restoreAll())

describe('names of policies', () => {
  for (const name of table.names.good) test(`'${name}' is one`, () => assert.equal(policy(name, rate(1, '1s'))[0]?.fields.policy, name))
  for (const name of table.names.bad) test(`'${name}' is none`, () => assert.throws(() => policy(name, rate(1, '1s')), /the name of a policy has 1 to 64/))
})

describe('values', () => {
  for (const { value, limits, names, ban, ban_after, none, error } of table.values) {
    test(JSON.stringify(value), () => {
      if (error !== undefined) {
        assert.throws(() => readValue('api', value), (thrown: Error) => thrown.message.includes(error))
        return
      }
      const made = readValue('api', value)
      assert.deepEqual(told(made.limits), none ? [] : told(limits?.map((fields) => new Limit(fields))))
      assert.deepEqual(namesOf(made.limits), none ? [] : names)
      assert.deepEqual([made.ban, made.banAfter], [ban, ban_after])
    })
  }

  test('that every server refuses cannot be read', () => {
    for (const value of ['RATE 1/9000d BURST 100', 'RATE 2000000000/s', 'FIXED 5/h TZ Europe/Berlin', 'FIXED 5/d TZ +02:00', 'FIXED 5/h OFFSET 2h']) assert.throws(() => readValue('api', value), Error, value)
    for (const value of ['FIXED 5/w TZ Europe/Berlin', 'FIXED 5/2d TZ Asia/Tokyo OFFSET 9h']) readValue('api', value)
  })
})

describe('fields', () => {
  for (const { field, error, ...about } of table.fields) {
    test(JSON.stringify(field), () => assert.deepEqual(readField(field), error ? undefined : about))
  }
})

describe('which field counts for a key', () => {
  for (const { name, key, field } of table.choices.of) {
    test(`${name} of '${key}'`, async () => {
      const { limiter } = over(() => table.choices.hash)
      const result = await limiter.limit(key, policy(name, rate(1, '1s')))
      assert.equal(result.policies?.[0]?.field ?? null, field)
    })
  }
})

describe('calls', () => {
  for (const { name, hash, call, passes_on, names, next, result, logs } of table.calls) {
    test(name, async () => {
      const { key = 0, ...said } = next ?? {}
      const { calls, lines, limiter } = over(() => hash, { decide: () => Promise.resolve(makeResult({ ...said, keyIndex: key as number })) })
      const asked = callOf(call)
      const decided = await limiter.decide(asked)
      await limiter.decide(asked)
      assert.equal(calls.length, passes_on ? 2 : 0)
      for (const one of calls) assert.deepEqual(shown(one), shown(callOf(passes_on as TableCall)))
      if (names) assert.deepEqual(calls[0]?.keys.map(({ limits = [] }) => namesOf(limits)), names)
      for (const [field, value] of Object.entries(result ?? {})) assert.equal(decided[field === 'key' ? 'keyIndex' : (field as 'by')], value, field)
      const about = lines.filter((line) => !/^redis-throttle: throttle:policies: \d+ polic/.test(line))
      assert.deepEqual([about.length, logs.filter((text) => !about[0]?.includes(text))], [logs.length > 0 ? 1 : 0, []], about.join('\n'))
      // A call of which the hash says nothing is the same call.
      const same = JSON.stringify(passes_on?.keys) === JSON.stringify(call.keys.map(({ policy: _, ...key }) => key)) && passes_on?.ban === call.ban
      assert.deepEqual([calls[0] === asked, decided.policies === undefined], passes_on && same ? [true, true] : [false, false])
    })
  }
})

describe('reads one after the other', () => {
  for (const { name, steps } of table.reads) {
    test(name, async () => {
      let time = 0
      mock.method(performance, 'now', () => time)
      let hash: Hash | null = {}
      const { limiter, calls, lines } = over(() => hash)
      for (const [i, step] of steps.entries()) {
        hash = step.hash
        time += 2000
        await limiter.peek('before', policy('api', rate(1, '1s'))) // of which the first waits for the read, and the others begin one
        await setImmediate()
        assert.equal(lines.length, step.logs.length, `step ${i + 1}: ${lines.join('\n')}`)
        for (const text of step.logs) assert.ok(lines.some((line) => line.startsWith(`redis-throttle: ${text}`)), `step ${i + 1}: ${text}\n${lines.join('\n')}`)
        lines.length = 0
        for (const { name, key, value } of step.counts) {
          calls.length = 0
          const { by } = await limiter.peek(key, policy(name, rate(1, '1s')))
          if (value === 'NONE') assert.equal(by, 'none')
          else assert.deepEqual(told(calls[0]?.keys[0]?.limits), value === null ? [['RATE 1/1s', undefined, undefined]] : told(readValue(name, value).limits), `step ${i + 1}: ${key}`)
        }
      }
    })
  }

  test('of many changes the first 20 are said, and how many more there are', async () => {
    let time = 0
    mock.method(performance, 'now', () => time)
    let hash: Hash = {}
    const { limiter, lines } = over(() => hash)
    const ask = async () => {
      time += 2000
      await limiter.peek('k', policy('api', rate(1, '1s')))
      await setImmediate()
    }
    await ask()
    for (let i = 10; i < 35; i++) hash[`api/${i}`] = 'RATE 5/m'
    await ask()
    assert.equal(lines.length, 21)
    assert.match(lines[0] ?? '', /policy api\/10 is/)
    assert.match(lines[19] ?? '', /policy api\/29 is/)
    assert.match(lines[20] ?? '', /throttle:policies: 5 more changes/)
    hash = { 'api/a\nb': 'RATE 5/m\n' }
    lines.length = 0
    await ask()
    assert.ok(lines.every((line) => !line.includes('\n')), 'a line is a line')
  })

  test('a version that stays is read whole once in a minute', async () => {
    let time = 0
    mock.method(performance, 'now', () => time)
    const { limiter } = over(() => ({ '@version': '1', api: `RATE ${time + 1}/m` }))
    const counts = async (ms: number) => {
      time = ms
      for (let i = 0; i < 2; i++) {
        await limiter.peek('k', policy('api', rate(1, '1s')))
        await setImmediate()
      }
      return (await limiter.peek('k', policy('api', rate(1, '1s')))).policies?.[0]?.limits.join()
    }
    assert.equal(await counts(0), 'RATE 1/1m')
    assert.equal(await counts(59_000), 'RATE 1/1m')
    assert.equal(await counts(61_000), 'RATE 61001/1m')
  })

  test('calls wait for the first read alone, 200 ms at most, and within their own time', async () => {
    const hangs: (() => void)[] = []
    let reads = 0
    const { limiter, calls } = over(() => new Promise((resolve) => { reads++; hangs.push(() => { resolve({ api: 'RATE 5/m' }) }) }))
    const limits = policy('api', rate(1, '1s'))
    const left = limiter.peek('k', limits, { signal: AbortSignal.timeout(1) })
    await assert.rejects(left, /aborted due to timeout/)
    await Promise.all([limiter.peek('k', limits), limiter.peek('k', limits)])
    assert.equal((await limiter.peek('k', limits)).policies, undefined)
    assert.deepEqual([calls.length, reads], [3, 1], 'the default counts meanwhile, and one read is under way')
    hangs[0]?.()
    await setImmediate()
    assert.deepEqual((await limiter.peek('k', limits)).policies?.[0]?.limits.join(), 'RATE 5/1m')
    await limiter.peek('k', rate(1, '1s'))
  })
})

describe('the layers', () => {
  const hash = { 'api': 'RATE 2/h', 'free': 'NONE', 'two': 'RATE 2/h NAME burst FIXED 9/d' }

  test('inside see the limits of the policy', async () => {
    const next = noting(new FakeLimiter())
    const limiter = new Limiter(policies(cached(next), () => Promise.resolve(hash)))
    const ask = () => limiter.limit('k', policy('api', rate(100, '1h')))
    const results = [await ask(), await ask(), await ask(), await ask()]
    assert.deepEqual(results.map(({ limited, by, limit }) => [limited, by, limit].join(' ')), ['false server 2', 'false server 2', 'true server 2', 'true cache 2'])
    assert.deepEqual(results[3]?.policies, [{ name: 'api', field: 'api', limits: results[0]?.policies?.[0]?.limits }])
    assert.ok(next.calls.every(({ keys: [key] }) => String(key?.limits) === 'RATE 2/1h'))

    await using batches = batched(new FakeLimiter())
    const hot = new Limiter(policies(batches, () => Promise.resolve(hash)))
    let through = 0
    for (let i = 0; i < 9; i++) through += (await hot.limit('k', policy('api', rate(100, '1h')))).allowed ? 1 : 0
    assert.equal(through, 2)

    const away: Decider = { decide: () => Promise.reject(new OutageError('away')) }
    const local = new Limiter(policies(guard(away, { policy: 'local', failures: 1, onChange: () => {} }), () => Promise.resolve(hash)))
    const here = [await local.limit('k', policy('api', rate(100, '1h'))), await local.limit('k', policy('api', rate(100, '1h'))),
      await local.limit('k', policy('api', rate(100, '1h')))]
    assert.deepEqual(here.map(({ limited, by }) => [limited, by].join(' ')), ['false local', 'false local', 'true local'])
  })

  test('outside tell of the limits that decided, by their names', async () => {
    const seen: Decision[] = []
    const register = new prometheus.Registry()
    const limiter = new Limiter(observed(policies(new FakeLimiter(), () => Promise.resolve(hash)), (decision) => seen.push(decision),
      prometheusMetrics(prometheus, { register })))
    await limiter.limit('k', policy('api', rate(0, '1h')))
    await limiter.limit('k', policy('other', rate(5, '1h')))
    await limiter.limit('k2', policy('two', rate(5, '1h')))
    await limiter.limit('k3', policy('free', rate(0, '1h')))
    assert.deepEqual(seen.map(({ outcome, policy, by }) => [outcome, policy, by].join(' ')), ['allowed api server', 'allowed other server', 'allowed burst server', 'allowed  none'])
    const text = await register.metrics()
    for (const line of ['outcome="allowed",policy="api",by="server"} 1', 'outcome="allowed",policy="",by="none"} 1']) assert.ok(text.includes(line), text)
  })

  test('the header fields of a response are of the limits that decided', async () => {
    const limiter = new Limiter(policies(new FakeLimiter(), () => Promise.resolve(hash)))
    const limits = policy('two', rate(100, '1h'))
    const result = await limiter.limit('k', limits, { each: true })
    assert.deepEqual(Object.fromEntries(headerFields(limits, result)), { 'RateLimit-Policy': '"burst";q=2;w=3600, "two-2";q=9;w=86400', 'RateLimit': '"burst";r=1;t=1800, "two-2";r=8;t=86400' })
    await limiter.limit('k', limits)
    const denied = await limiter.limit('k', limits)
    assert.deepEqual(problemDocument(limits, denied as Denied)['violated-policies'], ['burst'])
    assert.deepEqual(headerFields(policy('free', rate(1, '1h')), await limiter.limit('k', policy('free', rate(1, '1h')))), [])
    const both = { '{1}a': policy('free', rate(1, '1h')), '{1}b': policy('api', rate(1, '1h')) }
    assert.deepEqual(Object.fromEntries(headerFields(both, await limiter.limitAll(both))), { 'RateLimit-Policy': '"api";q=2;w=3600', 'RateLimit': '"api";r=1;t=1800' })
  })
})

test('limits of several policies on one key are a mistake, and limits without one are none', async () => {
  const { limiter, calls } = over(() => ({ api: 'RATE 5/m' }))
  await assert.rejects(limiter.limit('k', [...policy('api', rate(1, '1s')), fixed(5, '1d')]), /limits: those of a key belong to one policy, or to none/)
  assert.throws(() => policy('api', []), /policy: api needs at least one limit/)
  await limiter.limit('k', policy('api', [rate(1, '1s'), window(3, '1m')], fixed(5, '1d')))
  assert.equal(calls.length, 1)
  for (const wrong of [{ hash: '' }, { refresh: '0' }, { refreshes: '1s' }]) assert.throws(() => policies(limiter, () => Promise.resolve({}),
    wrong as never), Error)
  assert.throws(() => policies(limiter, {} as never), /client must be one of node-redis or ioredis, or a function/)
})

test('a limit of the other copy of the package, required or imported, has its policy', async () => {
  const required = createRequire(import.meta.url)('@redis-throttle/client') as typeof import('@redis-throttle/client')
  const { limiter } = over(() => ({ api: 'RATE 5/m' }))
  const result: Result = await limiter.limit('k', required.policy('api', required.rate(1, '1s')))
  assert.equal(result.policies?.[0]?.field, 'api')
  const other = new required.Limiter(required.policies({ decide: () => Promise.resolve(makeResult()) }, () => Promise.resolve({ api: 'NONE' })))
  assert.equal((await other.limit('k', policy('api', rate(1, '1s')))).by, 'none')
})

test('of several keys of which one is enough, one that lets everything through ends the search', async () => {
  const limiter = new Limiter(policies(new FakeLimiter(), () => Promise.resolve({ free: 'NONE', none: 'RATE 0/m' })))
  const ask = async (...names: string[]) => {
    const { limited, key, by } = await limiter.limitAny(names.map((name) => [`{1}${name}`, policy(name, rate(1, '1h'))] as const))
    return [limited, key, by].join(' ')
  }
  assert.equal(await ask('free', 'a'), 'false {1}free none')
  assert.equal(await ask('a', 'free'), 'false {1}a server')
  assert.equal(await ask('a', 'free', 'b'), 'false {1}free none')
  assert.equal(await ask('none', 'b'), 'false {1}b server')
  assert.equal(await ask('none', 'a'), 'true {1}a server')
})

test('an admission is settled by the limits that it was charged by, whatever the policy is by then', async () => {
  let time = 0
  mock.method(performance, 'now', () => time)
  let hash: Hash = { tokens: 'RATE 1000/h', free: 'NONE' }
  const server = new FakeLimiter()
  const { limiter, calls } = over(() => hash, server)
  const keys = { '{7}tokens': policy('tokens', rate(100, '1h', { take: 50 })), '{7}free': policy('free', rate(100, '1h', { take: 50 })), '{7}running': slots(1, '1m') }
  const admission = await limiter.admit(keys, { id: 'a' })
  assert.deepEqual(admission.result.policies?.map((applied) => applied?.limits.join()), ['RATE 1000/1h TAKE 50', '', undefined])
  hash = { tokens: 'WINDOW 5/m' }
  time += 2000
  await limiter.peek('other', policy('tokens', rate(1, '1h')))
  await setImmediate()
  assert.equal(await admission.settle({ '{7}tokens': 20, '{7}free': 7 }), true)
  assert.deepEqual(calls.at(-1)?.keys.map(({ name, limits }) => [name, limits?.join()]), [['{7}tokens', 'RATE 1000/1h TAKE 50 USED 20'], ['{7}running', undefined]])
  assert.equal((await server.peek('{7}tokens', rate(1000, '1h'))).remaining, 980)
})

test('a shadow of a policy that was not charged is not settled', async () => {
  const server = new FakeLimiter()
  const limiter = new Limiter(policies(server, () => Promise.resolve({ tokens: 'RATE 1000/h WINDOW 10/h SHADOW' })))
  const admission = await limiter.admit({ '{7}tokens': policy('tokens', rate(100, '1h', { take: 50 })), '{7}running': slots(1, '1m') }, { id: 'a' })
  await admission.settle({ '{7}tokens': 60 })
  const left = await server.peek('{7}tokens', [rate(1000, '1h'), window(10, '1h')], { cost: 0, each: true })
  assert.deepEqual(left.each.map(({ remaining }) => remaining), [940, 10])
})

test('calls that a policy cannot serve keep their defaults', async () => {
  const { limiter, calls, lines } = over(() => ({ api: 'RATE 5/m', tried: 'RATE 9/m RATE 5/m SHADOW', banned: 'RATE 5/m BAN 1m' }))
  await limiter.wait('k', policy('api', window(5, '1m')), { group: 'a', timeout: '1s' })
  await limiter.wait('k', policy('tried', rate(5, '1s')), { timeout: '1s' })
  assert.deepEqual(calls.map(({ keys: [key] }) => String(key?.limits)), ['WINDOW 5/1m', 'RATE 5/1s'])
  assert.deepEqual(lines.slice(1).map((line) => /policy (\w+): .*: the default counts$/.exec(line)?.[1]), ['api', 'tried'])
  // A ban is left out where no server takes one.
  calls.length = 0
  await limiter.limitAny([['k', policy('banned', rate(9, '1m'))]])
  await limiter.limit('k', policy('banned', rate(9, '1m')), { maxWait: '1s' })
  await limiter.decide({ verb: 'limit', keys: [{ name: 'k', limits: policy('banned', rate(9, '1m')) }] })
  assert.deepEqual(calls.map(({ ban, keys: [key] }) => [ban, String(key?.limits)]), [[undefined, 'RATE 5/1m'], [undefined, 'RATE 5/1m'], ['1m', 'RATE 5/1m']])
})
