// Why a server does not let a client in: a wrong password, a certificate. The library goes on trying, and its calls fail as in an outage,
// in which a service may let everything through. But it does not go away by itself.
import { errorMonitor } from 'node:events'
import { isError, isOutage, isOverload } from '../errors.js'

interface Emitter {
  on(event: string | symbol, listener: (error?: unknown) => void): unknown
}

const known = new WeakMap<Emitter, () => Error | undefined>()

/** Returns a function that tells the error with which the server refuses a client, until it is connected. Listening to it handles no error of the client. */
export function refusalOf(client: Emitter): () => Error | undefined {
  let tell = known.get(client)
  if (!tell) {
    let refusal: Error | undefined
    client.on(errorMonitor, (error) => {
      refusal = isError(error) && !isOutage(error) && !isOverload(error) ? error : undefined
    })
    client.on('ready', () => {
      refusal = undefined
    })
    tell = () => refusal
    known.set(client, tell) // of many limiters over a client, one listens
  }
  return tell
}
