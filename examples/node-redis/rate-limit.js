// Rate limiting with redis-throttle and node-redis: middleware for node:http, Express and
// Connect, a retry, several keys, slots.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import * as redis from 'redis'

// The integers of replies, in their order. A newer server may add others after them.
const fields = [
  'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms',
]

const leaseFields = ['limited', 'limit', 'remaining', 'retry_after_ms', 'lease_ms', 'wait_ms']

// A command on a key, with its reply's names; without names the reply is what it is.
const command = (name, names) => ({
  parseCommand(parser, key, ...words) {
    parser.push(name)
    parser.pushKey(key)
    parser.push(...words.map(String), ...(names ? ['COMPACT'] : []))
  },
  transformReply: (reply) => (names ? withNames(name, names, reply) : reply),
})

function withNames(command, names, reply) {
  if (!names.every((_, i) => Number.isInteger(reply?.[i]))) throw new TypeError(`${command} replied ${reply}`)
  return Object.fromEntries(names.map((name, i) => [name, reply[i]]))
}

// What createClient, createClientPool and createCluster need to know of the commands: which of
// their words are keys, and so which node of a cluster to send them to.
export const modules = {
  throttle: {
    limit: command('CL.LIMIT', fields),
    limitKeys: {
      parseCommand(parser, keys, ...words) {
        parser.push('CL.MLIMIT', String(keys.length))
        parser.pushKeys(keys)
        parser.push(...words, 'COMPACT')
      },
      transformReply: (reply) => withNames('CL.MLIMIT', [...fields, 'shadow', 'key'], reply),
    },
    lease: command('CL.LEASE', leaseFields),
    renew: command('CL.RENEW', leaseFields),
    release: command('CL.RELEASE'),
  },
}

async function inTime(reply) {
  const expired = new redis.TimeoutError('no reply within a second')
  return Promise.race([reply, sleep(1000, null, { ref: false }).then(() => Promise.reject(expired))])
}

// Sends CL.LIMIT with its limits and options in words, resolves to the reply's fields.
export async function limit(client, key, ...words) {
  return inTime(client.throttle.limit(key, ...words))
}

// Sends CL.MLIMIT with the limits in words of each key: { '{acme}:user:42': ['RATE', '5/s'], ... }.
// All keys are charged or none. In a cluster they need a hash tag in common, such as {acme}.
// The reply's key is the one whose limit decided.
export async function limitKeys(client, limits, ...options) {
  const keys = Object.keys(limits)
  const words = Object.values(limits).flatMap((limit) => ['NEXT', ...limit]).slice(1)
  const reply = await inTime(client.throttle.limitKeys(keys, ...words, ...options))
  return { ...reply, key: keys[reply.key - 1] }
}

const unreachable = [
  redis.ClientOfflineError,
  redis.ConnectionTimeoutError,
  redis.ReconnectStrategyError,
  redis.RootNodesUnavailableError,
  redis.SocketClosedUnexpectedlyError,
  redis.SocketTimeoutError,
  redis.TimeoutError,
]

// How replies begin of a server that will decide the same call later, or that another
// server decides in its place.
const notNow = /^(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|ERR max number of clients) /

// Codes of errors of the network, which Node.js reports.
const noConnection = /^(EAI_AGAIN|ECONN|EHOST|ENET|ENOTFOUND|EPIPE|ETIMEDOUT)/

// Whether Redis is out of reach or in a state in which it does not decide. Anything else,
// such as a bad limit, is a mistake, which must not let everybody through.
function isOutage(error) {
  if (error instanceof redis.ErrorReply) return notNow.test(error.message)
  return unreachable.some((type) => error instanceof type) || noConnection.test(error.code)
}

// Middleware: count requests per window (seconds) from each address, then 429.
export function rateLimit(client, { count, window }) {
  if (!client.throttle) throw new TypeError('the client has to be made with { modules }, which rate-limit.js exports')
  return async (req, res, next) => {
    let reply
    try {
      reply = await limit(client, `http:${req.socket.remoteAddress}`, 'RATE', `${count}/${window}s`)
    } catch (error) {
      if (isOutage(error)) {
        console.warn('requests are not limited:', error.message)
        return next()
      }
      // Not next(error), which lets the request through where next takes no error.
      console.error('the rate limit does not work:', error)
      res.writeHead(500, { 'Content-Type': 'text/plain' })
      return res.end('Internal server error\n')
    }
    res.setHeader('RateLimit-Policy', `"default";q=${count};w=${window}`)
    res.setHeader('RateLimit', `"default";r=${reply.remaining};t=${seconds(reply.next_after_ms)}`)
    if (!reply.limited) return next()
    res.writeHead(429, { 'Retry-After': seconds(reply.retry_after_ms), 'Content-Type': 'text/plain' })
    res.end('Too many requests\n')
  }
}

const seconds = (ms) => Math.ceil(ms / 1000)

export class Limited extends Error {}

// Calls until the reply is not limited, and resolves to it. Pauses for as long as the
// reply says, plus a random time of up to base, twice base and so on, to cap (ms):
// exponential backoff with full jitter.
export async function retry(call, { attempts = 10, base = 100, cap = 10_000 } = {}) {
  for (let attempt = 0; ; attempt++) {
    const reply = await call()
    if (!reply.limited) return reply
    // -1: it never succeeds
    if (reply.retry_after_ms < 0 || attempt + 1 === attempts) throw new Limited()
    await sleep(reply.retry_after_ms + Math.random() * Math.min(cap, base * 2 ** attempt))
  }
}

// The lease has lapsed: the slot may be somebody else's.
export class LeaseLost extends Error {}

// Holds one of the slots of key while work runs, or throws Limited. If the process dies, the
// slot is free after ttl (seconds). Work that may take longer calls what it is given, to
// renew, every now and then, and stops when that throws.
export async function withSlot(client, key, { slots, ttl }, work) {
  const lease = [key, 'ID', randomUUID()]
  const reply = await inTime(client.throttle.lease(...lease, 'SLOTS', slots, 'TTL', `${ttl}s`))
  if (reply.limited) throw new Limited()
  try {
    return await work(async () => {
      const renewed = await inTime(client.throttle.renew(...lease, 'TTL', `${ttl}s`))
      if (renewed.limited) throw new LeaseLost(key)
    })
  } finally {
    await inTime(client.throttle.release(...lease)).catch((error) => {
      if (!isOutage(error)) throw error
      console.warn(`a slot of ${key} stays taken for ${ttl} s:`, error.message)
    })
  }
}
