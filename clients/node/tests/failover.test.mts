// A master dies and its replica is promoted, by a Sentinel and in a cluster. Every call ends with a result or an
// OutageError, and calls go on.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { fixed, Limiter, OutageError, rate } from '@redis-throttle/client'
import { cluster, sentinel } from './clients.mjs'
import { Cluster, type Server, until, Watched } from './servers.mjs'

const patience = 120_000 // bounds a hang
const perDay = fixed(100_000, '1d')

/** Counts what callers were told. */
class Tally {
  charged = 0
  unknown = 0

  constructor(
    readonly limiter: Limiter,
    readonly key: string,
  ) {}

  /** Sends a call, and tells whether it was decided. Anything but a result or an outage fails the test. */
  async call(): Promise<boolean> {
    try {
      const { limited, granted } = await this.limiter.limit(this.key, perDay)
      assert.deepEqual([limited, granted], [false, 1])
      this.charged++
      return true
    } catch (error) {
      assert.ok(error instanceof OutageError, String(error))
      this.unknown++
      return false
    }
  }

  /** Sends calls until so many in a row were decided. */
  async goesOn(row: number): Promise<void> {
    const ends = performance.now() + patience
    for (let decided = 0; decided < row; ) {
      assert.ok(performance.now() < ends, 'no calls are decided after the promotion')
      if (await this.call()) decided++
      else decided = 0
      await sleep(5)
    }
  }

  /** What was charged has been charged, and nothing else but calls whose callers were told of an outage. */
  async agrees(): Promise<void> {
    const used = 100_000 - (await this.limiter.peek(this.key, perDay)).remaining
    assert.ok(this.charged <= used && used <= this.charged + this.unknown, `${used} units are used, ${this.charged} calls were charged, ${this.unknown} ended with an outage`)
  }
}

/**
 * Kills or stops the master of a key while callers wait and hold a lease, and sends calls until its replica has taken
 * over.
 */
async function survives(limiter: Limiter, key: string, master: Server, replica: Server, end: 'kill' | 'pause' = 'kill'): Promise<void> {
  const tally = new Tally(limiter, key)
  await tally.goesOn(10)
  // A Lease is short at first, and is lost in an outage that is longer than that.
  const { limited } = await limiter.decide({ verb: 'lease', keys: [{ name: `{${key}}:lease`, leased: true, slots: 1, ttl: '10m' }], id: 'job' })
  assert.equal(limited, false)
  const held = await limiter.lease(`{${key}}:held`, { slots: 1, ttl: '2m' })
  await limiter.limit(`{${key}}:line`, rate(1, '1d'))
  const waiting = limiter.wait(`{${key}}:line`, rate(1, '1d')).then(() => undefined, (error: unknown) => error)
  await until(async () => (await master.info('throttle_waiting')) === 1, 'a caller is in line')
  const written = Number(/master_repl_offset:(\d+)/.exec(String(await master.do('INFO', 'replication')))?.[1])
  await until(async () => Number(/slave_repl_offset:(\d+)/.exec(String(await replica.do('INFO', 'replication')))?.[1]) >= written, 'the replica has everything')

  await master[end]()
  await tally.goesOn(10)
  const ended: unknown = await waiting
  assert.ok(ended instanceof OutageError, String(ended))
  assert.ok(tally.unknown > 0, 'nobody noticed that the master was gone')
  await tally.agrees()
  assert.ok(String(await replica.do('INFO', 'replication')).includes('role:master'))
  assert.equal(held.signal.aborted, held.lost)
  if (!held.lost) assert.equal(await replica.do('EXISTS', `{${key}}:held`), 1, 'the holder knows of a lease that the new master does not have')
  await held.release()
  assert.equal(await limiter.release(`{${key}}:lease`, { id: 'job' }), true, 'the new master has the lease')
  assert.equal(await replica.do('EXISTS', `{${key}}:lease`), 0, 'the lease ended on the new master')
}

describe('failover by a Sentinel', { concurrency: 2 }, () => {
  for (const [name, open] of Object.entries(sentinel)) {
    test(`${name}: a master that is killed`, async () => {
      await using servers = await Watched.start()
      const { client, close } = await open(servers.sentinel.port)
      try {
        await survives(new Limiter(client), 'k', servers.master, servers.replica)
      } finally {
        await close()
      }
    })

    test(`${name}: nobody waits for a master that hangs once another one answers`, async () => {
      await using servers = await Watched.start()
      const { client, close } = await open(servers.sentinel.port)
      try {
        const limiter = new Limiter(client, { patience: '8s' }) // longer than the promotion takes
        await limiter.limit('k', rate(1, '1d'))
        const waiting = limiter.wait('k', rate(1, '1d')).then(() => undefined, (error: unknown) => error)
        await until(async () => (await servers.master.info('throttle_waiting')) === 1, 'a caller is in line')
        servers.master.pause()
        await new Tally(limiter, 'other').goesOn(10)
        assert.ok((await waiting) instanceof OutageError, 'what the new master replies is no sign of life of the old one')
      } finally {
        await close()
      }
    })

    test(`${name}: a master that is told to step back`, async () => {
      await using servers = await Watched.start()
      const { client, close } = await open(servers.sentinel.port)
      try {
        const tally = new Tally(new Limiter(client), 'k')
        await tally.goesOn(10)
        await until(async () => (await servers.sentinel.do('SENTINEL', 'FAILOVER', 'mymaster').catch(() => '')) === 'OK', 'the Sentinel agrees')
        const ends = performance.now() + patience
        // Until the old master has been told, it takes calls that the new one does not have.
        const role = () => servers.master.do('INFO', 'replication').catch(() => '') // a Sentinel disconnects all clients
        while (!String(await role()).includes('role:slave')) {
          assert.ok(performance.now() < ends, 'the master does not step back')
          await tally.call()
        }
        const after = new Tally(tally.limiter, 'after')
        await after.goesOn(10)
        await after.agrees()
        await until(async () => (await servers.replica.do('EXISTS', 'after').catch(() => 0)) === 1, 'calls go to the new master')
      } finally {
        await close()
      }
    })
  }
})

describe('failover in a cluster', { concurrency: 2 }, () => {
  for (const [name, open] of Object.entries(cluster)) {
    for (const [end, what] of [['kill', 'is killed'], ['pause', 'hangs']] as const) {
      test(`${name}: a master that ${what}`, async () => {
        await using nodes = await Cluster.start()
        const keys = Array.from({ length: 20 }, (_, i) => `k${i}`)
        const owners = await Promise.all(keys.map((key) => nodes.owner(key)))
        const at = owners.findIndex((owner) => owner !== nodes.first) // the client's own way into the cluster stays
        const [key, master] = [keys[at] as string, owners[at] as Server]
        const replica = await nodes.addReplica(master)
        const { client, close } = await open(nodes.first.port)
        try {
          await survives(new Limiter(client), key, master, replica, end)
        } finally {
          await close()
        }
      })
    }
  }
})
