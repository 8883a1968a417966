// What becomes of calls while Redis is away: the breaker, the policies, and one process's part of the limits.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Call, type Decider, type Duration, fixed, Guard, guard, type GuardOptions, LimitedError, Limiter, makeResult, MistakeError, OutageError,
  OverloadError, parseLimits, type Policy, rate, type Result, window } from '@redis-throttle/client'
import { cluster, type Opened, single } from './clients.mjs'
import { Cluster, root, Server, until } from './servers.mjs'

const quiet = { error() {}, info() {} }
const perHour = rate(10, '1h')
const limit: Call = { verb: 'limit', keys: [{ name: 'k', limits: [perHour] }] }

/** A server that is away, or back. It answers all calls at once, but those that wait only when they are let go. */
class Failing implements Decider {
  away = true
  error: Error = new OutageError('away')
  refuses: Error | undefined // the answer to a peek
  limited = false // no slot is free
  verbs: string[] = []
  let!: () => void
  readonly #let = new Promise<void>((resolve) => { this.let = resolve })

  async decide(call: Call) {
    this.verbs.push(call.verb)
    const { name = '' } = call.keys[0] ?? {}
    if (this.away) throw this.error
    if (call.maxWait !== undefined && (call.verb === 'wait' || call.verb === 'lease')) await this.#let
    else if (call.verb === 'peek' && this.refuses) throw this.refuses
    else if ((call.verb === 'lease' && this.limited) || (call.verb === 'renew' && call.id === 'mine')) return makeResult({ key: name, limited: true })
    return makeResult({ key: name, granted: call.verb === 'release' && call.id !== 'mine' ? -1 : 0 })
  }
}

const pause = 30
const guarded = (next: Decider, policy: Policy, options: GuardOptions = {}) => guard(next, { policy, failures: 1, pause: `${pause}ms`, logger: quiet, ...options })
const paused = () => sleep(pause + 10)

const waiting: Record<string, Call> = {
  'a wait': { verb: 'wait', keys: [{ name: 'k', limits: [perHour] }], maxWait: 'forever' },
  'a lease that waits': { verb: 'lease', keys: [{ name: 's', leased: true, slots: 1, ttl: '1m' }], id: 'a', maxWait: '1h' },
}

