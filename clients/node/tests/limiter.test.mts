// The methods of a limiter, over every client: on a server, a cluster and with Sentinel; when callers leave, and when
// servers do.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { after, before, describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import * as ioredis from 'ioredis'
import * as redis from 'redis'
import * as redis4 from 'redis-4'
import { type Client, fixed, LimitedError, Limiter, MistakeError, OutageError, makeResult, OverloadError, parseLimits, rate, slots, untilRetry, window } from '@redis-throttle/client'
import { cluster, type Opened, sentinel, single } from './clients.mjs'
import { Cluster, MadeUp, packageFolder, Server, until } from './servers.mjs'

async function withClient<T>(opened: Promise<Opened>, run: (client: Opened['client']) => Promise<T>): Promise<T> {
  const { client, close } = await opened
  try {
    return await run(client)
  } finally {
    await close()
  }
}

const perDay = fixed(100, '1d')

describe('limits', () => {
  test('a duration needs a unit, and the error says which argument', () => {
    assert.throws(() => rate(5, 30 as never), /RATE: the period: 30 needs a unit, such as '30ms' or '30s'/)
    assert.throws(() => rate(5, '30' as never), /needs a unit: ms, s, m, h or d/)
    assert.throws(() => fixed(5, '1 month' as never), /d, w, mo or y/)
    assert.throws(() => rate(5, 'constructor' as never), /needs a unit/)
    assert.throws(() => fixed(5, '1.5mo'), /weeks, months and years are whole/)
    assert.throws(() => rate(5, '0.0000001ms'), /whole number of nanoseconds/)
    assert.throws(() => rate(5, '0s'), /not positive/)
    assert.throws(() => rate(1.5, '1s'), /the count must be an integer/)
    assert.throws(() => rate(5, '1s', { brust: 3 } as never), /there is no option brust/)
    assert.throws(() => slots(3), /a number and a ttl/)
    assert.throws(() => new Limiter({} as never), /client must be one of/)
    assert.throws(() => rate(-1, '1s'), /the count must be an integer from 0/)
    assert.throws(() => rate(5, '1s', { shadow: 'false' as never }), /RATE: shadow must be true or false, not 'false'/)
    assert.throws(() => fixed(5, '1d', { first: 1 as never }), /FIXED: first must be true or false, not a number/)
    for (const spare of [NaN, '', null]) assert.throws(() => rate(5, '1s', { spare: spare as never }), /spare must be an integer/)
    assert.equal(String(rate(5, 's', { burst: 10, shadow: false, spare: 0 }).with({ take: 3 })), 'RATE 5/1s BURST 10 TAKE 3')
  })

  test('limits are read from words', () => {
    const text = 'RATE 5/1s BURST 10 TAKE 2 WINDOW 100/30m SPARE 1 SHADOW FIXED 9/1mo OFFSET 14d TZ Europe/Berlin FIXED 3/10m FIRST'
    assert.equal(parseLimits(text).join(' '), text)
    for (const [wrong, says] of Object.entries({ '': 'at least one', 'BURST 3': 'expected RATE', 'RATE': 'count/period', 'RATE 5/s BURST': 'needs a value', 'RATE 5/s BURST x': 'an integer', 'RATE 5/s TURBO': "not 'TURBO'" })) {
      assert.throws(() => parseLimits(wrong), new RegExp(says), wrong)
    }
  })
})

describe('a client that is not supported', () => {
  test('is refused, with a sentence', () => {
    const ioredis4 = createRequire(import.meta.url)('ioredis-4') as typeof ioredis.Redis // which has no types
    const clients: unknown[] = [
      redis4.createClient(),
      redis4.createCluster({ rootNodes: [{ url: 'redis://127.0.0.1:1' }] }),
      new ioredis4({ lazyConnect: true }),
      new ioredis4.Cluster([{ host: '127.0.0.1', port: 1 }], { lazyConnect: true }),
    ]
    for (const client of clients) assert.throws(() => new Limiter(client as Client), /client must be one of .*5 or newer/)
  })
})

