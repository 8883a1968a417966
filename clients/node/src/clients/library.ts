// Which library a client is of.
import { ioRedis, isIoRedis } from './ioredis.js'
import { nodeRedis } from './noderedis.js'
import type { Client, Transport } from './transport.js'

/** Returns the transport over a client. It puts a prefix before every key: that of the client, if it is left out. */
export function transportOf(client: Client, prefix?: string): Transport {
  return isIoRedis(client) ? ioRedis(client, prefix) : nodeRedis(client, prefix)
}
