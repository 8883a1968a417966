// Whether the server of a caller in line is alive.
//
// The client's address may lead to a new master by now, whose replies say nothing about the old one. So the question
// goes to where the caller's connection leads, over one that does not log in: that it has to is a sign of life, too.
// Behind a balancer the same place leads to the new master, which says so when it is asked which server it is, as the
// client would ask.
import { connect, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { OutageError } from '../errors.js'
import { type Left, within } from './within.js'

const asked = new Map<string, Promise<void>>()

/** Where a caller waits: the other end of its connection, and which server that is, if it says so. */
export interface Spot {
  readonly socket: Socket | undefined
  readonly run: string
}

/**
 * Returns when the server at a spot has said anything, and throws an OutageError if it does not, or if `who` tells that
 * another server answers at its address by now. One question serves all that ask within half of the time. Of a socket
 * that is closed or has no address, such as a path, nothing is returned.
 */
export function pulse({ socket, run }: Spot, ms: number, who: (left: Left) => Promise<string>): Promise<void> | undefined {
  const { remoteAddress: host, remotePort: port } = socket ?? {}
  if (host === undefined || port === undefined) return undefined
  const place = `${host} ${port} ${run}`
  let answer = asked.get(place)
  if (!answer) {
    answer = within(ms, undefined, (left) => ask(host, port, (socket as Partial<TLSSocket>).encrypted === true, left)).then(() => isThere(run, ms, who))
    asked.set(place, answer)
    const over = () => { setTimeout(() => asked.delete(place), ms / 2).unref() }
    answer.then(over, over)
  }
  return answer
}

/** Fails if another server answers. One that does not tell who it is, or does not let this user ask, is there. */
async function isThere(run: string, ms: number, who: (left: Left) => Promise<string>): Promise<void> {
  if (!run) return
  const there = await within(ms, undefined, who).catch(() => '')
  if (there && there !== run) throw new OutageError('another server answers at the address of the one where the call waits')
}

/** Returns what tells a server from all others, and from itself before a restart, in its reply to INFO server. */
export const runOf = (info: unknown): string => /^run_id:(\w+)/m.exec(String(info))?.[1] ?? ''

function ask(host: string, port: number, encrypted: boolean, left: Left): Promise<void> {
  return new Promise((resolve, reject) => {
    // Nothing is told to whoever answers, so no certificate is needed.
    const socket = encrypted ? connectTls({ host, port, rejectUnauthorized: false }) : connect({ host, port })
    const end = (error?: Error) => {
      left.removeEventListener('abort', aborted)
      socket.destroy()
      if (error) reject(error)
      else resolve()
    }
    const aborted = () => { end() }
    socket.on('error', end)
    socket.on('data', () => { end() })
    socket.on('close', () => { end(new OutageError('the server closes connections')) })
    left.addEventListener('abort', aborted)
    socket.write('PING\r\n')
  })
}