describe('options that an act cannot use', () => {
  test('are refused, and nothing is sent', async () => {
    const client = new ioredis.Redis({ lazyConnect: true })
    assert.throws(() => new Limiter(client, { timout: '1s' } as never), /Limiter: there is no option timout; it takes timeout, patience, breaker, commands, poll and logger/)
    const limiter = new Limiter(client)
    client.sendCommand = () => assert.fail('it was sent')
    const wrong: [() => Promise<unknown>, RegExp][] = [
      [() => limiter.wait('k', perDay, { maxWait: '1s' } as never), /wait: its maxWait is the option timeout/],
      [() => limiter.lease('k', { slots: 1, ttl: '1m', maxWait: '1s' } as never), /lease: its maxWait is the option timeout/],
      ...['any', 'group', 'id', 'priority', 'weight'].map((option): [() => Promise<unknown>, RegExp] => [() => limiter.limit('k', perDay, { [option]: 1 }), new RegExp(`limit: there is no option ${option}`)]),
      ...['charge', 'ban', 'maxWait'].map((option): [() => Promise<unknown>, RegExp] => [() => limiter.peek('k', perDay, { [option]: 1 } as never), new RegExp(`peek: there is no option ${option}`)]),
      [() => limiter.limitAll([['k', perDay]], { group: 'g' } as never), /limitAll: there is no option group/],
      [() => limiter.settle([['k', perDay]], { id: 'a', cost: 3 } as never), /settle: there is no option cost/],
      [() => limiter.refund('k', perDay, { strict: true } as never), /refund: there is no option strict/],
      [() => limiter.renew('k', { id: 'a', ttl: '1m', cost: 2 } as never), /renew: there is no option cost/],
      [() => limiter.release('k', { id: 'a', cost: 2 } as never), /release: there is no option cost/],
      [() => limiter.ban('k', '1m', { cost: 2 } as never), /ban: there is no option cost/],
      [() => limiter.reset('k', { cost: 2 } as never), /reset: there is no option cost/],
      [() => limiter.decide({ verb: 'limit', keys: [{ name: 'k', limits: [perDay] }], any: true }), /any: CL.LIMIT has no such option/],
      [() => limiter.decide({ verb: 'peek', keys: [{ name: 'k', limits: [perDay] }], charge: 'force' }), /charge: CL.PEEK has no such option/],
      [() => limiter.decide({ verb: 'peek', keys: [{ name: 'k', limits: [perDay] }, { name: 'other', limits: [perDay] }] }), /keys: CL.PEEK takes one key, not 2/],
      [() => limiter.decide({ verb: 'limit', keys: [{ name: 'k', limits: [perDay] }, { name: 'other', limits: [perDay] }] }), /keys: CL.LIMIT takes one key, not 2/],
      [() => limiter.decide({ verb: 'wait', keys: [{ name: 'k', limits: [perDay] }], several: true, maxWait: '1s' }), /several: CL.WAIT takes one key/],
      [() => limiter.decide({ verb: 'limit', keys: [{ name: 'k', limits: [perDay], slots: 3 }] }), /a key has limits or slots/],
      [() => limiter.decide({ verb: 'limit', keys: [{ name: 'k', limits: [perDay], slots: 3 }], several: true, id: 'a' }), /a key has limits or slots/],
      [() => limiter.decide({ verb: 'limit', keys: [{ name: 'k', leased: true, slots: 3 }], several: true, id: 'a' }), /ttl must be/],
      [() => limiter.decide({ verb: 'limit', keys: [{ name: 'k', slots: 3, ttl: '1m' }] }), /slots: CL.LIMIT has none/],
      [() => limiter.decide({ verb: 'peek', keys: [{ name: 'k', leased: true }] }), /leased: CL.PEEK has no slots/],
      [() => limiter.decide({ verb: 'lease', keys: [{ name: 'k', limits: [perDay], slots: 3, ttl: '1m' }], id: 'a' }), /a key has limits or slots/],
      [() => limiter.decide({ verb: 'ban', keys: [{ name: 'k', limits: [perDay] }], ban: '1m' }), /limits: CL.BAN has none/],
      [() => limiter.decide({ verb: 'limit', keys: [{ name: 'k', limits: [perDay] }], several: true, id: 'a' }), /id: it is for a key with slots/],
      [() => limiter.limitAll({ k: perDay }, { id: 'a' } as never), /limitAll: there is no option id/],
      [() => limiter.admit({ k: perDay }), /admit: one key at least needs slots/],
      [() => limiter.limit('k', perDay, { charge: 'all' as never }), /charge must be up_to, strict or force, not 'all'/],
      [() => limiter.limit('k', perDay, { force: true } as never), /limit: there is no option force; .*write charge: 'force'/],
      [() => limiter.limit('k', perDay, { cost: -1 }), /cost must be an integer from 0/],
      [() => limiter.limitAny({ 2: perDay, 1: perDay } as never), /give a Map or entries/],
      // @ts-expect-error no server takes it
      [() => limiter.limitAny([['a', perDay]], { ban: '1h' }), /limitAny: there is no option ban/],
      // @ts-expect-error no server takes it
      [() => limiter.limitAny([['a', perDay]], { charge: 'strict' }), /limitAny: charge must be up_to or force, not 'strict'/],
      // @ts-expect-error no server takes it
      [() => limiter.admit({ a: perDay, b: slots(1, '1m') }, { ban: '1h' }), /admit: there is no option ban/],
      // @ts-expect-error no server takes it
      [() => limiter.admit({ a: perDay, b: slots(1, '1m') }, { charge: 'force' }), /admit: charge must be strict, not 'force'/],
    ]
    for (const [act, says] of wrong) await assert.rejects(act, says)
  })
})

