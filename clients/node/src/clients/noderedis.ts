// Calls over node-redis: a client, a pool, a cluster or Sentinel.
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'
import { isOutage, isReply, MistakeError, OutageError } from '../errors.js'
import { isElsewhere, refusalsOf, ways } from './refusal.js'
import { slotOf } from './slot.js'
import type { Address, Line, Transport } from './transport.js'
import type { Left } from './within.js'

interface Options {
  abortSignal?: Left
  timeout?: number
  typeMapping?: object
}

interface NodeClient {
  isReady: boolean
  options?: { keyPrefix?: string; socket?: object }
  sendCommand(words: readonly string[], options?: Options): Promise<unknown>
  duplicate(options: object): NodeClient
  on(event: string | symbol, listener: (...args: never[]) => void): unknown
  connect(): Promise<unknown>
  destroy(): void
}

interface Pool extends Pick<NodeClient, 'on'> {
  execute<T>(run: (client: NodeClient) => Promise<T>): Promise<T>
}

interface Sentinel extends Pick<NodeClient, 'on'> {
  _execute<T>(readonly: boolean, run: (client: NodeClient) => Promise<T>): Promise<T>
}

interface Node {
  address?: string
  client?: NodeClient
}

interface Cluster extends Pick<NodeClient, 'on'> {
  masters: Node[]
  _slots?: { rediscover?(startWith: { options: object }): Promise<unknown> }
  sendCommand(key: string, readonly: boolean, words: readonly string[], options?: Options): Promise<unknown>
  getSlotMaster(slot: number): object
  nodeClient(node: object): NodeClient | Promise<NodeClient>
}

const has = (client: object, method: string) => typeof (client as Record<string, unknown>)[method] === 'function'

/**
 * Clients of clusters and Sentinels that are being connected for the first time, again and again: they are not closed,
 * but away.
 */
export const connecting = new WeakSet()

/** The addresses that such clients ask where the servers are, for people. */
export const asked = new WeakMap<object, string>()

/** Returns the transport over a client. It puts a prefix before every key: that of the client, if it is left out. */
export function nodeRedis(client: object, prefix?: string): Transport {
  const transport = over(client, prefix)
  const send: Transport['send'] = async (words, key, left) => {
    if (connecting.has(client)) throw new OutageError('there is no connection yet')
    return await transport.send(words, key, left)
  }
  return { ...transport, ...((has(client, 'getSlotMaster') || has(client, 'getMasterNode')) && { send, address: () => asked.get(client) }) }
}

function over(client: object, given?: string): Transport {
  // Version 4 and older keep a call whose caller has left, and send it when the server is back.
  if (!has(client, 'withTypeMapping') || !has(client, 'destroy')) throw new MistakeError('client must be one of node-redis 5 or newer, or of ioredis 5 or newer: an older one sends calls whose callers have left')
  const prefix = given ?? prefixOf(client)
  if (has(client, 'getSlotMaster')) return overCluster(client as Cluster, prefix)
  if (has(client, 'getMasterNode')) return overSentinel(client as Sentinel, prefix)
  if (has(client, 'execute')) return overPool(client as Pool, prefix)
  if (!has(client, 'duplicate')) throw new MistakeError('client must be one of node-redis or ioredis: a client, a pool, a cluster or Sentinel')
  const single = client as NodeClient
  const address = () => {
    const { host, port } = (single.options?.socket ?? {}) as Partial<Address>
    return host === undefined ? undefined : `${host}:${port ?? 6379}`
  }
  const refusals = refusalsOf(single)
  const secured = () => Boolean((single.options?.socket as { tls?: boolean } | undefined)?.tls)
  return { prefix, address, secured, refusal: () => refusals.of(), reason: () => refusals.reason(), onReady: refusals.onReady,
    send: (words, _, left) => send(single, words, left), open: (_, at) => open(single, at) }
}

function prefixOf(client: object): string {
  const { _self, _keyPrefix, options } = client as { _self?: { _keyPrefix?: string }; _keyPrefix?: string; options?: { keyPrefix?: string } }
  return _self?._keyPrefix ?? _keyPrefix ?? options?.keyPrefix ?? ''
}

// Whatever types the client maps replies to, the integers of ours are numbers. The limiter has a timeout: another one,
// of the client, costs time.
const plain = (abortSignal: Left): Options => ({ abortSignal, timeout: 0, typeMapping: {} })

async function send(client: NodeClient, words: readonly string[], left: Left): Promise<unknown> {
  try {
    return await client.sendCommand(words, plain(left))
  } catch (error) {
    if (isElsewhere(error)) leave(client)
    throw error
  }
}

const leaving = new WeakSet<NodeClient>()

/**
 * Has the server end the connection, so that the client connects anew, to where its address leads by now. The library
 * has no call for it.
 */
function leave(client: NodeClient): void {
  if (leaving.has(client)) return
  leaving.add(client)
  const over = () => void leaving.delete(client)
  client.sendCommand(['QUIT']).then(over, over)
}

function overPool(pool: Pool, prefix: string): Transport {
  const refusals = refusalsOf(pool)
  return {
    prefix,
    refusal: () => refusals.of(),
    reason: () => refusals.reason(),
    onReady: refusals.onReady,
    send: async (words, _, left) => {
      const reply = await pool.execute((client) => send(client, words, left))
      refusals.over() // it does not tell when it is connected again
      return reply
    },
    open: () => pool.execute((client) => open(client)),
  }
}

