// A limiter for a URL, on a client of ioredis of its own.
import { Cluster, Redis, type RedisOptions } from 'ioredis'
import { checkedOptions, connected, type Made, type UrlLimiter, type UrlOptions } from './owned.js'
import { type Place, placeOf, spelled } from './place.js'

export type { UrlLimiter, UrlOptions } from './owned.js'

/** The client of a limiter for a URL. */
export type UrlClient = Redis | Cluster

/**
 * Returns a limiter with a client of ioredis of its own, which fails fast: nothing waits in its queue while the server
 * is away. `close()` ends both, and so does the end of an `await using` block.
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
 * `options` are those of a `Limiter`, and `options`, those of the client, such as `{ tls: { ca } }`.
 */
export async function fromUrl(url: string, options: UrlOptions<RedisOptions> = {}): Promise<UrlLimiter<UrlClient>> {
  const place = placeOf(url)
  const { mine, options: own = {}, sentinel = {} } = checkedOptions(options)
  return await connected(over(make(place, own, sentinel)), spelled(place), mine)
}

function make(place: Place, own: RedisOptions, sentinel: RedisOptions): UrlClient {
  const { form, hosts, path, tls, username, password, database, master } = place
  const [{ host, port }] = hosts
  const login = { ...(username !== undefined && { username }), ...(password !== undefined && { password }), ...(database !== undefined && { db: database }) }
  const fast = { connectTimeout: 1000, maxRetriesPerRequest: 1, enableOfflineQueue: false }
  const common: RedisOptions = { ...fast, ...own, ...login, lazyConnect: true, ...(tls && { tls: { ...own.tls } }) }
  if (form === 'cluster') {
    const { keyPrefix, enableOfflineQueue = false, ...redisOptions } = common
    // By itself it notices a master that dies, but not one that hangs.
    const options: object = { enableOfflineQueue, lazyConnect: true, slotsRefreshInterval: 1000, redisOptions, ...(keyPrefix !== undefined && { keyPrefix }) }
    return new Cluster(hosts.map((at) => ({ ...at })), options)
  }
  if (form === 'sentinel') {
    const asking = { ...(sentinel.username !== undefined && { sentinelUsername: sentinel.username }),
      ...(sentinel.password !== undefined && { sentinelPassword: sentinel.password }), ...(sentinel.tls && { sentinelTLS: sentinel.tls }) }
    return new Redis({ ...common, ...asking, sentinels: hosts.map((at) => ({ ...at })), name: master ?? '' } as object)
  }
  return new Redis({ ...common, ...(path === undefined ? { host, port } : { path }) } as object)
}

function over(client: UrlClient): Made<UrlClient> {
  return {
    client,
    on: (event, listener) => client.on(event, listener),
    connect: () => client.connect(),
    isReady: () => client.status === 'ready',
    end: () => client.quit(),
    destroy: () => {
      // A cluster that is closed just while it asks for its slots would never stop asking, and the process would not
      // end.
      if (client instanceof Cluster) client.refreshSlotsCache = () => {}
      client.disconnect()
    },
  }
}