describe('several keys of which one is enough', () => {
  test('are asked in the order of the entries', async () => {
    await withServer(await Server.start(), async (server) => {
      const client = new ioredis.Redis(server.port)
      try {
        const limiter = new Limiter(client)
        for (const keys of [[['10', rate(1, '1h')], ['9', rate(1, '1h')]], new Map([['8', rate(1, '1h')], ['7', rate(1, '1h')]])] as const) {
          await limiter.limitAny(keys as Iterable<readonly [string, ReturnType<typeof rate>]>)
        }
        await limiter.limitAny([['b', rate(1, '1h')], ['a', rate(1, '1h')]])
        assert.deepEqual(((await server.do('KEYS', '*')) as string[]).sort(), ['10', '8', 'b'])
      } finally {
        client.disconnect()
      }
    })
  })
})

describe('untilRetry', () => {
  test('waits in steps that timers can take, and rejects on never and when it is left', async () => {
    await untilRetry(makeResult())
    const began = performance.now()
    await untilRetry(makeResult({ limited: true, retryAfterMs: 30 }))
    assert.ok(performance.now() - began >= 29)
    await assert.rejects(untilRetry(makeResult({ limited: true, retryAfterMs: null, limit: 3 })), LimitedError)
    await assert.rejects(untilRetry(makeResult({ limited: true, retryAfterMs: 5 }), { signal: AbortSignal.abort(new Error('enough')) }), /enough/)
    const leaving = new AbortController()
    const waiting = untilRetry(makeResult({ limited: true, retryAfterMs: 366 * 86_400_000 }), { signal: leaving.signal })
    let over = false
    waiting.catch(() => { over = true })
    await sleep(50)
    assert.equal(over, false)
    leaving.abort(new Error('enough'))
    await assert.rejects(waiting, /enough/)
  })

  test('an exhausted quota of a year is no hot loop', async () => {
    await withServer(await Server.start(), async (server) => {
      const client = new ioredis.Redis(server.port)
      try {
        const limiter = new Limiter(client)
        assert.equal((await limiter.limit('never', rate(1, '1h'), { cost: 2 })).retryAfterMs, null)
        const leaving = new AbortController()
        let calls = 0
        const working = (async () => {
          for (;;) {
            const result = await limiter.limit('year', fixed(1, '365d', { first: true }))
            calls++
            if (result.limited && calls === 2) setTimeout(() => { leaving.abort(new Error('enough')) }, 300)
            if (result.limited) await untilRetry(result, { signal: leaving.signal })
          }
        })()
        await assert.rejects(working, /enough/)
        assert.equal(calls, 2)
      } finally {
        client.disconnect()
      }
    })
  })
})