/**
 * What node-redis's Sentinel client does not take for an error: it repeats a command if there is one and its connection
 * is gone.
 */
class Lost {
  constructor(readonly error: unknown) {}
}

function overSentinel(sentinel: Sentinel, prefix: string): Transport {
  const once = async <T>(run: (client: NodeClient) => Promise<T>): Promise<T> => {
    try {
      return await sentinel._execute(false, async (client) => {
        try {
          return await run(client)
        } catch (error) {
          // A reply, such as READONLY, says that nothing was charged.
          throw isReply(error) ? error : new Lost(error)
        }
      })
    } catch (error) {
      throw error instanceof Lost ? error.error : error
    }
  }
  const refusals = refusalsOf(sentinel)
  return {
    prefix,
    refusal: () => refusals.of(),
    reason: () => refusals.reason(),
    send: async (words, _, left) => {
      const reply = await once((client) => send(client, words, left))
      refusals.over() // version 5 does not tell when it is connected again
      return reply
    },
    open: () => once((client) => open(client)),
  }
}

function overCluster(cluster: Cluster, prefix: string): Transport {
  const lookAgain = finder(cluster)
  const refusals = refusalsOf(cluster, ways.nodeRedisCluster)
  return {
    prefix,
    node: (key) => addressOf(cluster, prefix + key),
    refusal: (key) => refusals.of(addressOf(cluster, prefix + key)),
    reason: (key) => refusals.reason(addressOf(cluster, prefix + key)) ?? refusals.reason(),
    onReady: refusals.onReady,
    send: async (words, key, left) => {
      const lost = () => {
        if (left.reason instanceof OutageError) lookAgain(prefix + key)
      }
      left.addEventListener('abort', lost)
      try {
        const reply = await cluster.sendCommand(prefix + key, false, words, plain(left))
        refusals.over(addressOf(cluster, prefix + key)) // version 5 does not tell when a node is connected again
        return reply
      } catch (error) {
        if (isOutage(error)) lookAgain(prefix + key)
        throw error
      } finally {
        left.removeEventListener('abort', lost)
      }
    },
    open: async (key, at) => {
      const node = cluster.getSlotMaster(slotOf(prefix + key))
      try {
        return await open(await cluster.nodeClient(node), at)
      } catch (error) {
        lookAgain(prefix + key)
        throw error
      }
    },
  }
}

function addressOf(cluster: Cluster, key: string): string {
  try {
    return (cluster.getSlotMaster(slotOf(key)) as Node | undefined)?.address ?? ''
  } catch {
    return '' // the cluster is not known yet
  }
}

const pause = 1000

/**
 * Returns a function that makes a cluster client ask the other nodes which of them has a key now, once a second at
 * most. By itself version 5 asks only when a node replies MOVED, which a dead master never does. Version 6 asks also
 * after it has lost a connection, but not when a master hangs. So this is called when there was no reply.
 */
function finder(cluster: Cluster): (key: string) => void {
  let last = -Infinity
  return (key) => {
    const slots = cluster._slots
    const silent = cluster.getSlotMaster(slotOf(key)) as Node | undefined
    const others = cluster.masters.flatMap(({ client }) => (client && client !== silent?.client && client.isReady ? [client] : []))
    const options = others[Math.floor(Math.random() * others.length)]?.options
    if (!options || !slots?.rediscover || performance.now() - last < pause) return
    last = performance.now()
    // The library changes the options that it is given, and waits for as long as they let it.
    const asking = { ...options, socket: { ...options.socket, connectTimeout: pause, socketTimeout: pause } }
    slots.rediscover({ options: asking }).catch(() => {}) // the next call asks again
  }
}

async function open(client: NodeClient, at?: Address): Promise<Line> {
  const line = client.duplicate({
    // A caller that waits has no time limit, and its place in the line goes with its connection.
    socket: { ...client.options?.socket, ...at, reconnectStrategy: false, socketTimeout: undefined },
    disableOfflineQueue: false,
    clientSideCache: undefined,
    maintNotifications: 'disabled',
  })
  line.on('error', () => {}) // the call fails with it
  const close = () => {
    try {
      line.destroy()
    } catch {
      // It has lost its connection before.
    }
  }
  const { socket, connected } = watched(() => line.connect())
  try {
    await connected
  } catch (error) {
    close()
    throw error
  }
  return {
    socket,
    send: (words) => line.sendCommand(words, { typeMapping: {} }),
    end: () => {
      socket?.end()
      return socket !== undefined
    },
    close,
  }
}

/**
 * Connects, and returns the socket beside it. The library keeps it to itself, but Node.js tells of each that is made,
 * except for TLS.
 */
function watched<T>(connect: () => T): { socket: Socket | undefined; connected: T } {
  let socket: Socket | undefined
  const made = (message: unknown) => {
    socket ??= (message as { socket?: Socket }).socket
  }
  subscribe('net.client.socket', made)
  try {
    const connected = connect()
    return { socket, connected }
  } finally {
    unsubscribe('net.client.socket', made)
  }
}
