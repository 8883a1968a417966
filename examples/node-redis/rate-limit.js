// Rate limiting with redis-throttle and node-redis: middleware for node:http, Express and
// Connect, and a retry.
import { setTimeout as sleep } from 'node:timers/promises'
import * as redis from 'redis'

// The integers of a reply, in their order. A newer server may add others after them.
const fields = [
  'limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms',
]

// What createClient, createClientPool and createCluster need to know of CL.LIMIT: which of
// its words is the key, and so which node of a cluster to send it to.
export const modules = {
  throttle: {
    limit: {
      parseCommand(parser, key, ...words) {
        parser.push('CL.LIMIT')
        parser.pushKey(key)
        parser.push(...words, 'COMPACT')
      },
      transformReply(reply) {
        if (!fields.every((_, i) => Number.isInteger(reply?.[i]))) throw new TypeError(`CL.LIMIT replied ${reply}`)
        return Object.fromEntries(fields.map((name, i) => [name, reply[i]]))
      },
    },
  },
}

// Sends CL.LIMIT with its limits and options in words, resolves to the reply's fields.
export async function limit(client, key, ...words) {
  const expired = new redis.TimeoutError('no reply within a second')
  return Promise.race([client.throttle.limit(key, ...words), sleep(1000, null, { ref: false }).then(() => Promise.reject(expired))])
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
      reply = await limit(client, `http:${req.socket.remoteAddress}`, 'RATE', `${count}/${window}`)
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

// Calls until the reply is not limited, and resolves to it. Pauses for as long as the
// reply says, plus a random time of up to base, twice base and so on, to cap (ms):
// exponential backoff with full jitter.
export async function retry(call, { attempts = 10, base = 100, cap = 10_000 } = {}) {
  for (let attempt = 0; ; attempt++) {
    const reply = await call()
    if (!reply.limited) return reply
    // -1: it never succeeds
    if (reply.retry_after_ms < 0 || attempt + 1 === attempts) throw new Error('limited')
    await sleep(reply.retry_after_ms + Math.random() * Math.min(cap, base * 2 ** attempt))
  }
}