for (const [name, open] of Object.entries(single)) {
  describe(name, () => {
    let server: Server
    const serverMs = async (): Promise<number> => {
      const [seconds, micros] = (await server.do('TIME')) as [string, string]
      return Number(seconds) * 1000 + Number(micros) / 1000
    }
    before(async () => {
      server = await Server.start()
    })
    after(() => server.stop())

    test('an option that does not exist is refused', async () => {
      await withClient(open(server.port), async (client) => {
        await assert.rejects(new Limiter(client).limit('k', perDay, { costs: 3 } as never), /limit: there is no option costs; it takes cost, charge/)
        assert.equal(await server.do('EXISTS', 'k'), 0)
      })
    })

    test('a caller that waits is let in by a release, and one that leaves leaves the line', async () => {
      await withClient(open(server.port), async (client) => {
        const limiter = new Limiter(client)
        const first = await limiter.lease('jobs', { slots: 1, ttl: '1m' })
        const leaving = new AbortController()
        const second = limiter.lease('jobs', { slots: 1, ttl: '1m', timeout: 'forever' as const, signal: leaving.signal })
        await until(async () => (await server.info('throttle_leases_waiting')) === 1, 'the second waits')
        const third = limiter.lease('jobs', { slots: 1, ttl: '1m', timeout: '1h', group: 'g', priority: -1 })
        await until(async () => (await server.info('throttle_leases_waiting')) === 2, 'the third waits')
        leaving.abort(new Error('enough'))
        await assert.rejects(second, /enough/)
        await until(async () => (await server.info('throttle_leases_waiting')) === 1, 'the second has left')
        // The connection of others is not blocked meanwhile.
        assert.equal((await limiter.limit('others', perDay)).limited, false)
        await first.release()
        await (await third).release()
        assert.equal(await server.do('EXISTS', 'jobs'), 0)
      })
    })

    test('a caller that leaves just as its turn comes gives its units back', async () => {
      await withClient(open(server.port), async (client) => {
        const limiter = new Limiter(client)
        const limit = window(2, '1h')
        await limiter.limit('turn', limit, { cost: 2 })
        const leaving = new AbortController()
        const waiting = limiter.wait('turn', limit, { cost: 2, signal: leaving.signal })
        await until(async () => (await server.info('blocked_clients')) === 1, 'it waits')
        // This process is busy while its reply arrives.
        elsewhere(server, `
          await client.call('CL.REFUND', 'turn', 'WINDOW', '2/1h', 'COST', '2')
          while (!/blocked_clients:0/.test(await client.info('clients'))) {}`)
        leaving.abort(new Error('enough'))
        await assert.rejects(waiting, /enough/)
        await until(async () => (await limiter.peek('turn', limit)).remaining === 2, 'its units are back')
        assert.equal(await server.info('blocked_clients'), 0)
      })
    })

    test('a caller whose reply is on its way when it leaves gives its units back', async () => {
      const granted = [0, 1, 2, 0, -1, 5, 5, 2, 3, 0]
      const exchanges = [
        { sends: ['CL.WAIT', 'k', 'WINDOW', '2/1h', 'COST', '2', 'TIMEOUT', '0ms', 'COMPACT'], reply: { afterEnd: granted } },
        { sends: ['CL.REFUND', 'k', 'WINDOW', '2/1h', 'COST', '2', 'COMPACT'], reply: granted.with(7, -2) },
      ]
      await withServer(await MadeUp.start(exchanges), async (own) => {
        await withClient(open(own.port), async (client) => {
          const leaving = new AbortController()
          const waiting = new Limiter(client).wait('k', window(2, '1h'), { cost: 2, signal: leaving.signal })
          await until(() => own.exchanges.length === 1, 'it waits')
          leaving.abort(new Error('enough'))
          await assert.rejects(waiting, /enough/)
          await until(() => own.exchanges.length === 0, 'its units are back')
          assert.deepEqual(own.problems, [])
        })
      })
    })

    if (name.startsWith('ioredis')) {
      test('calls of one turn of the event loop are written at once', async (t) => {
        await withClient(open(server.port), async (client) => {
          const limiter = new Limiter(client)
          await limiter.limit('written', perDay)
          const { stream } = client as unknown as { stream: Record<'_write' | '_writev', () => void> }
          const writes = (['_write', '_writev'] as const).map((method) => t.mock.method(stream, method))
          await Promise.all(Array.from({ length: 100 }, (_, i) => limiter.limit(`written ${i}`, perDay)))
          assert.equal(writes.reduce((sum, { mock }) => sum + mock.callCount(), 0), 1)
        })
      })
    }

    test('a wait for units', async () => {
      await withClient(open(server.port), async (client) => {
        const limiter = new Limiter(client)
        const limit = rate(1, '100ms')
        const began = await serverMs()
        assert.equal((await limiter.wait('mail', limit)).waitMs, 0)
        await limiter.limit('mail', limit, { cost: 10, charge: 'force' })
        const asked = await serverMs()
        const { waitMs } = await limiter.wait('mail', limit, { timeout: '1m' })
        const ended = await serverMs()
        assert.ok(ended - began >= 1100, 'after all eleven units, however long this process stood still')
        assert.ok(waitMs <= ended - asked + 1, 'it says no more than it took')
        await limiter.limit('post', rate(1, '1h'))
        await assert.rejects(limiter.wait('post', rate(1, '1h'), { timeout: '1ms', cost: 1 }), LimitedError)
      })
    })

    test('a signal that is aborted already sends nothing', async () => {
      await withClient(open(server.port), async (client) => {
        const signal = AbortSignal.abort(new Error('too late'))
        const limiter = new Limiter(client)
        await assert.rejects(limiter.limit('aborted', perDay, { signal }), /too late/)
        await assert.rejects(limiter.wait('aborted', perDay, { signal }), /too late/)
        assert.equal(await server.do('EXISTS', 'aborted'), 0)
      })
    })

    test('a key is reset', async () => {
      await withClient(open(server.port), async (client) => {
        const limiter = new Limiter(client)
        await limiter.ban('bad', '1h')
        assert.equal((await limiter.limit('bad', perDay)).banned, true)
        assert.equal(await limiter.reset('bad'), true)
        assert.equal(await limiter.reset('bad'), false)
        assert.equal((await limiter.limit('bad', perDay)).remaining, 99)
      })
    })

    test('many calls at a time are charged exactly', async () => {
      await withClient(open(server.port), async (client) => {
        const limiter = new Limiter(client, { timeout: '1m' })
        const results = await Promise.all(Array.from({ length: 500 }, () => limiter.limit('crowd', perDay)))
        assert.equal(results.filter((result) => result.allowed).length, 100)
      })
    })

    test('outages: a server that stands still, one that is gone, and one that is back', async () => {
      await withServer(await Server.start(), async (own) => {
        await withClient(open(own.port), async (client) => {
          const limiter = new Limiter(client, { timeout: '200ms', patience: '300ms' })
          const unhurried = new Limiter(client, { timeout: '10s' }) // where there is no outage; the machine may be busy
          await unhurried.limit('k', perDay)
          own.pause()
          await assert.rejects(limiter.limit('k', perDay), OutageError)
          const waiting = assert.rejects(limiter.wait('k', window(1, '1h')), OutageError)
          await waiting
          own.resume()
          await until(() => answers(limiter), 'it decides again')
          await own.kill()
          await assert.rejects(limiter.limit('k', perDay), OutageError)
          await assert.rejects(limiter.wait('k', perDay, { timeout: '1h' }), OutageError)
          await own.start()
          await until(() => answers(limiter), 'it decides after the restart')
          // Calls that were left in the outage are not sent afterwards.
          const { remaining } = await unhurried.peek('k', perDay)
          assert.equal(remaining, 100)
        })
      })
    })

    test('a wait is over when the server stands still or ends', async () => {
      for (const fail of [async (own: Server) => { own.pause(); await Promise.resolve() }, async (own: Server) => { await own.kill() }]) {
        await withServer(await Server.start(), async (own) => {
          await withClient(open(own.port), async (client) => {
            const limiter = new Limiter(client, { timeout: '1s', patience: '1s' })
            await limiter.limit('w', window(1, '1h'))
            const waiting = assert.rejects(limiter.wait('w', window(1, '1h')), OutageError)
            await until(async () => (await own.info('blocked_clients')) === 1, 'it waits')
            await sleep(2500) // through some looks for a sign of life
            await fail(own)
            await waiting
          })
        })
      }
    })

    test('a server without the module is a mistake, whose text has no key', async () => {
      await withServer(await Server.withoutModule(), async (own) => {
        await withClient(open(own.port), async (client) => {
          await assert.rejects(new Limiter(client, { commands: 'module' }).limit('secret-key', perDay),
            (error: Error) => error instanceof MistakeError && /unknown command/.test(error.message) && !error.message.includes('secret-key'))
        })
      })
    })

    test('a closed client is a mistake', async () => {
      const { client, close } = await open(server.port)
      await close()
      const refused = async () => await new Limiter(client).limit('k', perDay).then(() => undefined, (error: unknown) => error)
      await until(async () => (await refused()) instanceof MistakeError, 'it is closed')
    })

    test('a call whose reply is lost is not sent again', async () => {
      const sends = ['CL.LIMIT', 'k', 'FIXED', '100/1d', 'COMPACT']
      const exchanges = [{ sends, reply: { closes: true as const } }, { sends: sends.with(1, 'again'), reply: [0, 1, 100, 99, -1, 5, 5, 1, 0, 0] }]
      await withServer(await MadeUp.start(exchanges), async (own) => {
        await withClient(open(own.port), async (client) => {
          const limiter = new Limiter(client, { timeout: '5s' })
          await assert.rejects(limiter.limit('k', perDay), OutageError)
          await until(() => answers(limiter), 'the connection is back')
          assert.deepEqual([own.exchanges, own.problems], [[], []])
        })
      })
    })
  })
}

