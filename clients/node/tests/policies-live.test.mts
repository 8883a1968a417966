// Policies on real servers: every kind of client reads the hash, and a number changes under load.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { after, afterEach, before, describe, mock, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { type Client, type Decider, fixed, Limiter, policies, policy, rate } from '@redis-throttle/client'
import { cluster, sentinel, single } from './clients.mjs'
import { Cluster, packageFolder, Server, until, Watched } from './servers.mjs'

let server: Server
before(async () => {
  server = await Server.start()
})
after(() => server.stop())
afterEach(async () => {
  mock.restoreAll()
  await server.do('DEL', 'throttle:policies')
})

const quiet = { error: () => {}, info: () => {} }
const patient = { timeout: '30s' } as const

/** Waits until calls are decided by what the hash says of a key. */
async function saysOf(client: Client, key: string, text: string): Promise<void> {
  const limiter = new Limiter(policies(new Limiter(client, patient), client, { refresh: '5ms', logger: quiet }))
  await until(async () => {
    const { policies: applied, by } = await limiter.peek(key, policy('api', rate(100, '1m')))
    return `${by} ${applied?.[0]?.limits.join(' ') ?? ''}`.trim() === text
  }, `${key} has ${text}`)
}

describe('the hash is read over', () => {
  const hash = ['HSET', 'throttle:policies', 'api', 'RATE 60/m BURST 20', 'api/Zoë*', 'FIXED 5/d TZ Europe/Berlin', 'api/user:42', 'NONE'] as const
  const look = async (client: Client) => {
    await saysOf(client, 'user:1', 'server RATE 60/1m BURST 20')
    await saysOf(client, 'Zoë:1', 'server FIXED 5/1d TZ Europe/Berlin')
    await saysOf(client, 'user:42', 'none')
  }

  for (const [name, open] of Object.entries(single)) {
    test(name, async () => {
      await server.do(...hash)
      const { client, close } = await open(server.port)
      await look(client).finally(close)
    })
  }

  test('clusters', async () => {
    await using nodes = await Cluster.start()
    await (await nodes.owner('throttle:policies')).do(...hash)
    for (const open of Object.values(cluster)) {
      const { client, close } = await open(nodes.first.port)
      await look(client).finally(close)
    }
  })

  test('Sentinels', async () => {
    await using watched = await Watched.start()
    await watched.master.do(...hash)
    for (const open of Object.values(sentinel)) {
      const { client, close } = await open(watched.sentinel.port)
      await look(client).finally(close)
    }
  })

  test('a client that puts a prefix before its keys: those of the hash are as in Redis, and the name of the hash has none', async () => {
    await server.do('HSET', 'throttle:policies', 'api/app:user:*', 'RATE 3/m', 'api/user:*', 'RATE 4/m')
    const client = new Redis(server.port, { keyPrefix: 'app:' })
    await saysOf(client, 'user:1', 'server RATE 3/1m').finally(() => { client.disconnect() })
  })
})

test('with a version the hash is read whole only when it has changed', async (t) => {
  await server.do('HSET', 'throttle:policies', 'api', 'RATE 5/m', '@version', '1')
  const client = new Redis(server.port)
  t.after(() => { client.disconnect() })
  let time = 0
  mock.method(performance, 'now', () => time)
  const next: Decider = { decide: (call) => Promise.reject(new Error(String(call.keys[0]?.limits))) }
  const limiter = new Limiter(policies(next, client, { logger: quiet }))
  const watching = await server.watch()
  const counts = async () => await limiter.peek('k', policy('api', rate(1, '1s'))).catch((error: Error) => error.message)
  assert.equal(await counts(), 'RATE 5/1m')
  await server.do('HSET', 'throttle:policies', 'api', 'RATE 6/m')
  for (const [ms, limit] of [[2000, 'RATE 5/1m'], [4000, 'RATE 5/1m']] as const) {
    time = ms
    await counts()
    await client.ping() // what was sent before has its answer
    await setImmediate()
    assert.equal(await counts(), limit)
  }
  await server.do('HSET', 'throttle:policies', '@version', '2')
  time = 6000
  await counts()
  mock.restoreAll()
  await until(async () => (await counts()) === 'RATE 6/1m', 'the new version counts')
  const sent = await watching.stop()
  const first = sent.filter((line) => /"hget(all)?"/i.test(line)).map((line) => line.split('"')[1]?.toUpperCase()).slice(0, 5)
  assert.deepEqual(first, ['HGETALL', 'HGET', 'HGET', 'HGET', 'HGETALL'])
})

