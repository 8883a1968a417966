// The stores of this package beside those that the libraries have for Redis, on one server, in turns: node bench.mjs URL. Prints
// tables for the README: what gets through around a boundary; and of the stores of express-rate-limit, how fast they are.
import { readFileSync } from 'node:fs'
import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { aroundABoundary, stores } from './build/tests/stores.mjs'

const rounds = 8
const short = { limit: 50, windowMs: 1000 }
const plenty = { limit: 1_000_000, windowMs: 86_400_000 }

const client = await createClient({ url: process.argv[2] }).connect()
const ioredis = new Redis(process.argv[2])
const open = async (name, rule) => await stores[name].open({ redis: client, ioredis }, rule)
const fast = Object.keys(stores).filter((name) => /rate-limit-redis|express/.test(name))

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
const version = (name) => JSON.parse(readFileSync(new URL(`node_modules/${name}/package.json`, import.meta.url), 'utf8')).version
const versions = ['rate-limit-redis', '@fastify/rate-limit', 'rate-limiter-flexible'].map((name) => `${name} ${version(name)}`).join(', ')
console.error(`\n${versions}, node-redis ${version('redis')}, Node.js ${process.version}, server ${await info('server', 'redis_version')}, one connection, medians of ${rounds} rounds`)
client.destroy()
ioredis.disconnect()
