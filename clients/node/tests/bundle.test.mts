// A service that is one minified file: its errors are told apart, and its calls follow a cluster, as without it.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { text } from 'node:stream/consumers'
import { describe, test } from 'node:test'
import { build } from 'esbuild'
import { MadeUp, packageFolder, Server, until } from './servers.mjs'

const libraries: Record<string, string> = {
  redis: `
    import { createClient } from 'redis'
    const open = async (port, options = {}) => {
      const client = createClient({ socket: { host: '127.0.0.1', port }, ...options })
      client.on('error', () => {})
      if (port === 1) void client.connect().catch(() => {})
      else await client.connect()
      return client
    }
    const close = (client) => client.destroy()
    const retries = { disableOfflineQueue: true }
    const full = { commandsQueueMaxLength: 20 }`,
  ioredis: `
    import { Redis } from 'ioredis'
    const open = async (port, options = {}) => {
      const client = new Redis({ host: '127.0.0.1', port, ...options })
      client.on('error', () => {})
      return client
    }
    const close = (client) => client.disconnect()
    const retries = { maxRetriesPerRequest: 1 }
    const full = undefined`,
}

// Prints the code of the error of each call, or what it decided.
const service = `
  import { Limiter, isOutage, isOverload, rate, window } from '@redis-throttle/client'
  import * as again from 'a-second-copy'
  const [readonly, oom, closes, moved, plain] = process.argv.slice(2).map(Number)
  const told = {}
  const tell = async (name, port, act, options) => {
    const client = await open(port, options)
    try {
      told[name] = (await act(new Limiter(client, { timeout: '5s' }), client)).limited
    } catch (error) {
      told[name] = [error.code, error.name, isOutage(error), isOverload(error), error instanceof again.OutageError, isOutage(error.cause), error.message].join(' ')
    }
    close(client)
  }
  const limit = (limiter) => limiter.limit('k', rate(5, '1m'))
  await tell('READONLY', readonly, limit)
  await tell('OOM', oom, limit)
  await tell('closed', closes, limit)
  await tell('retries', 1, limit, retries)
  for (const name of ['MOVED', 'ASK']) await tell(name, moved, (limiter) => limiter.wait('k', window(5, '1m')))
  await tell('WRONGTYPE', plain, (limiter) => limiter.limit('text', rate(5, '1m')))
  await tell('gone', plain, (limiter, client) => { close(client); return new Promise((resolve) => setTimeout(resolve, 50)).then(() => limit(limiter)) })
  if (full) await tell('full', plain, (limiter) => Promise.all(Array.from({ length: 50 }, () => limit(limiter))), full)
  console.log(JSON.stringify(told))
  process.exit()`

describe('in a minified bundle', () => {
  for (const [name, library] of Object.entries(libraries)) {
    test(`errors of ${name} are told apart, and MOVED and ASK are followed`, async () => {
      const second = path.join(packageFolder, 'build/second-copy')
      cpSync(path.join(packageFolder, 'dist'), second, { recursive: true })
      const { outputFiles } = await build({
        stdin: { contents: library + service, resolveDir: packageFolder },
        bundle: true,
        minify: true,
        platform: 'node',
        format: 'esm',
        banner: { js: "import { createRequire } from 'node:module'; const require = createRequire(import.meta.url)" },
        alias: { '@redis-throttle/client': path.join(packageFolder, 'dist/index.js'), 'a-second-copy': path.join(second, 'index.js') },
        write: false,
        logLevel: 'error',
      })
      const file = path.join(packageFolder, `build/bundle-${name}.mjs`)
      writeFileSync(file, outputFiles[0]?.contents ?? '')

      await using master = await Server.start('--repl-diskless-sync-delay', '0')
      await using replica = await Server.start('--replicaof', '127.0.0.1', String(master.port))
      await until(async () => String(await replica.do('INFO', 'replication')).includes('master_link_status:up'), 'the replica follows')
      await using full = await Server.start('--maxmemory', '1')
      const limit = ['CL.LIMIT', 'k', 'RATE', '5/1m', 'COMPACT']
      await using closes = await MadeUp.start([{ sends: limit, reply: { closes: true } }])
      const wait = ['CL.WAIT', 'k', 'WINDOW', '5/1m', 'TIMEOUT', '0ms', 'COMPACT']
      const answer = { sends: wait, reply: [0, 1, 5, 4, -1, 5, 5, 1, 0, 0] }
      await using owner = await MadeUp.start([answer, answer])
      await using other = await MadeUp.start(['MOVED', 'ASK'].map((kind) => ({ sends: wait, reply: { error: `${kind} 7629 127.0.0.1:${owner.port}` } })))
      await master.do('SET', 'text', 'x')

      const ports = [replica, full, closes, other, master].map(({ port }) => String(port))
      const child = spawn(process.execPath, [file, ...ports], { stdio: ['ignore', 'pipe', 'inherit'] })
      const [printed] = await Promise.all([text(child.stdout), once(child, 'exit')])
      const told = JSON.parse(printed) as Record<string, string | boolean>
      const outage = /^OUTAGE OutageError true false true /
      const expected: Record<string, RegExp> = { READONLY: outage, OOM: outage, closed: outage, retries: outage, WRONGTYPE: /^MISTAKE MistakeError false false false .*WRONGTYPE/, gone: /^MISTAKE MistakeError false /, MOVED: /^false$/, ASK: /^false$/ }
      if (name === 'redis') expected['full'] = /^OVERLOAD OverloadError false true false /
      for (const [what, says] of Object.entries(expected)) assert.match(String(told[what]), says, what)
      assert.deepEqual([owner.exchanges, other.exchanges, owner.problems, other.problems], [[], [], [], []])
    })
  }
})