async function withServer<T extends AsyncDisposable, R>(own: T, run: (own: T) => Promise<R>): Promise<R> {
  await using it = own
  return await run(it)
}

/**
 * Runs code with a client of the server in another process, and waits for it without a look at this process's own
 * sockets.
 */
function elsewhere(server: Server, code: string): void {
  const all = `const client = new (require('ioredis').Redis)(${server.port})\n;(async () => {${code}\nclient.disconnect()})()`
  execFileSync(process.execPath, ['-e', all], { cwd: packageFolder, timeout: 60_000 })
}

async function answers(limiter: Limiter): Promise<boolean> {
  try {
    await limiter.limit('again', perDay)
    return true
  } catch (error) {
    if (error instanceof OutageError) return false
    throw error
  }
}

describe('keys of a client with a prefix', () => {
  test('begin with it, in every command', async () => {
    await withServer(await Server.start(), async (server) => {
      const client = new ioredis.Redis(server.port, { keyPrefix: 'app:' })
      try {
        const limiter = new Limiter(client)
        await limiter.limit('k', perDay)
        await limiter.limitAll({ '{a}:1': perDay, '{a}:2': rate(1, '1s') })
        await limiter.wait('w', perDay)
        assert.deepEqual(((await server.do('KEYS', '*')) as string[]).sort(), ['app:k', 'app:w', 'app:{a}:1', 'app:{a}:2'])
        assert.equal(await limiter.reset('k'), true)
      } finally {
        client.disconnect()
      }
    })
  })
})

