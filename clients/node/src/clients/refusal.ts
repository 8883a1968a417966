// Why a server does not let a client in: a wrong password, a certificate. The library goes on trying, and its calls
// fail as in an outage, in which a service may let everything through. But it does not go away by itself. Also why it
// is out of reach, for people: the calls themselves say no more than that the client is offline.
import { errorMonitor } from 'node:events'
import { isError, isOutage, isOverload, isReply } from '../errors.js'

interface Emitter {
  on(event: string | symbol, listener: (...args: never[]) => void): unknown
}

/** What a client tells of servers that refuse it. A client of one server has no names for nodes. */
export interface Refusals {
  /** Returns the error with which a node refuses the client. */
  of(node?: string): Error | undefined
  /** Returns the last error of a node that the client does not reach. */
  reason(node?: string): Error | undefined
  /** Is told when the client is connected again. */
  readonly onReady: (listener: () => void) => void
  /** Notes why a connection failed that the client opens for itself, of which it only tells that it is closed. */
  note(error: unknown): void
  /** Notes that a node has answered. */
  over(node?: string): void
}

/** By which events the clients of a kind tell it. The Sentinel client of node-redis has none for it. */
interface Way {
  readonly event: string | symbol
  /** Returns the error, and the node. */
  readonly read: (...args: never[]) => readonly [error: unknown, node?: string]
  readonly ready: string
}

export const ways = {
  // Listening to this handles no error of the client.
  plain: { event: errorMonitor, read: (error: unknown) => [reasonOf(error)], ready: 'ready' },
  nodeRedisCluster: { event: 'node-error', read: (error: unknown, { host, port }: { host: string; port: number }) => [error, `${host}:${port}`], ready: 'node-ready' },
} as const satisfies Record<string, Way>

/**
 * Returns why an error came: a cluster client of ioredis tells what its last node said, which may be that the client is
 * not let in.
 */
export function reasonOf(error: unknown): unknown {
  return isError(error) && 'lastNodeError' in error && error.lastNodeError ? error.lastNodeError : error
}

// What a library says at the end, when it does not tell why.
const vague = /^(All sentinels are unreachable|All the root nodes are unavailable|Connection is closed|Failed to refresh slots cache|None of startup nodes is available|timeout$)/

const known = new WeakMap<Emitter, Refusals>()

/** Returns what a client tells of servers that refuse it. */
export function refusalsOf(client: Emitter, { event, read, ready }: Way = ways.plain): Refusals {
  let refusals = known.get(client)
  if (!refusals) {
    const errors = new Map<string, Error>()
    const listeners: (() => void)[] = []
    const note = (error: unknown, node = '') => {
      if (isError(error) && !(vague.test(error.message) && errors.has(node))) errors.set(node, error)
    }
    const refuses = (error: Error | undefined) => error !== undefined && !isOutage(error) && !isOverload(error)
    refusals = {
      of: (node = '') => (refuses(errors.get(node)) ? errors.get(node) : undefined),
      reason: (node = '') => errors.get(node),
      onReady: (listener) => void listeners.push(listener),
      note,
      over: (node = '') => {
        errors.delete(node)
        errors.delete('')
      },
    }
    client.on(event, (...args) => {
      const [error, node = ''] = read(...args)
      note(error, node)
    })
    if (event !== ways.plain.event) client.on(ways.plain.event, (error: unknown) => { note(error) }) // while no node is known
    client.on(ready, (at?: { host: string; port: number }) => {
      if (at) refusals?.over(`${at.host}:${at.port}`)
      else errors.clear()
      for (const listener of listeners) listener()
    })
    known.set(client, refusals) // of many limiters over a client, one listens
  }
  return refusals
}

/**
 * Tells whether an error is the reply of a server that is no master any more, or none yet: the next connection may lead
 * to another one.
 */
export function isElsewhere(error: unknown): boolean {
  return isReply(error) && /^(ERR )?(READONLY|MASTERDOWN|LOADING)\b/.test((error as Error).message)
}
