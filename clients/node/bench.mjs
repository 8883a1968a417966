// The stores of this package beside those that the libraries have for Redis, on one server, in turns: node bench.mjs
// URL. Prints tables for the README: what gets through around a boundary; of stores that do the same, how fast they
// are; and how many commands reach the server of 1,000 requests on a key, within its limit and beyond; and how often
// this process writes for 1,000 calls at a time.
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { batched, cached, fixed, Limiter, rate } from '@redis-throttle/client'
import { RateLimiterRedis } from 'rate-limiter-flexible'
import { aroundABoundary, stores } from './build/tests/stores.mjs'

const rounds = 8
const short = { limit: 50, windowMs: 1000 }
const plenty = { limit: 1_000_000, windowMs: 86_400_000 }

const client = await createClient({ url: process.argv[2] }).connect()
const ioredis = new Redis(process.argv[2])
const open = async (name, rule) => await stores[name].open({ redis: client, ioredis }, rule)
const fast = Object.keys(stores).filter((name) => /rate-limit-redis|express|flexible/.test(name))

const info = async (section, field) => new RegExp(`^${field}:(.*?)\r?$`, 'm').exec(await client.info(section))[1]

/** Returns calls a second, with so many callers at a time that wait for their replies. */
async function speed(hit, callers) {
  let n = 0
  const began = performance.now()
  const caller = async () => {
    while (performance.now() - began < 1000) await hit(String(n++ % 100))
  }
  await Promise.all(Array.from({ length: callers }, caller))
  return (n / (performance.now() - began)) * 1000
}

/** Returns reads from sockets for each hit. */
async function roundTrips(hit) {
  await hit('trips')
  const before = Number(await info('stats', 'total_reads_processed'))
  for (let i = 0; i < 100; i++) await hit('trips')
  return (Number(await info('stats', 'total_reads_processed')) - before - 1) / 100
}

const median = (numbers) => Math.round(numbers.toSorted((a, b) => a - b)[numbers.length >> 1]).toLocaleString('en')

console.log('| store | let through of 100 around a boundary, at a limit of 50 | round trips |\n|---|--:|--:|')
for (const name of Object.keys(stores)) {
  await client.flushAll()
  const { within } = await aroundABoundary(await open(name, short), 'edge', short, short.limit)
  console.log(`| \`${name}\` | ${within} | ${await roundTrips(await open(name, plenty))} |`)
}

await client.flushAll()
const speeds = new Map()
for (let round = 0; round < rounds; round++) {
  for (const name of fast) {
    const hit = await open(name, plenty)
    for (const callers of [1, 50]) {
      const all = speeds.get(name + callers) ?? []
      speeds.set(name + callers, [...all, await speed(hit, callers)])
    }
    await client.flushAll()
  }
}
console.log('\n| store | calls a second, one at a time | 50 at a time |\n|---|--:|--:|')
for (const name of fast) console.log(`| \`${name}\` | ${median(speeds.get(`${name}1`))} | ${median(speeds.get(`${name}50`))} |`)

/** Returns commands that the server executed, of clients, of 1,000 hits on a key. */
async function commands(hit, key) {
  await hit('before') // which asks what the server is
  const before = Number(await info('stats', 'total_commands_processed'))
  for (let i = 0; i < 1000; i++) await hit(key)
  return Number(await info('stats', 'total_commands_processed')) - before - 1
}

const overLimiter = (limiter, most) => {
  const limits = fixed(most, '1d', { first: true })
  return async (key) => !(await limiter.limit(key, limits)).limited
}
const flexible = (options) => (most) => {
  const limiter = new RateLimiterRedis({ storeClient: ioredis, points: most, duration: 86_400, ...options(most) })
  return (key) => limiter.consume(key).then(() => true, () => false)
}
const sparing = {
  'rate-limit-redis': (most) => open('rate-limit-redis', { limit: most, windowMs: 86_400_000 }),
  'RateLimiterRedis of rate-limiter-flexible': flexible(() => ({})),
  'the same, with inMemoryBlockOnConsumed': flexible((most) => ({ inMemoryBlockOnConsumed: most })),
  'Limiter': (most) => overLimiter(new Limiter(client), most),
  'cached': (most) => overLimiter(new Limiter(cached(new Limiter(client))), most),
  'batched': (most) => overLimiter(new Limiter(batched(new Limiter(client))), most),
}
console.log('\n| | commands of 1,000 requests that are let through | of 1,000 at a limit of 100 |\n|---|--:|--:|')
for (const [name, make] of Object.entries(sparing)) {
  const counts = []
  for (const most of [1_000_000, 100]) {
    await client.flushAll()
    counts.push(await commands(await make(most), 'hot'))
  }
  console.log(`| \`${name}\` | ${counts.join(' | ')} |`)
}

/**
 * Returns how often this process wrote, to whatever, for 1,000 calls at a time: the median of some rounds. Linux counts
 * it.
 */
async function writes(hit) {
  const soFar = () => Number(/^syscw: (\d+)$/m.exec(readFileSync('/proc/self/io', 'utf8'))[1])
  const counts = []
  await hit('before')
  for (let round = 0; round < rounds; round++) {
    const before = soFar()
    await Promise.all(Array.from({ length: 1000 }, (_, i) => hit(`user:${i}`)))
    counts.push(soFar() - before)
  }
  return median(counts)
}

if (process.platform === 'linux') {
  const pipelining = new Redis(process.argv[2], { enableAutoPipelining: true })
  const limiting = (over) => {
    const limiter = new Limiter(over, { timeout: '10s' })
    return (key) => limiter.limit(key, rate(1000, '1s'))
  }
  const words = (key) => ['CL.LIMIT', key, 'RATE', '1000/s']
  const sent = {
    'node-redis, `sendCommand`': (key) => client.sendCommand(words(key)),
    'node-redis, `Limiter`': limiting(client),
    'ioredis, `call`': (key) => ioredis.call(...words(key)),
    'ioredis, `call` with `enableAutoPipelining`': (key) => pipelining.call(...words(key)),
    'ioredis, `Limiter`': limiting(ioredis),
    'ioredis, `Limiter` with `enableAutoPipelining`': limiting(pipelining),
  }
  console.log('\n| | writes for 1,000 calls at a time |\n|---|--:|')
  for (const [name, hit] of Object.entries(sent)) console.log(`| ${name} | ${await writes(hit)} |`)
  pipelining.disconnect()
}
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), 'utf8')).version
const versions = ['rate-limit-redis', '@fastify/rate-limit', 'rate-limiter-flexible'].map((name) => `${name} ${version(name)}`).join(', ')
console.error(`\n${versions}, node-redis ${version('redis')}, Node.js ${process.version}, server ${await info('server', 'redis_version')}, one connection, medians of ${rounds} rounds`)
client.destroy()
ioredis.disconnect()