test('a right that is missing is told with the rule that gives it, once, and calls keep their defaults', async (t) => {
  await server.do('ACL', 'SETUSER', 'app', 'on', '>secret', '~user:*', '+cl.limit', '+cl.peek', '+info', '+ping', '+hello', '+client')
  const client = new Redis(server.port, { username: 'app', password: 'secret', enableReadyCheck: false })
  t.after(() => { client.disconnect() })
  const lines: string[] = []
  const note = (line: string) => void lines.push(line)
  const limiter = new Limiter(policies(new Limiter(client, patient), client, { refresh: '1ms', logger: { error: note, info: note } }))
  const ask = () => limiter.peek('user:1', policy('api', rate(5, '1m')))
  for (let i = 0; i < 20; i++) assert.equal((await ask()).limit, 5)
  assert.equal(lines.length, 1)
  assert.match(lines[0] ?? '', /^redis-throttle: throttle:policies could not be read, the defaults of the code count: NOPERM.*; the user needs \+hgetall \+hget %R~throttle:policies$/)
  await server.do('HSET', 'throttle:policies', 'api', 'RATE 9/m')
  await server.do('ACL', 'SETUSER', 'app', '+hgetall', '+hget', '%R~throttle:policies')
  await until(async () => (await ask()).limit === 9, 'the hash is read')
  await server.do('ACL', 'DELUSER', 'app')
  assert.deepEqual(lines.slice(1), ['redis-throttle: throttle:policies is read again', 'redis-throttle: throttle:policies: 1 policy'])
})

test('a number is changed under load: everybody decides by it after a read, no call fails, and no unit goes too many', async (t) => {
  const clients = await Promise.all([single['node-redis 6'], single['ioredis 6'], single['node-redis 5'], single['ioredis 5']].flatMap((open) => (open ? [open(server.port)] : [])))
  t.after(async () => { for (const { close } of clients) await close() })
  const limits = policy('api', fixed(50, '30d', { first: true }))
  let count = 200
  const set = async (to: number) => {
    await server.do('HSET', 'throttle:policies', 'api', `FIXED ${to}/30d FIRST`)
    count = to
    for (const one of processes) Object.assign(one, { since: 0, decided: false })
  }
  const processes = clients.map(({ client }) => ({ client: client as Client, since: 0, decided: false, late: 0, count: 0 }))
  await set(200)
  let [through, over, working] = [0, 0, true]
  t.after(() => { working = false })
  const callers = processes.flatMap((mine) => {
    const server = new Limiter(mine.client, patient)
    const next: Decider = {
      decide: (call, options) => {
        mine.count = call.keys[0]?.limits?.[0]?.fields.count ?? 0
        if (mine.count === count && !mine.decided) {
          mine.decided = true
          mine.late = Math.max(mine.late, mine.since)
        }
        return server.decide(call, options)
      },
    }
    // Each reads over its own client, and counts the reads that began after the change was there.
    const reader = mine.client as unknown as { hGetAll?: (key: string) => Promise<object>; hgetall?: (key: string) => Promise<object> }
    const read = async () => {
      mine.since++
      return (await (reader.hGetAll?.('throttle:policies') ?? reader.hgetall?.('throttle:policies'))) ?? {}
    }
    const limiter = new Limiter(policies(next, read, { refresh: '5ms', logger: quiet }))
    return Array.from({ length: 4 }, async () => {
      while (working) {
        const { limited, limit, policies: applied } = await limiter.limit('load', limits)
        if (!limited) through++
        if (!limited && through > 400) over++
        assert.equal(limit, applied?.[0]?.limits[0]?.fields.count ?? 50)
      }
    })
  })
  const all = Promise.all(callers) // any of which would fail
  const everybody = (by: number) => Promise.race([all, until(() => processes.every((mine) => mine.count === by), `everybody decides by ${by}`)])
  await everybody(200)
  await Promise.race([all, until(() => through === 200, 'the units of the first number are gone')])
  await set(400)
  await everybody(400)
  await Promise.race([all, until(() => through === 400, 'those of the second are')])
  await set(100)
  await everybody(100)
  working = false
  await all
  assert.deepEqual([through, over], [400, 0])
  // The read that was under way may be older than the change; the next one is not.
  for (const { late } of processes) assert.ok(late <= 2, `${late} reads`)
})

test('a process ends while it has the layer', async () => {
  const script = `
    import { Redis } from 'ioredis'
    import { Limiter, policies, policy, rate } from '@redis-throttle/client'
    const client = new Redis(${server.port})
    const limiter = new Limiter(policies(new Limiter(client, { timeout: '30s' }), client, { refresh: '1h' }))
    console.log((await limiter.limit('ends', policy('api', rate(5, '1m')))).remaining)
    client.disconnect()`
  const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '--eval', script], { cwd: packageFolder, timeout: 60_000 })
  assert.equal(stdout, '4\n')
})