describe('a client of node-redis that is full', () => {
  test('is an overload and no outage', async () => {
    await withServer(await Server.start(), async (server) => {
      const client = redis.createClient({ url: server.url, commandsQueueMaxLength: 20 })
      await client.connect()
      try {
        const limiter = new Limiter(client)
        const all = await Promise.allSettled(Array.from({ length: 100 }, () => limiter.limit('k', perDay)))
        const errors = all.flatMap((one): unknown[] => (one.status === 'rejected' ? [one.reason] : []))
        assert.ok(errors.length > 0)
        assert.ok(errors.every((error) => error instanceof OverloadError), String(errors[0]))
      } finally {
        client.destroy()
      }
    })
  })
})

describe('a cluster', () => {
  let nodes: Cluster
  before(async () => {
    nodes = await Cluster.start()
  })
  after(() => nodes[Symbol.asyncDispose]())

  for (const [name, open] of Object.entries(cluster)) {
    test(`${name}: every key goes to its node`, async () => {
      await withClient(open(nodes.first.port), async (client) => {
        const limiter = new Limiter(client, { timeout: '10s' })
        for (let i = 0; i < 20; i++) {
          const key = `{${name} ${i}}`
          assert.equal((await limiter.limit(key, perDay)).remaining, 99)
          assert.equal((await limiter.limitAll([[key, perDay], [`${key}:b`, rate(2, '1h')]])).limited, false)
          assert.equal((await limiter.wait(key, perDay, { timeout: '1m' })).remaining, 97)
        }
      })
    })

    test(`${name}: a caller waits on the node of its key`, async () => {
      await withClient(open(nodes.first.port), async (client) => {
        const limiter = new Limiter(client, { timeout: '10s' })
        for (const key of ['a', 'b', 'c'].map((tag) => `${name}:${tag}`)) {
          const owner = await nodes.owner(key)
          const first = await limiter.lease(key, { slots: 1, ttl: '1m' })
          const second = limiter.lease(key, { slots: 1, ttl: '1m', timeout: '1m' })
          await until(async () => (await owner.info('throttle_leases_waiting')) === 1, 'the second waits')
          await first.release()
          await (await second).release()
        }
      })
    })

    test(`${name}: keys in different slots are a mistake`, async () => {
      await withClient(open(nodes.first.port), async (client) => {
        await assert.rejects(new Limiter(client, { timeout: '10s' }).limitAll({ a: perDay, b: perDay }), MistakeError)
      })
    })

    test(`${name}: a slot that moves is followed`, async () => {
      await withClient(open(nodes.first.port), async (client) => {
        const limiter = new Limiter(client, { timeout: '10s' })
        const key = `{${name}}:moving`
        assert.equal((await limiter.limit(key, perDay)).remaining, 99)
        await move(nodes, key)
        assert.equal((await limiter.wait(key, perDay, { timeout: '1m' })).limited, false)
        assert.equal((await limiter.limit(key, perDay)).limited, false)
      })
    })
  }
})

