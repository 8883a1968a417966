// A client that is away: who leaves meanwhile is not charged later, and is kept by nobody.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { fixed, isOutage, Limiter } from '@redis-throttle/client'
import { Cluster as IoCluster, Redis } from 'ioredis'
import { Cluster, Server, until } from './servers.mjs'

const daily = fixed(1000, '1d')

interface Queued {
  offlineQueue: { length: number }
}

/** Has callers come and leave while a client is away, and others that stay until it is back. */
async function away(client: Redis | IoCluster, back: () => unknown): Promise<number> {
  const hasty = new Limiter(client, { timeout: '50ms', breaker: false })
  const patient = new Limiter(client, { timeout: '60s', breaker: false })
  for (let round = 0; round < 3; round++) {
    const left = await Promise.all(Array.from({ length: 20 }, () => hasty.limit('k', daily).then(() => undefined, (error: unknown) => error)))
    assert.ok(left.every(isOutage), String(left[0]))
  }
  const left = new AbortController()
  const aborted = patient.limit('k', daily, { signal: left.signal })
  const stays = patient.limit('k', daily)
  left.abort(new Error('left'))
  await assert.rejects(aborted, /left/)
  assert.equal((client as unknown as Queued).offlineQueue.length, 0, 'the library keeps none of them')
  await back()
  return (await stays).remaining
}

test('ioredis: callers that left while the client was away are not sent', async () => {
  await using server = await Server.start()
  const client = new Redis({ port: server.port, maxRetriesPerRequest: null, retryStrategy: () => 20 })
  client.on('error', () => {})
  try {
    await client.ping()
    await server.kill()
    await until(() => client.status !== 'ready', 'the client has noticed it')
    assert.equal(await away(client, () => server.start()), 999)
    assert.doesNotMatch(String(await server.do('INFO', 'commandstats')), /cmdstat_cl\.limit:calls=([2-9]|1\d)/)
  } finally {
    client.disconnect()
  }
})

test('ioredis: a cluster that was away, too', async () => {
  await using cluster = await Cluster.start()
  const client = new IoCluster([{ port: cluster.first.port, host: '127.0.0.1' }], { lazyConnect: true, clusterRetryStrategy: () => 20 })
  client.on('error', () => {})
  try {
    for (const node of cluster.nodes) node.pause()
    assert.equal(await away(client, () => { for (const node of cluster.nodes) node.resume() }), 999)
  } finally {
    client.disconnect()
  }
})

test('ioredis: a client that gives up, or is closed, lets go of its callers', async () => {
  for (const gives of ['up', 'in']) {
    const client = new Redis({ port: 1, host: '127.0.0.1', ...(gives === 'up' ? { maxRetriesPerRequest: 1 } : {}), retryStrategy: () => 20 })
    client.on('error', () => {})
    const call = new Limiter(client, { timeout: '10m', breaker: false }).limit('k', daily).then(() => undefined, (error: unknown) => error)
    if (gives === 'in') client.disconnect()
    assert.ok(isOutage(await call))
    client.disconnect()
  }
})
