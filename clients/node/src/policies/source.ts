// Where the hash of policies is read: from Redis, over the client of a library, or from a function.
import { transportOf } from '../clients/library.js'
import type { Client } from '../clients/transport.js'
import { within } from '../clients/within.js'
import { OutageError } from '../errors.js'
import type { Hash } from './hash.js'

export interface Source {
  /** What the client puts before every key: fields have keys as they are in Redis. */
  readonly prefix: string
  /** Reads the fields of the hash; undefined if none can be new. */
  read(hash: Hash): Promise<ReadonlyMap<string, string> | undefined>
}

const mostMs = 3000 // of a read, for which nobody waits

/** Returns where policies are read. */
export function sourceOf(from: Client | (() => Promise<object>)): Source {
  if (typeof from === 'function') return { prefix: '', read: async () => fieldsOf(await soon(from())) }
  if (typeof (from as Client | undefined)?.sendCommand !== 'function') throw new TypeError('client must be one of node-redis or ioredis, or a function that returns the fields of the hash')
  // The name of the hash is the same for all, whatever they put before their keys.
  const transport = transportOf(from, '')
  const send = (words: readonly string[], key: string) => within(mostMs, undefined, (left) => transport.send(words, key, left))
  return {
    prefix: transportOf(from).prefix,
    read: async (hash) => {
      if (hash.versioned) {
        const version = await send(['HGET', hash.name, '@version'], hash.name)
        if (hash.knows(textOf(version))) return undefined
      }
      return fieldsOf(await send(['HGETALL', hash.name], hash.name))
    },
  }
}

const textOf = (reply: unknown) => (typeof reply === 'string' || Buffer.isBuffer(reply) ? reply.toString() : undefined)

/** A reply of HGETALL is pairs one after the other, a map or an object. */
function fieldsOf(reply: unknown): Map<string, string> {
  if (typeof reply !== 'object' || reply === null) throw new TypeError(`the fields of the hash are an object, not ${reply === null ? 'null' : `a ${typeof reply}`}`)
  const fields = new Map<string, string>()
  if (Array.isArray(reply)) for (let i = 0; i + 1 < reply.length; i += 2) fields.set(String(reply[i]), String(reply[i + 1]))
  else for (const [field, value] of reply instanceof Map ? (reply as Map<unknown, unknown>) : Object.entries(reply)) fields.set(String(field), String(value))
  return fields
}

function soon<T>(read: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => { reject(new OutageError(`no answer within ${mostMs} ms`)) }, mostMs).unref()
    Promise.resolve(read).then(resolve, reject).finally(() => { clearTimeout(timer) })
  })
}
