// What the tests of the hosts' recipes share: a recipe runs over each store of the host, then over ours, and the same
// has to get through.
import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { Redis } from 'ioredis'
import { Server } from './servers.mjs'

export interface Recipe<Store> {
  /** Sets the recipe up over a store, sends its requests, and returns what became of them. */
  run: (store: Store) => Promise<unknown>
  /** What becomes of them over the host's own stores. */
  gets: unknown
  /** What becomes of them over ours, where that differs on purpose. */
  ours?: unknown
  because?: string
  /** The host's own stores that the recipe does not work with. */
  without?: string[]
}

/** Runs recipes over each of the host's own stores, and over ours. */
export function compare<Store>(recipes: Record<string, Recipe<Store>>, theirs: Record<string, () => Store>, ours: () => Store): void {
  for (const [name, { run, gets, because, without = [], ...different }] of Object.entries(recipes)) {
    test(because ? `${name}; different, because ${because}` : name, async () => {
      const all: [string, Promise<unknown>, unknown][] = [['ours', run(ours()), 'ours' in different ? different.ours : gets]]
      for (const [which, make] of Object.entries(theirs)) if (!without.includes(which)) all.push([which, run(make()), gets])
      await Promise.allSettled(all.map(([, ran]) => ran))
      for (const [which, ran, expected] of all) assert.deepEqual(await ran, expected, which)
      assert.equal('ours' in different, because !== undefined, 'a difference has a reason')
    })
  }
}

/**
 * Starts a server before the recipes of a file and stops it after them. Returns what holds a client of it meanwhile;
 * `ready` is told of it.
 */
export function onAServer(ready: (client: Redis) => unknown = () => {}): { client: Redis } {
  const there = {} as { client: Redis }
  let server: Server
  before(async () => {
    server = await Server.start()
    there.client = new Redis(server.port)
    await ready(there.client)
  })
  after(async () => {
    there.client.disconnect()
    await server.stop()
  })
  return there
}

let made = 0

/** Returns what nobody else's keys begin with. */
export function ownPrefix(): string {
  return `recipe ${++made}:`
}
