// Pools and cluster clients that a server does not let in any more: each kind tells it in its own way.
import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import * as ioredis5 from 'ioredis-5'
import * as ioredis6 from 'ioredis'
import * as redis5 from 'redis-5'
import * as redis6 from 'redis'
import { type Client, fixed, Limiter, MistakeError } from '@redis-throttle/client'
import { fromUrl } from '@redis-throttle/client/ioredis'
import { Cluster, Server, until } from './servers.mjs'

const perHour = fixed(1000, '1h')
const login = { username: 'ann', password: 'old' }

interface Opened {
  client: Client
  close: () => void
}

/** The servers of a deployment, and a client for the user ann. */
interface Deployment extends AsyncDisposable {
  nodes: Server[]
  open: () => Promise<Opened>
}

// Where a login is refused, node-redis sends calls all the same: as the default user, who may not do this.
async function addAnn(nodes: Server[]): Promise<void> {
  for (const node of nodes) {
    await node.do('ACL', 'SETUSER', 'default', '-cl.limit')
    await node.do('ACL', 'SETUSER', 'ann', 'on', '>old', '~*', '+@all')
  }
}

async function connected<C extends Client & { on(event: 'error', listener: () => void): unknown; connect(): Promise<unknown> }>(client: C,
  close: (client: C) => void): Promise<Opened> {
  client.on('error', () => {})
  await client.connect()
  return { client, close: () => { close(client) } }
}

async function onServer(open: (port: number) => Promise<Opened>): Promise<Deployment> {
  const server = await Server.start()
  return { nodes: [server], open: () => open(server.port), [Symbol.asyncDispose]: () => server.stop() }
}

async function onCluster(open: (port: number) => Promise<Opened>): Promise<Deployment> {
  const cluster = await Cluster.start()
  return { nodes: cluster.nodes, open: () => open(cluster.first.port), [Symbol.asyncDispose]: () => cluster[Symbol.asyncDispose]() }
}

const destroy = (client: { destroy(): void }) => { client.destroy() }

// If ioredis is closed while it asks for the slots, it never stops asking.
function disconnect(client: ioredis5.Cluster | ioredis6.Cluster): void {
  client.refreshSlotsCache = () => {}
  client.disconnect()
}

const failingFast = { enableOfflineQueue: false, lazyConnect: true, slotsRefreshInterval: 1000, redisOptions: login }

const deployments: Record<string, () => Promise<Deployment>> = {
  'a pool of node-redis 6': () => onServer((port) => connected(redis6.createClientPool({ url: `redis://127.0.0.1:${port}`, ...login }), destroy)),
  'a pool of node-redis 5': () => onServer((port) => connected(redis5.createClientPool({ url: `redis://127.0.0.1:${port}`, ...login }), destroy)),
  'a cluster client of node-redis 6': () => onCluster((port) => connected(redis6.createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }], defaults: login }), destroy)),
  'a cluster client of node-redis 5': () => onCluster((port) => connected(redis5.createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }], defaults: login }), destroy)),
  'a cluster client of ioredis 6': () => onCluster((port) => connected(new ioredis6.Cluster([{ host: '127.0.0.1', port }], failingFast), disconnect)),
  'a cluster client of ioredis 5': () => onCluster((port) => connected(new ioredis5.Cluster([{ host: '127.0.0.1', port }], failingFast), disconnect)),
}

describe('a password that changed is a mistake, until it is right again', () => {
  for (const [name, deploy] of Object.entries(deployments)) {
    test(name, async () => {
      await using deployment = await deploy()
      await addAnn(deployment.nodes)
      const { client, close } = await deployment.open()
      try {
        const limiter = new Limiter(client, { breaker: false })
        const ends = async () => await limiter.limit('k', perHour).then(() => undefined, (error: unknown) => error)
        await until(async () => (await ends()) === undefined, 'it is let in')
        for (const node of deployment.nodes) {
          await node.do('ACL', 'SETUSER', 'ann', 'resetpass', '>new')
          await node.do('CLIENT', 'KILL', 'USER', 'ann')
        }
        await until(async () => {
          const error = await ends()
          assert.doesNotMatch(inspect(error, { depth: 9 }), /old/)
          return error instanceof MistakeError && error.message.includes('WRONGPASS')
        }, 'it is refused')
        for (const node of deployment.nodes) await node.do('ACL', 'SETUSER', 'ann', '>old')
        await until(async () => (await ends()) === undefined, 'it is let in again')
      } finally {
        // A pool of node-redis that is closed while it connects rejects what nobody waits for.
        if ('clientsInUse' in client) await until(() => Promise.resolve(client.clientsInUse === 0), 'the pool is at rest')
        close()
      }
    })
  }

  test('a client for clusters on a server that is in none', async () => {
    await using server = await Server.start()
    await assert.rejects(fromUrl(`redis+cluster://127.0.0.1:${server.port}`, { timeout: '10s', logger: { info() {}, warn() {}, error() {} } }),
      (error) => error instanceof MistakeError && error.message.includes('cluster support disabled'))
  })
})
