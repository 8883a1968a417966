// Leases: renewed, lost, given back; and held by a process that is killed.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { after, afterEach, before, beforeEach, describe, mock, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { LeaseLostError, LimitedError, Limiter, MistakeError, OutageError } from 'redis-throttle'
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

    test('a lease outlives its ttl and ends with the block', async () => {
      let held
      {
        await using lease = await limiter.lease('k', { slots: 1, ttl: '300ms' })
        held = lease
        for (const ends = performance.now() + 1000; performance.now() < ends; await sleep(20)) {
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
        import { Limiter } from 'redis-throttle'
        const client = await createClient({ url: process.argv[1] }).connect()
        await new Limiter(client).lease('k', { slots: 1, ttl: '500ms' })
        console.log('held')
        setTimeout(() => {}, 60_000)`, server.url], { cwd: packageFolder, stdio: ['ignore', 'pipe', 'inherit'] })
      const [line] = (await once(holder.stdout, 'data')) as [Buffer]
      assert.equal(String(line), 'held\n')
      for (const ends = performance.now() + 1500; performance.now() < ends; await sleep(20)) {
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

    test('bad options are refused, and nothing is sent', async () => {
      await assert.rejects(limiter.lease('k', { slots: 0, ttl: '1m' }), /slots must be an integer from 1/)
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
