// A limiter for a URL, on a client of node-redis of its own.
import { createClient, createCluster, createSentinel, type RedisClientOptions } from 'redis'
import { asked, connecting } from '../clients/noderedis.js'
import { checkedOptions, connected, type Made, persistently, type UrlLimiter, type UrlOptions } from './owned.js'
import { type Place, placeOf, spelled } from './place.js'

export type { UrlLimiter, UrlOptions } from './owned.js'

/** The client of a limiter for a URL: that of one server, of a cluster or of a Sentinel. */
export type UrlClient = ReturnType<typeof createClient> | ReturnType<typeof createCluster> | ReturnType<typeof createSentinel>

/**
 * Returns a limiter with a client of node-redis of its own, which fails fast: nothing waits in its queue while the
 * server is away. `close()` ends both, and so does the end of an `await using` block.
 *
 *     await using limiter = await fromUrl('redis://127.0.0.1:6379')
 *     const result = await limiter.limit('user:42', rate(5, '1s'))
 *
 * | url | |
 * |---|---|
 * | `redis://user:password@host:port/db`, `rediss://` | one server, without and with TLS; also `valkey`, `valkeys` |
 * | `redis+unix:///path` | one server at a Unix socket; also with `?db=1` |
 * | `redis+cluster://host:port,host:port`, `rediss+cluster://` | a cluster |
 * | `redis+sentinel://host:port,host:port/master` | the master with this name; also `/master/db` |
 *
 * It waits until the client is connected, for `timeout` (200 ms) at most. A server that is away is an outage of the
 * calls, as at any other time; the client goes on trying. A wrong password or certificate is a `MistakeError`, and a
 * wrong URL or option a `TypeError`. No error and no line of the log holds the URL.
 *
 * `options` are those of a `Limiter`, and `options`, those of the client, such as `{ socket: { ca } }`.
 */
export async function fromUrl(url: string, options: UrlOptions<RedisClientOptions> = {}): Promise<UrlLimiter<UrlClient>> {
  const place = placeOf(url)
  const { mine, options: own = {}, sentinel = {} } = checkedOptions(options)
  return await connected(make(place, own, sentinel), spelled(place), mine)
}

type Own = RedisClientOptions

function make(place: Place, own: Own, sentinel: Own): Made<UrlClient> {
  const { form, hosts, path, tls, username, password, database, master } = place
  const [at] = hosts
  const login = { ...(username !== undefined && { username }), ...(password !== undefined && { password }), ...(database !== undefined && { database }) }
  const secured = tls ? { tls: true as const } : {}
  const { keyPrefix, ...rest } = own as Own & { keyPrefix?: string } // which version 5 does not have
  const common = { disableOfflineQueue: true, ...rest, ...login }
  const socket = { connectTimeout: 1000, ...own.socket, ...secured }
  const prefixed = keyPrefix === undefined ? {} : { keyPrefix }
  if (form === 'cluster') {
    const rootNodes = hosts.map((host) => ({ socket: { ...host, ...secured } }))
    const client = createCluster({ rootNodes, defaults: { ...common, socket }, ...prefixed })
    asked.set(client, spelled(place))
    return over(client, true)
  }
  if (form === 'sentinel') {
    const fast = { disableOfflineQueue: true, ...sentinel, socket: { connectTimeout: 1000, ...sentinel.socket } }
    const client = createSentinel({
      name: master ?? '',
      sentinelRootNodes: hosts.map((host) => ({ ...host })),
      nodeClientOptions: { ...common, socket },
      sentinelClientOptions: fast,
      ...prefixed,
    })
    asked.set(client, spelled(place))
    return over(client, true)
  }
  return over(createClient({ ...common, ...prefixed, socket: { ...socket, ...(path === undefined ? at : { path }) } }), false)
}

/** `givesUp` tells whether the library tries to connect once only. */
function over(client: object, givesUp: boolean): Made<UrlClient> {
  const its = client as {
    isOpen: boolean
    isReady: boolean
    on(event: string, listener: (error?: unknown) => void): unknown
    emit(event: string, error?: unknown): unknown
    connect(): Promise<unknown>
    close(): Promise<unknown>
    destroy(): unknown
  }
  let closed = false
  let ready = false
  its.on('ready', () => {
    ready = true
    connecting.delete(client)
  })
  return {
    client: client as UrlClient,
    on: (event, listener) => its.on(event, listener),
    connect: async () => {
      if (!givesUp) {
        await its.connect()
        return
      }
      connecting.add(client)
      await persistently(() => its.connect(), () => closed, (error) => its.emit('error', error))
      connecting.delete(client)
      if (!ready) its.emit('ready')
    },
    isReady: () => its.isReady,
    end: () => its.close(),
    destroy: async () => {
      closed = true
      try {
        await its.destroy()
      } catch {
        // It is closed.
      }
    },
  }
}
