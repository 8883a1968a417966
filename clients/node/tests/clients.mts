// The clients that the package is for, each in the versions that it supports.
import * as ioredis5 from 'ioredis-5'
import * as ioredis6 from 'ioredis'
import * as redis5 from 'redis-5'
import * as redis6 from 'redis'
import type { Client } from '@redis-throttle/client'

export interface Opened {
  client: Client
  close: () => unknown
}

export const single: Record<string, (port: number) => Promise<Opened>> = {
  'node-redis 6': async (port) => {
    const client = redis6.createClient({ url: `redis://127.0.0.1:${port}` })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  'node-redis 5': async (port) => {
    const client = redis5.createClient({ url: `redis://127.0.0.1:${port}` })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  'node-redis 6, a pool': async (port) => {
    const client = redis6.createClientPool({ url: `redis://127.0.0.1:${port}` })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  'ioredis 6': async (port) => {
    const client = new ioredis6.Redis(port, { lazyConnect: true })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.disconnect() } }
  },
  'ioredis 5': async (port) => {
    const client = new ioredis5.Redis(port, { lazyConnect: true })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.disconnect() } }
  },
}

// If ioredis is closed while it asks for the slots, it never stops asking, and the process does not end.
function closeCluster(client: ioredis5.Cluster | ioredis6.Cluster): void {
  client.refreshSlotsCache = () => {}
  client.disconnect()
}

export const cluster: Record<string, (port: number) => Promise<Opened>> = {
  'node-redis 6': async (port) => {
    const client = redis6.createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  'node-redis 5': async (port) => {
    const client = redis5.createCluster({ rootNodes: [{ url: `redis://127.0.0.1:${port}` }] })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.destroy() } }
  },
  'ioredis 6': async (port) => {
    const client = new ioredis6.Cluster([{ host: '127.0.0.1', port }], { lazyConnect: true })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { closeCluster(client) } }
  },
  'ioredis 5': async (port) => {
    const client = new ioredis5.Cluster([{ host: '127.0.0.1', port }], { lazyConnect: true })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { closeCluster(client) } }
  },
}

export const sentinel: Record<string, (port: number) => Promise<Opened>> = {
  'node-redis 6': async (port) => {
    const client = redis6.createSentinel({ name: 'mymaster', sentinelRootNodes: [{ host: '127.0.0.1', port }] })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => client.destroy() }
  },
  'node-redis 5': async (port) => {
    const client = redis5.createSentinel({ name: 'mymaster', sentinelRootNodes: [{ host: '127.0.0.1', port }] })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => client.destroy() }
  },
  'ioredis 6': async (port) => {
    const client = new ioredis6.Redis({ name: 'mymaster', sentinels: [{ host: '127.0.0.1', port }], lazyConnect: true })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.disconnect() } }
  },
  'ioredis 5': async (port) => {
    const client = new ioredis5.Redis({ name: 'mymaster', sentinels: [{ host: '127.0.0.1', port }], lazyConnect: true })
    client.on('error', () => {})
    await client.connect()
    return { client, close: () => { client.disconnect() } }
  },
}
