// An address that leads to another server by now, as behind DNS or a balancer: a server that is not the master any more
// is left at once.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import net from 'node:net'
import { describe, test } from 'node:test'
import { Limiter, OutageError, rate, window } from '@redis-throttle/client'
import { single } from './clients.mjs'
import { Server, until } from './servers.mjs'

const logger = { info() {}, error() {} }

/**
 * An address whose new connections lead to the server that it is told. One over which a word is sent that it loses
 * carries nothing from then on.
 */
async function moving(port: number, loses?: string): Promise<{ port: number; to: (port: number) => void; close: () => void }> {
  let target = port
  const sockets = new Set<net.Socket>()
  const listener = net.createServer((socket) => {
    const server = net.connect(target, '127.0.0.1')
    for (const one of [socket, server]) sockets.add(one.on('error', () => {}))
    if (loses === undefined) {
      socket.pipe(server).pipe(socket)
    } else {
      let lost = false
      socket.on('data', (data) => {
        lost ||= data.includes(loses)
        if (!lost) server.write(data)
      })
      server.on('data', (data) => { socket.write(data) })
    }
    socket.on('close', () => server.destroy())
    server.on('close', () => socket.destroy())
  }).listen(0, '127.0.0.1')
  await once(listener, 'listening')
  return {
    port: (listener.address() as net.AddressInfo).port,
    to: (port) => { target = port },
    close: () => {
      for (const socket of sockets) socket.destroy()
      listener.close()
    },
  }
}

describe('an address that moves to another master', () => {
  for (const [name, open] of Object.entries(single)) {
    for (const kind of ['with the module', 'without the module'] as const) {
      test(`${name}, ${kind}: the old one, which only reads by now, is left at once`, async () => {
        const start = (...options: string[]) => (kind === 'with the module' ? Server.start(...options) : Server.withoutModule(...options))
        await using old = await start()
        await using next = await start()
        const way = await moving(old.port)
        const { client, close } = await open(way.port)
        try {
          const limiter = new Limiter(client, { logger, timeout: '2s', breaker: { pause: '20ms', logger } })
          const limit = rate(1000, '1h')
          await limiter.limit('k', limit)
          way.to(next.port)
          await old.do('REPLICAOF', '127.0.0.1', next.port)
          await assert.rejects(limiter.limit('k', limit), OutageError)
          await until(async () => {
            try {
              await limiter.limit('k', limit)
            } catch (error) {
              assert.ok(error instanceof OutageError, String(error))
              return false
            }
            return (await next.do('EXISTS', 'k')) === 1
          }, 'calls go to the new master')
        } finally {
          await close()
          way.close()
        }
      })
    }
  }
})

describe('a connection that is lost, as by a balancer that forgets it', () => {
  for (const [name, open] of Object.entries(single)) {
    test(`${name}: nobody waits for ever, while the server answers all others`, async () => {
      await using server = await Server.start()
      const way = await moving(server.port, 'CL.WAIT')
      const { client, close } = await open(way.port)
      try {
        const limiter = new Limiter(client, { logger, timeout: '5s', patience: '300ms' })
        await assert.rejects(limiter.wait('k', window(1, '1d'), { timeout: '100ms' }), (error) => error instanceof OutageError && error.message.includes('while the server is alive'))
        assert.ok((await limiter.limit('k', window(1, '1d'))).allowed)
      } finally {
        await close()
        way.close()
      }
    })
  }
})

describe('a caller in line behind an address that moves', { concurrency: 3 }, () => {
  for (const [name, open] of Object.entries(single)) {
    for (const tells of [true, false]) {
      test(`${name}: waits for a server that lives${tells ? ', and for no other' : ', also if its user may not ask which one it is'}`, async () => {
        await using old = await Server.start()
        await using next = await Server.start()
        if (!tells) for (const one of [old, next]) await one.do('ACL', 'SETUSER', 'default', '-info')
        const way = await moving(old.port)
        const { client, close } = await open(way.port)
        try {
          const limiter = new Limiter(client, { logger, timeout: '5s', patience: '1s' })
          const late = window(1, '1d')
          const soon = window(1, '5s')
          await limiter.limit('late', late)
          await limiter.limit('soon', soon)
          const hangs = limiter.wait('late', late).then(() => undefined, (error: unknown) => error)
          assert.ok((await limiter.wait('soon', soon)).allowed, 'it is asked for a sign of life meanwhile')
          if (!tells) return
          await until(async () => (await old.info('throttle_waiting')) === 1, 'the other one is in line')
          way.to(next.port)
          old.pause()
          const error = await hangs
          assert.ok(error instanceof OutageError, String(error))
        } finally {
          await close()
          way.close()
        }
      })
    }
  }
})
