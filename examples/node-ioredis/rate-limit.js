// Rate limiting with redis-throttle and ioredis: middleware for node:http, Express and
// Connect, a retry, several keys, slots.
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Command } from 'ioredis'

// Tells a Cluster which of the words are keys, and so which node to ask.
class Throttle extends Command {
  constructor(name, keys, words) {
    super(name, words, { replyEncoding: 'utf8' })
    this.keys = keys
  }

  getKeys() {
    return this.keys
  }
}

// The integers of replies, in their order. A newer server may add others after them.
const fields = [
  'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms',
]

// Sends CL.LIMIT with its limits and options in words, resolves to the reply's fields.
export async function limit(redis, key, ...words) {
  return sendCompact(redis, fields, 'CL.LIMIT', [key], [key, ...words])
}

// Sends CL.MLIMIT with the limits in words of each key: { '{acme}:user:42': ['RATE', '5/s'], ... }.
// All keys are charged or none. In a cluster they need a hash tag in common, such as {acme}.
// The reply's key is the one whose limit decided.
export async function limitKeys(redis, limits, ...options) {
  const keys = Object.keys(limits)
  const words = Object.values(limits).flatMap((limit) => ['NEXT', ...limit]).slice(1)
  const reply = await sendCompact(redis, [...fields, 'shadow', 'key'], 'CL.MLIMIT', keys, [keys.length, ...keys, ...words, ...options])
  return { ...reply, key: keys[reply.key - 1] }
}

async function sendCompact(redis, names, command, keys, words) {
  const reply = await redis.sendCommand(new Throttle(command, keys, [...words, 'COMPACT']))
  if (!names.every((_, i) => Number.isInteger(reply?.[i]))) throw new TypeError(`${command} replied ${reply}`)
  return Object.fromEntries(names.map((name, i) => [name, reply[i]]))
}

// ioredis has no classes for most of these.
const unreachable =
  /^(Cluster isn't ready|Command timed out|Connection is closed|None of startup nodes is available|Socket timeout|Stream isn't writeable|Too many Cluster redirections)|ETIMEDOUT/

// How replies begin of a server that will decide the same call later, or that another
// server decides in its place.
const notNow = /^(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|ERR max number of clients) /

// Codes of errors of the network, which Node.js reports.
const noConnection = /^(EAI_AGAIN|ECONN|EHOST|ENET|ENOTFOUND|EPIPE|ETIMEDOUT)/

// Whether Redis is out of reach or in a state in which it does not decide. Anything else,
// such as a bad limit, is a mistake, which must not let everybody through.
function isOutage(error) {
  if (error.name === 'ReplyError') return notNow.test(error.message)
  return (
    ['ClusterAllFailedError', 'MaxRetriesPerRequestError'].includes(error.name) ||
    noConnection.test(error.code) ||
    (error.constructor === Error && unreachable.test(error.message))
  )
}

// Middleware: count requests per window (seconds) from each address, then 429.
export function rateLimit(redis, { count, window }) {
  return async (req, res, next) => {
    let reply
    try {
      reply = await limit(redis, `http:${req.socket.remoteAddress}`, 'RATE', `${count}/${window}s`)
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

const leaseFields = ['limited', 'limit', 'remaining', 'retry_after_ms', 'lease_ms', 'wait_ms']

// The lease has lapsed: the slot may be somebody else's.
export class LeaseLost extends Error {}

// Holds one of the slots of key while work runs, or throws Limited. If the process dies, the
// slot is free after ttl (seconds). Work that may take longer calls what it is given, to
// renew, every now and then, and stops when that throws.
export async function withSlot(redis, key, { slots, ttl }, work) {
  const lease = [key, 'ID', randomUUID()]
  const reply = await sendCompact(redis, leaseFields, 'CL.LEASE', [key], [...lease, 'SLOTS', slots, 'TTL', `${ttl}s`])
  if (reply.limited) throw new Limited()
  try {
    return await work(async () => {
      const renewed = await sendCompact(redis, leaseFields, 'CL.RENEW', [key], [...lease, 'TTL', `${ttl}s`])
      if (renewed.limited) throw new LeaseLost(key)
    })
  } finally {
    await redis.sendCommand(new Throttle('CL.RELEASE', [key], lease)).catch((error) => {
      if (!isOutage(error)) throw error
      console.warn(`a slot of ${key} stays taken for ${ttl} s:`, error.message)
    })
  }
}
