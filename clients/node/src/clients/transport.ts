// How a call reaches the server over the client of a library: once, and never after its caller has left.
//
// A call that charges units and is sent again because its reply was lost would charge twice. One that waits in a
// client's queue until the server is back would charge for somebody who has long left. So a call that is left before it
// was written is not written, and one that was written is not written again.
//
// A call that waits has a connection of its own. On a shared one, everything behind it would wait, too.
import type { Socket } from 'node:net'
import { isOutage, isReply, MistakeError, OutageError } from '../errors.js'
import { pulse, runOf } from './pulse.js'
import { type Left, within } from './within.js'

/** A client of node-redis or ioredis: for one server, a pool, a cluster or Sentinel. */
export interface Client {
  /** By it both libraries are known. */
  sendCommand(...args: never[]): unknown
}

/** A connection of its own. */
export interface Line {
  /** What it is open over, if the library tells. */
  readonly socket?: Socket | undefined
  send(words: readonly string[]): Promise<unknown>
  /**
   * Closes it in one direction: the server learns that the caller has left, and a reply can still come. Tells whether
   * the library lets it.
   */
  end(): boolean
  close(): void
}

export interface Address {
  host: string
  port: number
}

/** What this package needs of a library. */
export interface Transport {
  /** What the client puts before every key. */
  readonly prefix: string
  /** Names the master of a cluster that has a key. */
  node?(key: string): string
  /** Names the server that has a key, as far as the client knows it, for people. */
  address?(key: string): string | undefined
  /** Tells whether the client speaks TLS. */
  secured?(): boolean
  /** Tells the error with which the server that has a key refuses the client. Calls fail meanwhile as in an outage. */
  refusal?(key: string): Error | undefined
  /** Is told when the client is connected again. */
  onReady?(listener: () => void): void
  /**
   * Tells the last error with which the client lost the server that has a key, or did not reach it, while it is away.
   */
  reason?(key: string): Error | undefined
  /** Sends a command. `left` tells that nobody waits for the reply any more. */
  send(words: readonly string[], key: string, left: Left): Promise<unknown>
  /** Opens a connection to the server that has a key, or to the one at an address in a cluster. */
  open(key: string, at?: Address): Promise<Line>
}

/** A transport that remembers when a server has answered last. */
export interface Heard extends Transport {
  /**
   * Tells whether the server that has a key went on answering while a call had no reply that began at an instant of
   * `performance.now()`. A call that was sent before an outage ended is part of it.
   */
  alive(key: string, beganMs: number): boolean
}

/** After such a pause the first reply of a server that was away ends its outage, in ms. Others answer more often. */
const pauseMs = 100

/** Has a transport remember when a server has answered last, also those who did not wait for it any more. */
export function heard(transport: Transport): Heard {
  const last = new Map<string, number>() // when each server has answered
  const back = new Map<string, number>() // when each has answered again after an outage
  let out = -Infinity // when a call ended with an outage
  const nodeOf = (key: string) => transport.node?.(key) ?? ''
  return {
    ...transport,
    send: (words, key, left) => {
      const reply = transport.send(words, key, left)
      const answered = () => {
        const node = nodeOf(key)
        const now = performance.now()
        const before = last.get(node) ?? -Infinity
        if (out > before && now - before > pauseMs) back.set(node, now)
        last.set(node, now)
      }
      reply.then(answered, (error: unknown) => {
        if (isReply(error) && !isOutage(error)) answered() // one such as CLUSTERDOWN decides nothing
      })
      return reply
    },
    alive: (key, beganMs) => {
      const node = nodeOf(key)
      const now = performance.now()
      const lately = (last.get(node) ?? -Infinity) > beganMs + (now - beganMs) / 2
      if (lately && (back.get(node) ?? -Infinity) <= beganMs) return true
      out = now
      return false
    },
  }
}

/** How often a caller that waits follows its key through a cluster. */
const redirects = 5

/**
 * Sends a call that is answered when its turn has come, or after `longest` ms. A caller that leaves closes its
 * connection, and so leaves the line. `late` gets the reply that came too late for it.
 */
