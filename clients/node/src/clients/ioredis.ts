// Calls over ioredis: Redis, also with Sentinel, and Cluster.
import { errorMonitor } from 'node:events'
import type { Socket } from 'node:net'
import { setImmediate } from 'node:timers'
import { isReply, MistakeError, OutageError } from '../errors.js'
import { isElsewhere, reasonOf, refusalsOf } from './refusal.js'
import { slotOf } from './slot.js'
import type { Address, Line, Transport } from './transport.js'
import type { Left } from './within.js'

interface Command {
  promise: Promise<unknown>
  reject(error: Error): void
  getKeys(): string[]
  toWritable(stream: Gathering): string | Buffer
}

interface Gathering {
  readonly writableCorked: number
  cork(): void
  uncork(): void
}

interface Redis {
  isCluster: false
  status: string
  options: {
    keyPrefix?: string
    keepAlive?: number
    tls?: object
    redisOptions?: { tls?: object }
    enableOfflineQueue?: boolean
    maxRetriesPerRequest?: number | null
  }
  retryAttempts?: number
  sendCommand(command: Command): Promise<unknown>
  duplicate(options: object): Redis
  on(event: string | symbol, listener: (...args: never[]) => void): unknown
  connect(): Promise<unknown>
  disconnect(reconnect?: boolean): void
  stream: Socket
  connector?: { connectToSentinel?: (...args: unknown[]) => Redis }
}

interface Cluster extends Omit<Redis, 'connector' | 'duplicate' | 'isCluster' | 'stream'> {
  isCluster: true
  startupNodes?: unknown[]
  slots: (string[] | undefined)[]
  nodes(role: 'all' | 'master'): Redis[]
  refreshSlotsCache(done?: () => void): void
}

type Make = (words: readonly string[]) => Command

/** Tells whether a client is one of ioredis. */
export function isIoRedis(client: object): boolean {
  const { call, defineCommand } = client as Record<string, unknown>
  return typeof call === 'function' && typeof defineCommand === 'function'
}

/** Returns the transport over a client. It puts a prefix before every key: that of the client, if it is left out. */
export function ioRedis(client: object, given?: string): Transport {
  const redis = client as Redis | Cluster
  const make = maker(client)
  const prefix = given ?? redis.options.keyPrefix ?? ''
  const refusals = refusalsOf(redis)
  overhear(redis, (error) => { refusals.note(error) })
  return {
    prefix,
    ...(redis.isCluster && { node: (key: string) => redis.slots[slotOf(prefix + key)]?.[0] ?? '' }),
    address: () => addressOf(redis),
    secured: () => Boolean(redis.options.tls ?? redis.options.redisOptions?.tls),
    refusal: () => refusals.of(),
    reason: () => refusals.reason(),
    onReady: refusals.onReady,
    send: (words, key, left) => send(redis, make(words), prefix + key, left),
    open: (key, at) => open(redis.isCluster ? owner(redis, prefix + key) : redis, make, at),
  }
}

/** Names the server, or those that the client asks where it is. */
function addressOf(redis: Redis | Cluster): string | undefined {
  const { host, port, sentinels, path } = redis.options as Partial<Address> & { sentinels?: unknown[]; path?: string }
  if (path) return undefined
  const asked = redis.isCluster ? redis.startupNodes : sentinels
  if (!asked) return host === undefined ? undefined : `${host}:${port ?? 6379}`
  // A URL among them may hold a password.
  const named = asked.filter((at): at is Partial<Address> => typeof at === 'object' && at !== null)
  return named.map((at) => `${at.host ?? 'localhost'}:${at.port ?? (redis.isCluster ? 6379 : 26379)}`).join(' or ') || undefined
}

const overheard = new WeakSet<Redis | Cluster>()

/**
 * Hears why connections fail that the client opens to nodes of a cluster and to Sentinels. It only tells that they are
 * closed.
 */