/** Gives the slot of a key to the next node, without what it holds. */
async function move(nodes: Cluster, key: string): Promise<void> {
  const slot = Number(await nodes.first.do('CLUSTER', 'KEYSLOT', key))
  const shown = (await nodes.first.do('CLUSTER', 'SLOTS')) as [number, number, [string, number, string]][]
  const from = shown.find(([first, last]) => first <= slot && slot <= last)?.[2][1]
  const at = nodes.nodes.findIndex((node) => node.port === from)
  await nodes.nodes[at]?.do('DEL', key)
  const to = nodes.nodes[(at + 1) % 3] as Server
  const id = String(await to.do('CLUSTER', 'MYID'))
  // A node that imported a slot takes a new epoch with it. With an old one it loses the slot again to a message that
  // was under way.
  await to.do('CLUSTER', 'SETSLOT', slot, 'IMPORTING', String(await nodes.nodes[at]?.do('CLUSTER', 'MYID')))
  for (const node of [to, ...nodes.nodes.filter((other) => other !== to)]) await node.do('CLUSTER', 'SETSLOT', slot, 'NODE', id)
}

describe('Sentinel', () => {
  for (const [name, open] of Object.entries(sentinel)) {
    test(`${name} finds the master, and does not send a call again whose reply was lost`, async () => {
      const sends = ['CL.LIMIT', 'k', 'FIXED', '100/1d', 'COMPACT']
      await withServer(await Server.start(), async (master) => {
        await withServer(await Server.configured((port) => `port ${port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 ${master.port} 1\n`, '--sentinel'), async (watcher) => {
          await withClient(open(watcher.port), async (client) => {
            const limiter = new Limiter(client)
            assert.equal((await limiter.limit('k', perDay)).remaining, 99)
            assert.equal((await limiter.wait('k', perDay, { timeout: '1m' })).remaining, 98)
            const lease = await limiter.lease('l', { slots: 1, ttl: '1m' })
            const second = limiter.lease('l', { slots: 1, ttl: '1m', timeout: '1m' })
            await until(async () => (await master.info('throttle_leases_waiting')) === 1, 'the second waits')
            await lease.release()
            await (await second).release()
          })
        })
        // A made up master hangs up instead of answering.
        await withServer(await MadeUp.start([{ sends, reply: { closes: true } }]), async (made) => {
          await withServer(await Server.configured((port) => `port ${port}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 ${made.port} 1\n`, '--sentinel'), async (watcher) => {
            await withClient(open(watcher.port), async (client) => {
              await assert.rejects(new Limiter(client, { timeout: '3s' }).limit('k', perDay), OutageError)
              await sleep(300) // a repetition would come now
              assert.deepEqual(made.problems, [])
            })
          })
        })
      })
    })
  }
})