describe('the breaker', () => {
  test('opens after so many failures in a row, or at half of many', async () => {
    const f = new Failing()
    const g = guard(f, { failures: 3, pause: '1h', logger: quiet })
    const ask = async (away: boolean) => { f.away = away; await g.decide(limit).catch(() => {}) }
    for (const away of [true, true, false, true, true]) await ask(away)
    assert.equal(g.out, false)
    for (let i = 0; i < 4; i++) for (const away of [false, true]) await ask(away)
    assert.equal(g.out, false, 'eight failures')
    for (let i = 0; i < 4; i++) for (const away of [true, false]) await ask(away)
    assert.equal(g.out, true, 'twelve failures of 24 calls')
    const { length } = f.verbs
    await assert.rejects(g.decide(limit), (error: Error) => error instanceof OutageError && error.message.includes('left alone after: away'))
    assert.equal(f.verbs.length, length, 'it is not asked')
  })

  test('is not opened by mistakes, overloads and callers that leave', async () => {
    const f = new Failing()
    for (const error of [new MistakeError('wrong'), new OverloadError('busy')]) {
      f.error = error
      const g = guarded(f, 'open')
      for (let i = 0; i < 10; i++) await assert.rejects(g.decide(limit), error)
      assert.equal(g.out, false)
    }
    const hangs: Decider = { decide: (_, { signal } = {}) => new Promise((__, reject) => { signal?.addEventListener('abort',
      () => { reject(signal.reason as Error) }) }) }
    const patient = guarded(hangs, 'open', { patience: '1h' })
    const alive = setTimeout(() => {}, 60_000) // timers of signals keep no process
    for (let i = 0; i < 10; i++) await assert.rejects(patient.decide(limit, { signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' })
    assert.equal(patient.out, false, 'it had no time to answer')
    const g = guarded(hangs, 'open')
    await assert.rejects(g.decide(limit, { signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' })
    assert.equal(g.out, true)
    clearTimeout(alive)
  })

  test('lets one call try the server after a pause', async () => {
    const f = new Failing()
    const g = guarded(f, 'closed')
    const result = await g.decide(limit)
    assert.deepEqual([result.limited, result.by, result.retryAfterMs === null || result.retryAfterMs > 0], [true, 'policy', true])
    await paused()
    f.verbs = []
    await Promise.all(Array.from({ length: 10 }, () => g.decide(limit)))
    assert.equal(f.verbs.length, 1)
    await paused()
    f.away = false
    await g.decide(limit)
    assert.equal(g.out, false)
  })

  for (const [name, call] of Object.entries(waiting)) {
    for (const refuses of [undefined, new MistakeError('NOPERM', { cause: new Error('NOPERM this user has no permissions') })]) {
      test(`${name} keeps nobody from the server${refuses ? ', if it may not peek either' : ''}`, async () => {
        const f = new Failing()
        const g = guarded(f, 'closed')
        await g.decide(limit)
        Object.assign(f, { away: false, refuses, limited: true })
        await paused()
        let answered = false
        const answer = g.decide(call).then((result) => { answered = true; return result })
        await until(() => !g.out, 'the server is back')
        assert.equal((await g.decide(limit)).by, 'server')
        assert.equal(answered, false)
        f.let()
        assert.equal((await answer).by, 'server')
      })
    }

    test(`${name} is left to the policy while the server is away`, async () => {
      const f = new Failing()
      const g = guarded(f, 'open')
      for (let i = 0; i < 3; i++) {
        assert.equal((await g.decide(call)).by, 'policy')
        await paused()
      }
      assert.deepEqual(f.verbs, call.verb === 'wait' ? ['wait', 'peek', 'peek'] : ['lease', 'lease', 'lease'])
    })
  }

  test('a server that answers with a mistake is back', async () => {
    const f = new Failing()
    const changes: boolean[] = []
    const g = guarded(f, 'open', { onChange: (_, outage) => changes.push(outage !== undefined) })
    await g.decide(limit)
    f.error = new MistakeError('CL.LIMIT: WRONGPASS', { cause: new Error('WRONGPASS invalid username-password pair') })
    await paused()
    await assert.rejects(g.decide(limit), f.error)
    assert.equal(g.out, false)
    for (let i = 0; i < 100; i++) await assert.rejects(g.decide(limit), f.error)
    assert.deepEqual(changes, [true, false])
  })

  test('the outage of a node ends where its keys are', async () => {
    for (const old of ['', '10.0.0.1:6379']) {
      const f = new Failing()
      const nodes: Record<string, string> = { k: old, other: '10.0.0.3:6379' }
      const changes: string[] = []
      const g = guarded(f, 'open', { pause: '10ms', node: (key) => nodes[key] ?? '', onChange: (node, outage) => changes.push(`${node} ${outage !== undefined}`) })
      const ask = async (key: string, away: boolean) => {
        f.away = away
        return (await g.decide({ ...limit, keys: [{ name: key, limits: [perHour] }] })).by
      }
      assert.equal(await ask('k', true), 'policy')
      assert.equal(await ask('other', false), 'server')
      assert.equal(g.out, true, 'the other node has none of its keys')
      nodes['k'] = '10.0.0.2:6379'
      assert.equal(await ask('k', true), 'policy')
      assert.equal(await ask('other', false), 'server')
      assert.equal(g.out, true, 'the node that has them now is away, too')
      await sleep(20)
      assert.equal(await ask('k', false), 'server')
      assert.equal(g.out, false)
      assert.deepEqual(changes.sort(), [`${old} true`, '10.0.0.2:6379 true', `${old} false`, '10.0.0.2:6379 false'].sort())
    }
  })

  test('says once that an outage begins, and once that it is over', async () => {
    const lines: string[] = []
    const f = new Failing()
    const g = guarded(f, 'open', { logger: { error: (line) => lines.push(`error ${line}`), info: (line) => lines.push(`info ${line}`) } })
    for (let i = 0; i < 5; i++) await g.decide(limit)
    await paused()
    await g.decide(limit)
    f.away = false
    await paused()
    await g.decide(limit)
    assert.equal(lines.length, 2)
    assert.match(lines[0] ?? '', /^error redis-throttle: Redis is out of reach, the policy is open: away$/)
    assert.match(lines[1] ?? '', /^info redis-throttle: Redis is back after \d+ ms; calls that were decided without it: 6$/)
  })

  test('options are checked', () => {
    const f = new Failing()
    assert.throws(() => guard(f, { policy: 'opne' as never }), /policy must be fail, open, closed or local, not 'opne'/)
    assert.throws(() => guard(f, { failures: 0 }), /failures must be an integer of at least 1/)
    assert.throws(() => guard(f, { processes: 2 }), /processes: it goes with the policy local/)
    assert.throws(() => guard(f, { pause: '0' }), /pause: '0' must be from 1ms/)
    assert.throws(() => guard(f, { poilcy: 'open' } as never), /guard: there is no option poilcy/)
    assert.throws(() => guard({} as never), /next must be a Limiter or another decider/)
  })
})

interface Step {
  at: number
  call?: string
  begins?: string
  ends?: string
  sent?: boolean
  out?: boolean
  times?: number
}

describe('the table of all languages', () => {
  const table = JSON.parse(readFileSync(path.join(root, 'spec/clients/breaker.json'), 'utf8')) as { failures: number; pause_ms: number; cases: { rule: string; steps: Step[] }[] }
  afterEach(() => mock.restoreAll())

  for (const { rule, steps } of table.cases) {
    test(rule, async () => {
      let time = 0
      mock.method(performance, 'now', () => time)
      let asked = 0
      let say: (leave: AbortController) => Promise<Result>
      const leaving = new Map<AbortSignal, AbortController>()
      const g = guard({ decide: (_, { signal } = {}) => { asked++; return say(leaving.get(signal as AbortSignal) as AbortController) } },
        { failures: table.failures, pause: `${table.pause_ms}ms`, logger: quiet })
      const told = (call: string, leave: AbortController): Promise<Result> => {
        if (call === 'ok') return Promise.resolve(makeResult())
        if (call === 'left') leave.abort(new Error('left'))
        const error = { outage: new OutageError('away'), overload: new OverloadError('busy'),
          mistake: new MistakeError('NOPERM', { cause: new Error('NOPERM no permission') }), left: leave.signal.reason as Error }[call]
        return Promise.reject(error ?? new Error(`the table has a call that is ${call}`))
      }
      const ask = async () => {
        const leave = new AbortController()
        leaving.set(leave.signal, leave)
        await g.decide(limit, { signal: leave.signal }).catch(() => {})
      }
      const begun = new Map<string, { end: (call: string) => void; over: Promise<void> }>()
      for (const [i, { at, call = '', begins, ends, sent, out, times = 1 }] of steps.entries()) {
        time = at
        for (let n = 0; n < times; n++) {
          const before = asked
          if (begins !== undefined) {
            let end: (call: string) => void = () => {}
            say = (leave) => new Promise((resolve, reject) => { end = (how) => { told(how, leave).then(resolve, reject) } })
            const over = ask()
            begun.set(begins, { end, over })
          } else if (ends !== undefined) {
            begun.get(ends)?.end(call)
            await begun.get(ends)?.over
          } else {
            say = (leave) => told(call, leave)
            await ask()
          }
          if (sent !== undefined) assert.equal(asked > before, sent, `step ${i}`)
        }
        if (out !== undefined) assert.equal(g.out, out, `step ${i}`)
      }
    })
  }
})

describe('the policy local', () => {
  test('decides by the same limits, and by a process\'s part of them', async () => {
    const own = new Limiter(guarded(new Failing(), 'local', { processes: 4 }))
    for (const [cost, limited, never] of [[6, true, false], [20, true, false], [21, true, true], [5, false, false]] as const) {
      const result = await own.limit('k', rate(20, '1h'), { cost })
      assert.deepEqual([result.limited, result.retryAfterMs === null, result.by], [limited, never, 'local'], String(cost))
    }
    assert.equal((await own.limit('w', window(3, '1h'))).limited, false, 'each process has one unit of a small limit')
    const never = new Limiter(guarded(new Failing(), 'local', { processes: 4, neverMore: true }))
    const small = await never.limit('w', window(3, '1h'))
    assert.deepEqual([small.limited, small.retryAfterMs !== null], [true, true], 'it is to be tried again')
    assert.equal((await never.limit('w', window(3, '1h'), { cost: 4 })).retryAfterMs, null)
    await assert.rejects(own.wait('k', rate(20, '1h')), LimitedError)
    await assert.rejects(own.refund('k', rate(20, '1h')), OutageError)
    await assert.rejects(own.limit('k', rate(20, '1h'), { cost: 1.5 }), /cost must be an integer/)
  })

  test('all processes together keep the limits', async () => {
    for (let round = 0; round < 30; round++) {
      const processes = 1 + Math.floor(Math.random() * 5)
      const count = 1 + Math.floor(Math.random() * 30)
      const limits = [rate(count, '1h', { burst: 1 + Math.floor(Math.random() * 30) }), window(count, '1h'), fixed(count, '100d')][round % 3] ?? perHour
      const all = Array.from({ length: processes }, () => new Limiter(guarded(new Failing(), 'local', { processes, neverMore: true })))
      let granted = 0
      for (let i = 0; i < 200; i++) granted += (await (all[i % processes] as Limiter).limit('k', limits, { cost: 1 + (i % 2) })).granted
      assert.ok(granted <= limits.capacity, `${limits} by ${processes}: ${granted}`)
      if (limits.capacity >= 2 * processes) assert.ok(granted > limits.capacity - 2 * processes, `${limits} by ${processes}: ${granted}`)
    }
  })

  test('its share of each kind of limit', async () => {
    const { share } = (await import(new URL('../../dist/esm/guard/share.js', import.meta.url).href)) as { share: (call: Call, processes: number, atLeastOne: boolean) => Call | undefined }
    const { cases } = JSON.parse(readFileSync(path.join(root, 'spec/clients/shares.json'), 'utf8')) as {
      cases: { limits: string; processes: number; at_least_one?: boolean; part: string | null }[]
    }
    const plain = (words: string) => words.replaceAll(';', '')
    for (const { limits, processes, at_least_one = false, part } of cases) {
      const shared = share({ verb: 'limit', keys: [{ name: 'k', limits: parseLimits(plain(limits)) }] }, processes, at_least_one)
      assert.equal(shared?.keys[0]?.limits?.join(' ') ?? null, part && plain(part), `${limits} of ${processes}`)
    }
  })

  test('remembers so many keys', async () => {
    const own = new Limiter(guarded(new Failing(), 'local', { keys: 2 }))
    for (const [key, limited] of [['a', false], ['b', false], ['a', true], ['c', false], ['a', true], ['b', false]] as const) {
      assert.equal((await own.limit(key, rate(1, '1h'))).limited, limited, key)
    }
  })

  test('a lease that it granted outlasts the outage', async () => {
    const f = new Failing()
    const own = new Limiter(guarded(f, 'local'))
    const ask = (verb: 'lease' | 'renew' | 'release', id: string) => own.decide({ verb,
      keys: [{ name: 's', ...(verb === 'lease' && { leased: true, slots: 2 }), ...(verb !== 'release' && { ttl: '30s' as Duration }) }], id })
    assert.equal((await ask('lease', 'mine')).limited, false)
    assert.equal((await ask('lease', 'of both')).limited, false)
    assert.equal((await ask('lease', 'another')).limited, true)
    f.away = false
    await paused()
    assert.deepEqual([(await ask('renew', 'mine')).by, (await ask('renew', 'of both')).by], ['local', 'server'])
    assert.equal((await ask('release', 'of both')).by, 'server')
    const released = await ask('release', 'mine')
    assert.deepEqual([released.by, released.granted], ['local', -1])
    assert.equal((await ask('release', 'mine')).granted, 0, 'it is over')
    f.away = true
    for (const id of ['another', 'one more']) assert.equal((await ask('lease', id)).limited, false, 'the slots are free in the next outage')
  })
})

for (const name of ['node-redis 6', 'ioredis 6']) {
  describe(`a limiter without options, over ${name}`, () => {
    const lines: string[] = []
    beforeEach(() => {
      lines.length = 0
      mock.method(console, 'error', (line: string) => void lines.push(line))
      mock.method(console, 'info', (line: string) => void lines.push(line))
    })
    afterEach(() => mock.restoreAll())

    test('costs little while its server hangs, and nothing once it is left alone', async (t) => {
      await using server = await Server.start()
      const { client, close } = await (single[name] as (port: number) => Promise<Opened>)(server.port)
      try {
        const limiter = new Limiter(client)
        await until(() => limiter.limit('k', perHour).then(() => true, () => false), 'it decides')
        const other = new Limiter(guard(limiter, { policy: 'local' })) // in the place of its breaker
        server.pause()
        const times: number[] = []
        const first = performance.now()
        let asked = 0 // calls that the server had a timeout to answer
        for (let i = 0; i < 12; i++) {
          const began = performance.now()
          await assert.rejects(limiter.limit('k', perHour), (error) => {
            if (!/the server is left alone/.test(String(error))) asked++
            return error instanceof OutageError
          })
          times.push(performance.now() - began)
        }
        t.diagnostic(`ms: ${times.map((ms) => ms.toFixed(1)).join(' ')}`)
        assert.ok(asked >= 5 && asked <= 5 + (performance.now() - first) / 1000, `five calls, and one more a second: ${asked}`)
        assert.equal((await other.limit('k', perHour)).by, 'local')
        server.resume()
        await until(() => limiter.limit('k', perHour).then(() => true, () => false), 'it decides again')
        assert.equal(lines.filter((line) => /is out of reach, the policy is fail/.test(line)).length, 1)
        assert.equal(lines.filter((line) => /is back after/.test(line)).length, 1)
      } finally {
        await close()
      }
    })

    test('may be told never to leave it alone', async () => {
      await using server = await Server.start()
      const { client, close } = await (single[name] as (port: number) => Promise<Opened>)(server.port)
      try {
        const limiter = new Limiter(client, { breaker: false, timeout: '20ms' })
        server.pause()
        for (let i = 0; i < 8; i++) await assert.rejects(limiter.limit('k', perHour), /no reply within 20 ms/)
        assert.deepEqual(lines, [])
        assert.throws(() => new Limiter(client, { breaker: { polic: 'open' } as never }), /breaker: there is no option polic/)
      } finally {
        server.resume()
        await close()
      }
    })
  })

  test(`${name}: a master of a cluster that hangs keeps nobody from the others`, async () => {
    await using nodes = await Cluster.start()
    const { client, close } = await (cluster[name] as (port: number) => Promise<Opened>)(nodes.first.port)
    try {
      const changes: string[] = []
      const limiter = new Limiter(guard(new Limiter(client), { policy: 'closed', failures: 2, onChange: (node, outage) => changes.push(`${node} ${outage !== undefined}`) }))
      const keys = new Map<number, string>()
      for (let i = 0; keys.size < 3; i++) keys.set((await nodes.owner(`k${i}`)).port, `k${i}`)
      for (const key of keys.values()) await until(async () => (await limiter.limit(key, perHour)).by === 'server', 'it decides')
      changes.length = 0
      const hangs = nodes.nodes[1] as Server
      const others = [...keys].filter(([port]) => port !== hangs.port).map(([, key]) => key)
      hangs.pause()
      await until(async () => (await limiter.limit(keys.get(hangs.port) ?? '', perHour)).by === 'policy' && changes.length > 0, 'it is left alone')
      assert.match(changes[0] ?? '', new RegExp(`:${hangs.port} true$`))
      for (const key of others) assert.equal((await limiter.limit(key, perHour)).by, 'server')
      hangs.resume()
      await until(async () => (await limiter.limit(keys.get(hangs.port) ?? '', perHour)).by === 'server', 'it is back')
    } finally {
      await close()
    }
  })
}

test('a guard is a decider like any other', () => {
  assert.ok(guard(new Failing()) instanceof Guard)
})