function overhear(redis: Redis | Cluster, note: (error: unknown) => void): void {
  if (overheard.has(redis)) return
  overheard.add(redis)
  const hear = (made: Redis) => {
    made.on(errorMonitor, (error: unknown) => {
      if (redis.status !== 'ready') note(error)
    })
    return made
  }
  if (!redis.isCluster) {
    const { connector } = redis
    const connect = connector?.connectToSentinel?.bind(connector)
    if (connector && connect) connector.connectToSentinel = (...args) => hear(connect(...args))
    return
  }
  const through = (node: Redis) => {
    const duplicate = node.duplicate.bind(node)
    node.duplicate = (options) => hear(duplicate(options))
  }
  redis.nodes('all').forEach(through)
  redis.on('+node', through)
  // A name that is not found is what the attempt to connect says, and nothing else.
  const connect = redis.connect.bind(redis)
  redis.connect = async () => {
    try {
      return await connect()
    } catch (error) {
      note(reasonOf(error))
      throw error
    }
  }
}

/** Returns a function that makes commands of the client's own version of ioredis, and sends nothing. */
function maker(client: object): Make {
  const make = recorder(client)
  const probe = make(['PING']) // which is not sent
  // Since version 5 a command is told the stream that it is written to.
  if ((probe.toWritable as { length?: number } | undefined)?.length !== 1 || typeof probe.getKeys !== 'function' || typeof probe.reject !== 'function') {
    throw new MistakeError('client must be one of ioredis 5 or newer, or of node-redis 5 or newer')
  }
  return make
}

function recorder(client: object): Make {
  const made: { last?: Command } = {}
  const redis = Object.assign(Object.create(Object.getPrototypeOf(client) as object) as { call(...words: string[]): unknown }, {
    options: {},
    sendCommand(command: Command) {
      made.last = command
      return command.promise
    },
  })
  return (words) => {
    redis.call(...words)
    const command = made.last
    delete made.last
    if (!command) throw new MistakeError('this version of ioredis is not supported')
    return command
  }
}

const ping = '*1\r\n$4\r\nPING\r\n'

/**
 * Has the calls of this turn of the event loop written at once. The library's own enableAutoPipelining is for its
 * methods alone.
 */
function gather(stream: Gathering): void {
  if (stream.writableCorked > 0) return
  stream.cork()
  setImmediate(() => {
    stream.uncork()
  })
}

function send(redis: Redis | Cluster, command: Command, key: string, left: Left): Promise<unknown> {
  if (redis.status === 'end') throw new MistakeError('the client is closed')
  if (redis.status === 'ready' || redis.options.enableOfflineQueue === false) return write(redis, command, key, left)
  // The library's own queue would keep a call whose caller has left until there is a connection.
  return ready(redis, left).then(() => write(redis, command, key, left))
}

const queues = new WeakMap<Redis | Cluster, Set<(error?: Error) => void>>()

/** Waits until a client is connected, as long as its caller does, and no longer than the library would. */
function ready(redis: Redis | Cluster, left: Left): Promise<void> {
  left.throwIfAborted()
  const queue = queues.get(redis) ?? newQueue(redis)
  if (redis.status === 'wait') redis.connect().catch(() => {}) // whose events tell it
  return new Promise((resolve, reject) => {
    const leave = () => {
      queue.delete(done)
      reject(left.reason)
    }
    const done = (error?: Error) => {
      left.removeEventListener('abort', leave)
      if (error) reject(error)
      else resolve()
    }
    queue.add(done)
    left.addEventListener('abort', leave)
  })
}

function newQueue(redis: Redis | Cluster): Set<(error?: Error) => void> {
  const queue = new Set<(error?: Error) => void>()
  const empty = (error?: Error) => {
    for (const done of queue) done(error)
    queue.clear()
  }
  queues.set(redis, queue)
  redis.on('ready', () => { empty() })
  redis.on('end', () => { empty(new OutageError('the connection is closed')) })
  redis.on('close', () => {
    const most = redis.isCluster ? undefined : redis.options.maxRetriesPerRequest
    if (typeof most === 'number' && most >= 0 && (redis.retryAttempts ?? 0) % (most + 1) === 0) empty(new OutageError('there is no connection yet'))
  })
  return queue
}

