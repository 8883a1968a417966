// The store for express-rate-limit of this package beside rate-limit-redis, on one server, in turns. Prints a table for the README.
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { RedisStore } from 'rate-limit-redis'
import { createClient } from 'redis'
import { Limiter } from './dist/index.mjs'
import { ThrottleStore } from './dist/express-rate-limit.mjs'

const rounds = 8
const short = { limit: 50, windowMs: 1000 }
const plenty = { limit: 1_000_000, windowMs: 86_400_000 }

const client = await createClient({ url: process.argv[2] }).connect()
const limiter = new Limiter(client)
// Each makes a store that was told a limit. A limit that is a function is not told.
const stores = {
  'rate-limit-redis': async (options) => await initialized(new RedisStore({ sendCommand: (...words) => client.sendCommand(words) }), options),
  'redis-throttle/express-rate-limit': async (options) => await initialized(new ThrottleStore({ limiter }), options),
  'the same, not told the limit': async (options) => await initialized(new ThrottleStore({ limiter }), { ...options, limit: () => options.limit }),
}

async function initialized(store, options) {
  await store.init(options)
  return store
}

const info = async (section, field) => new RegExp(`^${field}:(.*?)\r?$`, 'm').exec(await client.info(section))[1]

/** Returns calls a second, with so many callers at a time that wait for their replies. */
async function speed(store, callers) {
  let n = 0
  const began = performance.now()
  const caller = async () => {
    while (performance.now() - began < 1000) await store.increment(String(n++ % 100))
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return (n / (performance.now() - began)) * 1000
}

/** Returns reads from sockets for each hit. */
async function roundTrips(store) {
  await store.increment('trips')
  const before = Number(await info('stats', 'total_reads_processed'))
  for (let i = 0; i < 100; i++) await store.increment('trips')
  return (Number(await info('stats', 'total_reads_processed')) - before - 1) / 100
}

/**
 * Returns how many of 2 x 50 hits get through within a second, which a boundary of windows divides. The first hit begins a window. The
 * others come right before and after its end. The first of a second counts from before it is sent, the others from their replies, so all did get through within it.
 */
async function aroundABoundary(store) {
  const passed = []
  const hit = async () => {
    const sent = performance.now()
    const { totalHits } = await store.increment('edge')
    if (totalHits <= short.limit) passed.push({ sent, answered: performance.now() })
  }
  const began = performance.now()
  await hit()
  for (const [start, n] of [[900, 49], [1010, 50]]) {
    while (performance.now() - began < start) await sleep(1)
    for (let i = 0; i < n; i++) await hit()
  }
  return Math.max(...passed.map(({ sent }) => passed.filter((other) => other.sent >= sent && other.answered < sent + short.windowMs).length))
}

const median = (numbers) => Math.round(numbers.toSorted((a, b) => a - b)[numbers.length >> 1]).toLocaleString('en')

await client.flushAll()
const speeds = new Map()
for (let round = 0; round < rounds; round++) {
  for (const [name, open] of Object.entries(stores)) {
    const store = await open(plenty)
    for (const callers of [1, 50]) {
      const all = speeds.get(name + callers) ?? []
      speeds.set(name + callers, [...all, await speed(store, callers)])
    }
    await client.flushAll()
  }
}
console.log('| store | calls a second, one at a time | 50 at a time | round trips | let through of 100 around a boundary, at a limit of 50 |\n|---|--:|--:|--:|--:|')
for (const [name, open] of Object.entries(stores)) {
  await client.flushAll()
  const edge = await aroundABoundary(await open(short))
  console.log(`| ${name.includes(',') ? name : `\`${name}\``} | ${median(speeds.get(`${name}1`))} | ${median(speeds.get(`${name}50`))} | ${await roundTrips(await open(plenty))} | ${edge} |`)
}
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), 'utf8')).version
console.error(`\nrate-limit-redis ${version('rate-limit-redis')}, node-redis ${version('redis')}, Node.js ${process.version}, server ${await info('server', 'redis_version')}, one connection, medians of ${rounds} rounds`)
client.destroy()
