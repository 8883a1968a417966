// A process that asks for more than its connection carries: an overload, and no outage. The breaker stays closed.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { describe, test } from 'node:test'
import { guard, isOutage, isOverload, Limiter, rate } from '@redis-throttle/client'
import { single } from './clients.mjs'
import { Server } from './servers.mjs'

const far = rate(1_000_000, '1s')
const lines: string[] = []
const logger = { info: (line: string) => { lines.push(line) }, error: (line: string) => { lines.push(line) } }

/** Returns a listener before a server that passes on what the server says as slowly as it is told. */
async function narrow(port: number): Promise<{ port: number; slow: (bytes: number) => void; close: () => void }> {
  let bytes = Infinity // in 10 ms
  const sockets = new Set<net.Socket>()
  const listener = net.createServer((socket) => {
    const server = net.connect(port, '127.0.0.1')
    for (const one of [socket, server]) sockets.add(one.on('error', () => {}))
    socket.pipe(server)
    let held = Buffer.alloc(0)
    const pass = () => {
      socket.write(held.subarray(0, bytes))
      held = held.subarray(bytes)
    }
    const timer = setInterval(pass, 10)
    server.on('data', (data) => {
      held = Buffer.concat([held, data])
      if (bytes === Infinity) pass()
    })
    socket.on('close', () => {
      clearInterval(timer)
      server.destroy()
    })
  }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    port: (listener.address() as net.AddressInfo).port,
    slow: (some) => { bytes = some },
    close: () => {
      for (const socket of sockets) socket.destroy()
      listener.close()
    },
  }
}

/** Sends calls at once, and counts what becomes of them. */
async function counted(limiter: Limiter, calls: number, timeout?: number): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  const ends = await Promise.allSettled(Array.from({ length: calls },
    () => limiter.limit('k', far, timeout === undefined ? {} : { signal: AbortSignal.timeout(timeout) })))
  for (const end of ends) {
    const error: unknown = end.status === 'rejected' ? end.reason : undefined
    const what = error === undefined ? 'decided' : isOutage(error) ? 'outage' : isOverload(error) ? 'overload' : (error as Error).name
    counts[what] = (counts[what] ?? 0) + 1
  }
  return counts
}

describe('replies that come too slowly', () => {
  for (const [name, open] of Object.entries(single)) {
    if (name.includes('pool')) continue // which opens more connections
    test(`${name}: what is late while others are answered is an overload`, async () => {
      await using server = await Server.start()
      const way = await narrow(server.port)
      const { client, close } = await open(way.port)
      try {
        lines.length = 0
        const limiter = new Limiter(client, { timeout: '300ms', logger, breaker: { failures: 1, logger } })
        await limiter.limit('k', far)
        way.slow(40)
        const { decided = 0, overload = 0, ...others } = await counted(limiter, 500)
        assert.deepEqual([others, lines], [{}, []])
        assert.ok(decided > 0 && overload > 0, `${decided} decided, ${overload} overloads`)
      } finally {
        await close()
        way.close()
      }
    })
  }

  test('a caller whose own time is over says nothing about a server that answers others', async () => {
    await using server = await Server.start()
    const way = await narrow(server.port)
    const { client, close } = await (single['ioredis 6'] as (typeof single)[string])(way.port)
    try {
      const limiter = new Limiter(client, { timeout: '10s', logger, breaker: false })
      await limiter.limit('k', far)
      way.slow(40)
      const guarded = guard(limiter, { failures: 1, logger })
      lines.length = 0
      const { TimeoutError = 0, decided = 0, ...others } = await counted(new Limiter(guarded), 500, 1500)
      assert.deepEqual([others, lines, guarded.out], [{}, [], false])
      assert.ok(decided > 0 && TimeoutError > 0, `${decided} decided, ${TimeoutError} left`)
    } finally {
      await close()
      way.close()
    }
  })
})

test('10,000 calls may wait for their replies; what comes on top is an overload at once', async () => {
  await using server = await Server.start()
  for (const name of ['node-redis 6', 'ioredis 6']) {
    const { client, close } = await (single[name] as (typeof single)[string])(server.port)
    const limiter = new Limiter(client, { logger })
    await limiter.limit('k', far)
    const { decided = 0, overload = 0, ...others } = await counted(limiter, 10_500)
    assert.deepEqual(others, {})
    assert.ok(overload >= 500 && decided > 0, `${decided} decided, ${overload} overloads`)
    assert.equal((await limiter.limit('k', far)).by, 'server', 'the breaker is closed')
    await close()
  }
})

test('a process that was busy reads its replies first, however long that takes', async () => {
  await using server = await Server.start()
  for (const open of Object.values(single)) {
    const { client, close } = await open(server.port)
    try {
      const limiter = new Limiter(client, { timeout: '50ms', logger, breaker: false })
      await limiter.limit('k', far)
      const calls = Promise.all(Array.from({ length: 50 }, () => limiter.limit('k', far)))
      let turns = 0
      const busy = () => {
        for (const ends = performance.now() + 100; performance.now() < ends; );
        if (++turns < 5) setImmediate(busy)
      }
      setImmediate(busy)
      for (const result of await calls) assert.equal(result.by, 'server')
    } finally {
      await close()
    }
  }
})
