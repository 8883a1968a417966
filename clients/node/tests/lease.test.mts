// Leases: renewed, lost, given back; and held by a process that is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, afterEach, before, beforeEach, describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Lease, LeaseLostError, LimitedError, Limiter, MistakeError, OutageError, rate, slots, window } from '@redis-throttle/client'
import { type Opened, single } from './clients.mjs'
import { MadeUp, packageFolder, Server, until } from './servers.mjs'

for (const name of ['node-redis 6', 'ioredis 6']) {
  const open = single[name] as (port: number) => Promise<Opened>

  describe(`leases over ${name}`, () => {
    let server: Server
    let opened: Opened
    let limiter: Limiter
    before(async () => {
      server = await Server.start()
    })
    after(() => server.stop())
    beforeEach(async () => {
      await server.do('FLUSHALL')
      opened = await open(server.port)
      limiter = new Limiter(opened.client)
    })
    afterEach(async () => {
      await opened.close()
    })

    test('a call that a full line turns away is denied at once, and asked once', async () => {
      await using full = await Server.start('max-waiting', '1')
      const there = await open(full.port)
      try {
        const asks = new Limiter(there.client)
        const left = new AbortController()
        await asks.limit('k', window(1, '1d'))
        await using held = await asks.lease('jobs', { slots: 1, ttl: '1h' })
        const waits = asks.wait('k', window(1, '1d'), { signal: left.signal })
        await until(async () => String(await full.do('INFO', 'throttle')).includes('throttle_waiting:1\r'), 'somebody waits')
        await assert.rejects(asks.wait('k', window(1, '1d')), (error) => error instanceof LimitedError && Number(error.result.retryAfterMs) > 0)
        await assert.rejects(asks.lease('jobs', { slots: 1, ttl: '1h', timeout: '1h' }),
          (error) => error instanceof LimitedError && Number(error.result.retryAfterMs) > 0)
        const info = String(await full.do('INFO', 'throttle'))
        assert.match(info, /throttle_turned_away:2\r/)
        assert.match(info, /throttle_calls_wait:2\r/)
        left.abort()
        await assert.rejects(waits)
        assert.equal(held.lost, false)
      } finally {
        await there.close()
      }
    })

    test('a lease outlives its ttl and ends with the block', async () => {
      let held
      {
        await using lease = await limiter.lease('k', { slots: 1, ttl: '2s' }) // a busy process may stand still for a second
        held = lease
        for (const ends = performance.now() + 3000; performance.now() < ends; await sleep(20)) {
          lease.check()
          await assert.rejects(limiter.lease('k', { slots: 1, ttl: '300ms' }), LimitedError)
        }
      }
      assert.equal(held.lost, true)
      assert.equal(held.signal.aborted, false)
      assert.equal(await server.do('EXISTS', 'k'), 0)
    })

    test('so does one of withLease, which returns what the work returns, and throws what it throws', async () => {
      assert.equal(await limiter.withLease('k', { slots: 1, ttl: '1m' }, async () => Number(await server.do('EXISTS', 'k'))), 1)
      assert.equal(await server.do('EXISTS', 'k'), 0)
      await assert.rejects(limiter.withLease('k', { slots: 1, ttl: '1m' }, () => { throw new Error('of the work') }), /of the work/)
      assert.equal(await server.do('EXISTS', 'k'), 0)
    })

    test('a lease lasts for its whole ttl as soon as there is a holder, so that a short outage does not end it', async () => {
      mock.timers.enable({ apis: ['setTimeout'] }) // none is ever over, so no renewal is due
      try {
        const lease = await limiter.lease('k', { slots: 1, ttl: '1h' })
        const ends = performance.now() + 30_000
        while (Number(await server.do('PTTL', 'k')) < 60_000) assert.ok(performance.now() < ends, 'it lasts for a few seconds')
        await lease.release()
        assert.equal(await server.do('EXISTS', 'k'), 0)
      } finally {
        mock.timers.reset()
      }
    })

    test('a lease that somebody deletes is lost, and its signal tells the work', async () => {
      await assert.rejects(
        limiter.withLease('k', { slots: 1, ttl: '600ms' }, async (lease) => {
          await server.do('DEL', 'k')
          if (!lease.signal.aborted) await once(lease.signal, 'abort')
          assert.ok(lease.signal.reason instanceof LeaseLostError)
        }),
        LeaseLostError,
      )
    })

    test('a server that stands still loses the lease no later than it lapses', async () => {
      const own = await Server.start()
      const mine = await open(own.port)
      try {
        const patient = new Limiter(mine.client, { timeout: '100ms' })
        const began = performance.now()
        const lease = await patient.lease('k', { slots: 1, ttl: '400ms' })
        const granted = performance.now()
        own.pause()
        const [event] = (await once(lease.signal, 'abort')) as [Event]
        assert.equal(event.type, 'abort')
        // It may have been renewed once before the server stood still.
        const paused = granted + 400 / 3
        assert.ok(performance.now() - began < paused - began + 5000, 'it lapses after 400 ms')
        assert.equal(lease.lost, true)
        own.resume()
        await lease.release()
      } finally {
        await mine.close()
        await own.stop()
      }
    })

    test('the slot of a process that is killed becomes free', async () => {
      const holder = spawn(process.execPath, ['--input-type=module', '-e', `
        import { createClient } from 'redis'
        import { Limiter } from '@redis-throttle/client'
        const client = await createClient({ url: process.argv[1] }).connect()
        await new Limiter(client).lease('k', { slots: 1, ttl: '2s' })
        console.log('held')
        setTimeout(() => {}, 60_000)`, server.url], { cwd: packageFolder, stdio: ['ignore', 'pipe', 'inherit'] })
      const [line] = (await once(holder.stdout, 'data')) as [Buffer]
      assert.equal(String(line), 'held\n')
      for (const ends = performance.now() + 3000; performance.now() < ends; await sleep(20)) {
        await assert.rejects(limiter.lease('k', { slots: 1, ttl: '1m' }), LimitedError)
      }
      const ended = once(holder, 'exit')
      holder.kill('SIGKILL')
      await ended
      await (await limiter.lease('k', { slots: 1, ttl: '1m', timeout: '30s' })).release()
    })

    test('a slot that the server grants to a caller that has left is given back', async () => {
      const own = await Server.start()
      const mine = await open(own.port)
      try {
        const hasty = new Limiter(mine.client, { timeout: '100ms' })
        own.pause()
        await assert.rejects(hasty.lease('k', { slots: 1, ttl: '1h' }), OutageError)
        own.resume()
        await until(async () => (await own.info('cmdstat_cl.lease:calls=\\d*|connected_clients')) >= 0, 'it is back')
        await until(async () => (await own.do('EXISTS', 'k')) === 0, 'the slot is free')
      } finally {
        await mine.close()
        await own.stop()
      }
    })

    test('what a take that failed left behind ends no lease that the same holder takes later', async () => {
      const own = await Server.start()
      const mine = await open(own.port)
      try {
        const hasty = new Limiter(mine.client, { timeout: '100ms' })
        own.pause()
        await assert.rejects(hasty.lease('k', { slots: 1, ttl: '1h', id: 'worker-1' }), OutageError)
        own.resume()
        await until(async () => {
          try {
            return (await own.do('PING')) === 'PONG'
          } catch {
            return false
          }
        }, 'it is back')
        const lease = await new Promise<Lease>((resolve) => {
          const take = () => void hasty.lease('k', { slots: 1, ttl: '1h', id: 'worker-1' }).then(resolve, take)
          take()
        })
        for (const ends = performance.now() + 700; performance.now() < ends; await sleep(20)) assert.equal(await own.do('EXISTS', 'k'), 1, 'it is held')
        assert.equal(lease.lost, false)
        await lease.release()
        assert.equal(await own.do('EXISTS', 'k'), 0)
      } finally {
        await mine.close()
        await own.stop()
      }
    })

    describe('what ends a lease goes on when it meets an outage', () => {
      const away = () => server.do('CONFIG', 'SET', 'min-replicas-to-write', 1)
      const back = () => server.do('CONFIG', 'SET', 'min-replicas-to-write', 0)
      afterEach(back)

      test('a release, whose caller is not told', async () => {
        const lease = await limiter.lease('k', { slots: 1, ttl: '1h' })
        await away()
        await lease.release()
        assert.equal(await server.do('EXISTS', 'k'), 1)
        await back()
        await until(async () => (await server.do('EXISTS', 'k')) === 0, 'the slot is free')
      })

      test('a settlement and a release by id, whose callers are', async () => {
        const tokens = rate(100, '1h', { take: 10 })
        await limiter.decide({ verb: 'limit', keys: [{ name: 'k', limits: [tokens] }, { name: 'running', leased: true, slots: 1, ttl: '1h' }], several: true, id: 'a' })
        await limiter.decide({ verb: 'lease', keys: [{ name: 'other', leased: true, slots: 1, ttl: '1h' }], id: 'b' })
        await away()
        await assert.rejects(limiter.settle({ k: tokens.with({ used: 4 }), running: slots() }, { id: 'a' }), OutageError)
        await assert.rejects(limiter.release('other', { id: 'b' }), OutageError)
        await back()
        await until(async () => (await server.do('EXISTS', 'running', 'other')) === 0, 'the slots are free')
        assert.equal((await limiter.peek('k', tokens, { cost: 0 })).remaining, 96, 'it was settled once')
      })

      test('until the lease would have lapsed', async () => {
        const lease = await limiter.lease('k', { slots: 1, ttl: '1s' })
        await away()
        const asked = async () => Number(/cmdstat_cl.release:.*rejected_calls=(\d+)/.exec(String(await server.do('INFO', 'commandstats')))?.[1] ?? 0)
        const before = await asked()
        await lease.release()
        await until(async () => (await asked()) - before > 1, 'it is repeated')
        await until(async () => {
          const sofar = await asked()
          await sleep(2000)
          return (await asked()) === sofar
        }, 'it ends')
      })

      test('and ends no lease that the same holder takes meanwhile', async () => {
        const lease = await limiter.lease('k', { slots: 1, ttl: '1h', id: 'worker-1' })
        await away()
        await lease.release()
        await back()
        await using again = await limiter.lease('k', { slots: 1, ttl: '1h', id: 'worker-1' })
        for (const ends = performance.now() + 700; performance.now() < ends; await sleep(20)) assert.equal(await server.do('EXISTS', 'k'), 1, 'it is held')
        again.check()
      })

      test('and keeps no process alive', async () => {
        const worker = spawn(process.execPath, ['--input-type=module', '-e', `
          import { Redis } from 'ioredis'
          import { Limiter } from '@redis-throttle/client'
          const client = new Redis(process.argv[1])
          const lease = await new Limiter(client).lease('k', { slots: 1, ttl: '1h' })
          await client.config('SET', 'min-replicas-to-write', 1)
          await lease.release()
          client.disconnect()`, server.url], { cwd: packageFolder, stdio: 'inherit' })
        assert.deepEqual(await once(worker, 'exit'), [0, null])
      })
    })

    test('bad options are refused, and nothing is sent', async () => {
      await assert.rejects(limiter.lease('k', { slots: -1, ttl: '1m' }), /slots must be an integer from 0/)
      await assert.rejects(limiter.lease('k', { slots: 0, ttl: '1m' }), (error) => error instanceof LimitedError && error.result.retryAfterMs === null)
      await assert.rejects(limiter.lease('k', { slots: 1, ttl: 60 as never }), /ttl: 60 needs a unit/)
      await assert.rejects(limiter.lease('k', { slots: 1, ttl: '1m', timeout: '0' }), /timeout must not be 0/)
      await assert.rejects(limiter.lease('k', { slots: 1, ttl: '1m', timeuot: '1s' } as never), /lease: there is no option timeuot; it takes slots, ttl/)
      assert.equal(await server.do('EXISTS', 'k'), 0)
    })
  })
}

test('a release that is a mistake is told', async () => {
  await using server = await MadeUp.start([])
  const { client, close } = await (single['ioredis 6'] as (port: number) => Promise<Opened>)(server.port)
  try {
    await assert.rejects(new Limiter(client).release('k', { id: 'x' }), MistakeError)
  } finally {
    await close()
  }
})
