// Whether the server of a caller in line is alive.
//
// The client's address may lead to a new master by now, whose replies say nothing about the old one. So the question goes to where the
// caller's connection leads, over one that does not log in: that it has to is a sign of life, too.
import { connect, type Socket } from 'node:net'
import { connect as connectTls, type TLSSocket } from 'node:tls'
import { OutageError } from '../errors.js'
import { within } from './within.js'

const asked = new Map<string, Promise<void>>()

/**
 * Returns when the server at the other end of a socket has said anything, and throws an OutageError if it does not. One question serves all
 * that ask at a time. Of a socket that is closed or has no address, such as a path, nothing is returned.
 */
export function pulse(socket: Socket | undefined, ms: number): Promise<void> | undefined {
  const { remoteAddress: host, remotePort: port } = socket ?? {}
  if (host === undefined || port === undefined) return undefined
  const place = `${host} ${port}`
  let answer = asked.get(place)
  if (!answer) {
    answer = within(ms, undefined, (left) => ask(host, port, (socket as Partial<TLSSocket>).encrypted === true, left))
    asked.set(place, answer)
    const over = () => asked.delete(place)
    answer.then(over, over)
  }
  return answer
}

function ask(host: string, port: number, encrypted: boolean, left: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    // Nothing is told to whoever answers, so no certificate is needed.
    const socket = encrypted ? connectTls({ host, port, rejectUnauthorized: false }) : connect({ host, port })
    const end = (error?: Error) => {
      left.removeEventListener('abort', aborted) // the signal serves others after this
      socket.destroy()
      if (error) reject(error)
      else resolve()
    }
    const aborted = () => { end() }
    socket.on('error', end)
    socket.on('data', () => { end() })
    socket.on('close', () => { end(new OutageError('the server closes connections')) })
    left.addEventListener('abort', aborted, { once: true })
    socket.write('PING\r\n')
  })
}