function write(redis: Redis | Cluster, command: Command, key: string, left: Left): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let sent = false
    const toWritable = command.toWritable.bind(command)
    command.toWritable = (stream) => {
      if (sent) reject(new OutageError('the connection was lost before the reply came'))
      // The library expects a reply, so something harmless takes the place of a call that must not be sent.
      if (sent || left.aborted) return ping
      sent = true
      gather(stream)
      return toWritable(stream)
    }
    command.getKeys = () => [key] // the library does not know where the keys of these commands are
    const over = () => {
      if (!(left.reason instanceof OutageError)) return
      if (redis.isCluster) lookAgain(redis)
      else leaveSilent(redis)
    }
    left.addEventListener('abort', over)
    command.promise.then((reply) => {
      left.removeEventListener('abort', over)
      resolve(reply)
    }, (error: unknown) => {
      left.removeEventListener('abort', over)
      if (!redis.isCluster && redis.status === 'ready' && isElsewhere(error)) redis.disconnect(true)
      reject(error)
    })
    const rejected = command.reject.bind(command)
    void redis.sendCommand(command)
    const handled = command.reject.bind(command)
    // A cluster sends again what a node did not answer. If it did, with MOVED and the like, nothing was charged.
    command.reject = (error) => {
      if (isReply(error)) sent = false
      if (sent) rejected(error)
      else handled(error)
    }
  })
}

const pause = 1000
const looked = new WeakMap<Cluster, number>()

/**
 * Has a cluster client ask which masters have the slots. By itself it does when a master dies, but not when one hangs.
 */
function lookAgain(cluster: Cluster): void {
  if (cluster.status !== 'ready' || performance.now() - (looked.get(cluster) ?? -Infinity) < pause) return
  looked.set(cluster, performance.now())
  cluster.refreshSlotsCache()
}

const silence = 3000
const silent = new WeakMap<Redis, { bytes: number; sinceMs: number }>()

/**
 * Leaves a connection over which nothing comes while calls wait. The library keeps to it, also when a Sentinel has
 * named another master.
 */
function leaveSilent(redis: Redis): void {
  if (redis.status !== 'ready') return
  const now = performance.now()
  const bytes = redis.stream.bytesRead
  const before = silent.get(redis)
  if (before?.bytes !== bytes) silent.set(redis, { bytes, sinceMs: now })
  else if (now - before.sinceMs > silence) {
    silent.delete(redis)
    redis.disconnect(true)
  }
}

function owner(cluster: Cluster, key: string): Redis {
  const masters = cluster.nodes('master')
  const [address] = cluster.slots[slotOf(key)] ?? []
  const node = masters.find(({ options }) => `${(options as Address).host}:${(options as Address).port}` === address) ?? masters[0]
  if (!node) throw new OutageError("the cluster's nodes are not known yet")
  return node
}

async function open(redis: Redis, make: Make, at?: Address): Promise<Line> {
  const line = redis.duplicate({
    ...at,
    lazyConnect: true,
    enableReadyCheck: false,
    enableOfflineQueue: true,
    enableAutoPipelining: false,
    autoResendUnfulfilledCommands: false,
    reconnectOnError: null,
    retryStrategy: null,
    sentinelRetryStrategy: null,
    commandTimeout: undefined,
    socketTimeout: undefined,
  })
  line.on('error', () => {}) // the call fails with it
  try {
    await line.connect()
  } catch (error) {
    line.disconnect()
    throw error
  }
  return {
    socket: line.stream,
    send: (words) => line.sendCommand(make(words)),
    end: () => {
      line.stream.end()
      return true
    },
    close: () => {
      line.disconnect()
    },
  }
}
