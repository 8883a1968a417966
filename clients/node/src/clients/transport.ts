// How a call reaches the server over the client of a library: once, and never after its caller has left.
//
// A call that charges units and is sent again because its reply was lost would charge twice. One that waits in a client's queue
// until the server is back would charge for somebody who has long left. So a call that is left before it was written is not
// written, and one that was written is not written again.
//
// A call that waits has a connection of its own. On a shared one, everything behind it would wait, too.
import { isReply, MistakeError, OutageError } from '../errors.js'

/** A client of node-redis or ioredis: for one server, a pool, a cluster or Sentinel. */
export interface Client {
  /** By it both libraries are known. */
  sendCommand(...args: never[]): unknown
}

/** A connection of its own. */
export interface Line {
  send(words: readonly string[]): Promise<unknown>
  /** Closes it in one direction: the server learns that the caller has left, and a reply can still come. Tells whether the library lets it. */
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
  /** Tells the error with which the server that has a key refuses the client. Calls fail meanwhile as in an outage. */
  refusal?(key: string): Error | undefined
  /** Sends a command. `left` tells that nobody waits for the reply any more. */
  send(words: readonly string[], key: string, left: AbortSignal): Promise<unknown>
  /** Opens a connection to the server that has a key, or to the one at an address in a cluster. */
  open(key: string, at?: Address): Promise<Line>
}

/** How often a caller that waits follows its key through a cluster. */
const redirects = 5

// An AbortController costs about as much as all else that a call does here. One that was not aborted serves the next call.
const spares: AbortController[] = []

/** Runs an attempt, which learns by its signal that time is up or the caller has left. It keeps no listeners after it has succeeded. */
export function within<T>(ms: number, signal: AbortSignal | undefined, attempt: (left: AbortSignal) => Promise<T>): Promise<T> {
  if (signal?.aborted) return Promise.reject(signal.reason)
  return new Promise<T>((resolve, reject) => {
    const left = spares.pop() ?? new AbortController()
    const leave = (error: unknown) => {
      end()
      left.abort(error)
      reject(error)
    }
    const aborted = () => {
      leave(signal?.reason)
    }
    // A process that was busy finds its timers first and then what has arrived meanwhile. So it looks at that before it gives up.
    let late: NodeJS.Immediate | undefined
    const timer = setTimeout(() => {
      late = setImmediate(leave, new OutageError(`no reply within ${ms} ms`))
    }, ms)
    const end = () => {
      clearTimeout(timer)
      if (late) clearImmediate(late)
      signal?.removeEventListener('abort', aborted)
    }
    signal?.addEventListener('abort', aborted)
    attempted(attempt, left.signal).then(
      (value) => {
        end()
        if (!left.signal.aborted && spares.length < 100) spares.push(left)
        resolve(value)
      },
      (error: unknown) => {
        end()
        reject(error)
      },
    )
  })
}

function attempted<T>(attempt: (left: AbortSignal) => Promise<T>, left: AbortSignal): Promise<T> {
  try {
    return attempt(left)
  } catch (error) {
    return Promise.reject(error)
  }
}

/**
 * Sends a call that is answered when its turn has come. A caller that leaves closes its connection, and so leaves the line. `late` gets
 * the reply that came too late for it.
 */
export async function wait(
  transport: Transport,
  words: readonly string[],
  key: string,
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
      if (at?.asking) await within(patience, signal, () => line.send(['ASKING']))
      signal?.throwIfAborted()
      reply = line.send(words)
      const value = await answered(transport, reply, key, patience, signal)
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

/** Ends the wait of a caller that has left. Its reply may be on its way, or may have arrived while this process was busy. */
async function leave(line: Line, reply: Promise<unknown>, patience: number, late: (reply: unknown) => void): Promise<void> {
  try {
    late(await within(line.end() ? patience : 0, undefined, () => reply))
  } catch {
    // There was none. What the server had reserved it takes back by itself.
  } finally {
    line.close()
  }
}

/** Returns a reply that may take long. Meanwhile another connection asks for a sign of life of the server; any reply is one. */
async function answered(transport: Transport, reply: Promise<unknown>, key: string, patience: number, signal: AbortSignal | undefined): Promise<unknown> {
  return await new Promise((resolve, reject) => {
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
      within(patience, undefined, (left) => transport.send(['TYPE', transport.prefix + key], key, left)).then(again, (error: unknown) => {
        if (isReply(error)) again()
        else fail(error)
      })
    }
    const again = () => {
      if (!ended) timer = setTimeout(look, patience)
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