export async function wait(
  transport: Transport,
  words: readonly string[],
  key: string,
  longest: number,
  patience: number,
  signal: AbortSignal | undefined,
  late: (reply: unknown) => void,
): Promise<unknown> {
  let at: (Address & { asking: boolean }) | undefined
  for (let follow = redirects; ; follow--) {
    const line = await within(patience, signal, async (left) => {
      const opened = await transport.open(key, at)
      if (left.aborted) opened.close()
      return opened
    })
    let reply: Promise<unknown> | undefined
    try {
      const node = transport.node?.(key)
      const run = await within(patience, signal, () => runAt(line))
      const there = at
      // A key that has moved to another node leads elsewhere by now, and its caller may wait where it was.
      const who = async (left: Left) => (there || transport.node?.(key) === node ? await runThere(transport, key, there, left) : '')
      if (at?.asking) await within(patience, signal, () => line.send(['ASKING']))
      signal?.throwIfAborted()
      reply = line.send(words)
      const sign = () =>
        pulse({ socket: line.socket, run }, patience, who) ?? within(patience, undefined, (left) => transport.send(['TYPE', transport.prefix + key], key, left))
      const value = await answered(reply, sign, longest, patience, signal)
      reply = undefined
      return value
    } catch (error) {
      at = isReply(error) ? movedTo((error as Error).message, at) : undefined
      if (!at || follow === 0) throw error
    } finally {
      if (reply) void leave(line, reply, patience, late)
      else line.close()
    }
  }
}

/** Asks the server of a line which one it is. Not every user may ask. */
async function runAt(line: Line): Promise<string> {
  try {
    return runOf(await line.send(['INFO', 'server']))
  } catch (error) {
    if (isReply(error)) return ''
    throw error
  }
}

/** Asks the server that the client would open a connection to now which one it is. */
async function runThere(transport: Transport, key: string, at: Address | undefined, left: Left): Promise<string> {
  const line = await transport.open(key, at)
  const close = () => {
    line.close()
  }
  try {
    left.throwIfAborted()
    left.addEventListener('abort', close)
    return await runAt(line)
  } finally {
    left.removeEventListener('abort', close)
    close()
  }
}

/**
 * Ends the wait of a caller that has left. Its reply may be on its way, or may have arrived while this process was
 * busy.
 */
async function leave(line: Line, reply: Promise<unknown>, patience: number, late: (reply: unknown) => void): Promise<void> {
  try {
    late(await within(line.end() ? patience : 0, undefined, () => reply))
  } catch {
    // There was none. What the server had reserved it takes back by itself.
  } finally {
    line.close()
  }
}

/**
 * Returns a reply that may take `longest` ms. Meanwhile another connection asks for a sign of life of the server; any
 * reply is one. A server that lives and does not answer in time has lost the connection.
 */
async function answered(
  reply: Promise<unknown>,
  sign: () => Promise<unknown>,
  longest: number,
  patience: number,
  signal: AbortSignal | undefined,
): Promise<unknown> {
  return await new Promise((resolve, reject) => {
    const began = performance.now()
    let timer: NodeJS.Timeout | undefined
    let ended = false
    const end = () => {
      ended = true
      clearTimeout(timer)
      signal?.removeEventListener('abort', aborted)
    }
    const fail = (error: unknown) => {
      end()
      reject(error)
    }
    const aborted = () => {
      fail(signal?.reason)
    }
    const look = () => {
      sign().then(again, (error: unknown) => {
        if (isReply(error)) again()
        else fail(error)
      })
    }
    const again = () => {
      if (ended) return
      if (performance.now() - began > longest + patience) fail(new OutageError(`no reply within ${patience} ms after the timeout, while the server is alive: the connection is lost`))
      else timer = setTimeout(look, patience)
    }
    reply.then((value) => {
      end()
      resolve(value)
    }, fail)
    again()
    if (signal?.aborted) aborted()
    else signal?.addEventListener('abort', aborted)
  })
}

/** Returns where the key of a call is, if a reply says so. A reply without a host means the same one. */
function movedTo(reply: string, from: Address | undefined): (Address & { asking: boolean }) | undefined {
  const [, kind, host, port] = /^(MOVED|ASK) \d+ (.*):(\d+)$/.exec(reply) ?? []
  if (kind === undefined) return undefined
  const known = host || from?.host
  if (!known) throw new MistakeError('a node of the cluster does not say on which host the key is')
  return { host: known, port: Number(port), asking: kind === 'ASK' }
}
