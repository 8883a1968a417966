// The seam: calls are values, and the methods stand over any decider. What they return, and admissions.
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { beforeEach, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import { fixed, LeaseLostError, LimitedError, Limiter, makeResult, OutageError, rate, type Result, slots, window } from '@redis-throttle/client'
import { noting } from './noting.mjs'
import { client, server } from './served.mjs'
import { packageFolder, Server, until } from './servers.mjs'

let limiter: Limiter
beforeEach(async () => {
  limiter = new Limiter(client, { timeout: '10s' })
  await server.do('FLUSHALL')
  await server.do('CONFIG', 'SET', 'min-replicas-to-write', 0)
})

const away = () => server.do('CONFIG', 'SET', 'min-replicas-to-write', 1)
const back = () => server.do('CONFIG', 'SET', 'min-replicas-to-write', 0)

describe('a decider', () => {
  test('is what all verbs go through, each as one value', async () => {
    const seen = noting(limiter)
    const over = new Limiter(seen)
    const perHour = rate(10, '1h')
    await over.limit('k', perHour, { cost: 2 })
    await over.limitAll({ a: perHour, b: perHour })
    await over.limitAny([['a', perHour]])
    await over.peek('k', perHour)
    assert.equal(await over.refund('k', perHour, { cost: 3 }), 2, 'never above full')
    await over.wait('k', perHour)
    assert.ok((await over.ban('bad', '1m')) > 59_000)
    await (await over.lease('jobs', { slots: 1, ttl: '1s' })).release()
    assert.equal(await over.renew('jobs', { id: 'nobody', ttl: '1s' }), false)
    assert.equal(await over.release('jobs', { id: 'nobody' }), false)
    assert.equal(await over.settle({ jobs: slots() }, { id: 'nobody' }), false)
    assert.equal(await over.reset('k'), true)
    assert.equal(await over.reset('k'), false)
    assert.deepEqual(seen.calls.map(({ verb }) => verb), ['limit', 'limit', 'limit', 'peek', 'refund', 'wait', 'ban', 'lease', 'release', 'renew', 'release', 'settle', 'reset', 'reset'])
    assert.throws(() => new Limiter(seen as never, { timeout: '1s' }), /Limiter: there is no option timeout/)
  })

  test('may be made up', async () => {
    const always = new Limiter({ decide: ({ keys }) => Promise.resolve(makeResult({ limited: true, key: keys[0]?.name ?? '', retryAfterMs: null, by: 'policy' })) })
    const result = await always.limit('k', rate(1, '1h'))
    assert.deepEqual([result.limited, result.allowed, result.key, result.by], [true, false, 'k', 'policy'])
    assert.throws(() => result.orThrow(), LimitedError)
    await assert.rejects(always.wait('k', rate(1, '1h')), LimitedError)
  })

  test('that fails has its releases repeated once, however many limiters stand before it', async () => {
    const lease = await limiter.lease('jobs', { slots: 1, ttl: '1h', id: 'a' })
    const seen = noting(limiter)
    const outer = new Limiter(new Limiter(seen))
    await away()
    await assert.rejects(outer.release('jobs', { id: 'a' }), OutageError)
    await back()
    await until(async () => (await server.do('EXISTS', 'jobs')) === 0, 'the slot is free')
    assert.equal(seen.calls.length, 1, 'the innermost repeats it')
    await lease.release()
  })
})

test('a result names its key, and is one of two types', async () => {
  const result: Result = await limiter.limitAny([['{a}:1', rate(1, '1h')], ['{a}:2', rate(1, '1h')]])
  assert.deepEqual([result.key, result.keyIndex], ['{a}:1', 0])
  const next = await limiter.limitAny([['{a}:1', rate(1, '1h')], ['{a}:2', rate(1, '1h')]])
  assert.deepEqual([next.key, next.keyIndex], ['{a}:2', 1])
  if (next.limited) assert.fail()
  const never: 0 = next.retryAfterMs // tsc knows
  assert.equal(never, 0)
})

describe('an admission', () => {
  const tokens = rate(100, '1h', { take: 10 })
  const keys = { '{7}:requests': window(5, '1h'), '{7}:tokens': tokens, '{7}:running': slots(1, '1h') }
  const left = async () => (await limiter.peek('{7}:tokens', tokens, { cost: 0 })).remaining

  test('takes units and slots, renews the slots, and is settled once', async () => {
    const admission = await limiter.admit(keys)
    assert.equal(admission.result.key, '{7}:running')
    await until(async () => Number(await server.do('PTTL', '{7}:running')) > 60_000, 'it lasts for its ttl')
    assert.equal(await left(), 90)
    const denied = await limiter.admit(keys).catch((error: unknown) => error)
    assert.ok(denied instanceof LimitedError && denied.result.key === '{7}:running')
    await assert.rejects(admission.settle({ nothing: 1 }), /used: it names a key/)
    admission.check()
    assert.equal(await admission.settle({ '{7}:tokens': 4 }), true)
    assert.equal(await admission.settle({ '{7}:tokens': 0 }), false)
    assert.equal(await left(), 96)
    assert.equal(await server.do('EXISTS', '{7}:running'), 0)
    assert.equal((await limiter.peek('{7}:requests', window(5, '1h'))).remaining, 4, 'what is not named stays charged')
  })

  test('settles itself at the end of its block', async () => {
    {
      await using admission = await limiter.admit(keys, { id: 'req-1' })
      assert.equal(admission.id, 'req-1')
    }
    assert.equal(await limiter.withAdmission(keys, {}, () => 'done'), 'done')
    await assert.rejects(limiter.withAdmission(keys, {}, () => { throw new Error('of the work') }), /of the work/)
    assert.equal(await server.do('EXISTS', '{7}:running'), 0)
    assert.equal(await left(), 70)
  })

  test('that was lost is an error at the end of its block, and so is a lease', async () => {
    const short = { '{7}:running': slots(1, '300ms') }
    for (const take of [() => limiter.admit(short), () => limiter.lease('{7}:running', { slots: 1, ttl: '300ms' })]) {
      await assert.rejects((async () => {
        await using held = await take()
        await server.do('DEL', '{7}:running')
        await until(() => held.signal.aborted, 'it is lost')
      })(), LeaseLostError)
    }
    await assert.rejects(limiter.withAdmission(short, {}, async (held) => {
      await server.do('DEL', '{7}:running')
      await until(() => held.signal.aborted, 'it is lost')
    }), LeaseLostError)
  })

  test('is settled in the background after an outage', async () => {
    const admission = await limiter.admit(keys)
    await away()
    assert.equal(await admission.settle({ '{7}:tokens': 4 }), undefined)
    await back()
    await until(async () => (await server.do('EXISTS', '{7}:running')) === 0, 'the slot is free')
    assert.equal(await left(), 96)
  })

  test('whose caller left before the server took it costs nothing in the end', async () => {
    await using own = await Server.start()
    const mine = new Redis(own.port)
    try {
      await mine.ping()
      own.pause()
      await assert.rejects(new Limiter(mine, { timeout: '100ms' }).admit(keys), OutageError)
      own.resume()
      await until(async () => Number(/cmdstat_cl.mlimit:calls=(\d+)/.exec(String(await own.do('INFO', 'commandstats')))?.[1] ?? 0) === 1, 'it was taken all the same')
      await until(async () => (await own.do('EXISTS', '{7}:running', '{7}:tokens')) === 0, 'it is given back')
    } finally {
      mine.disconnect()
    }
  })

  test('charges no shadow that was not charged', async () => {
    const shadowed = { '{7}:tokens': [rate(1000, '1h', { take: 10 }), fixed(20, '1d', { take: 30, shadow: true })], '{7}:running': slots(1, '1h') }
    await limiter.limit('{7}:tokens', fixed(20, '1d', { take: 12, shadow: true }))
    const admission = await limiter.admit(shadowed)
    assert.equal(admission.result.shadowed, true)
    assert.equal(await admission.settle({ '{7}:tokens': 15 }), true)
    const { each } = await limiter.peek('{7}:tokens', shadowed['{7}:tokens'], { cost: 0, each: true })
    assert.deepEqual(each.map(({ remaining }) => remaining), [985, 8])
  })
})

test('limits may come from the CommonJS files where the limiter is of the ES modules', async () => {
  const required = createRequire(import.meta.url)('@redis-throttle/client') as { rate: typeof rate; Limiter: typeof Limiter }
  assert.notEqual(required.Limiter, Limiter)
  assert.equal((await limiter.limit('k', required.rate(2, '1h'))).remaining, 1)
  await assert.rejects(new required.Limiter(limiter).wait('k', required.rate(2, '1h'), { cost: 3 }), LimitedError)
})

test('no file imports itself by way of others', () => {
  const folder = path.join(packageFolder, 'src')
  const imports = new Map((readdirSync(folder, { recursive: true }) as string[]).filter((file) => file.endsWith('.ts')).map((file) => {
    const text = readFileSync(path.join(folder, file), 'utf8')
    return [file, [...text.matchAll(/ from '(\.[^']+)\.js'/g)].map(([, name = '']) => `${path.join(path.dirname(file), name)}.ts`)]
  }))
  const seen = new Set<string>()
  const visit = (file: string, above: string[]) => {
    assert.ok(!above.includes(file), [...above, file].join(' > '))
    if (seen.has(file)) return
    for (const next of imports.get(file) ?? assert.fail(file)) visit(next, [...above, file])
    seen.add(file)
  }
  for (const file of imports.keys()) visit(file, [])
})
