// What an error says of a server that is out of reach, or does not let the client in: the table of all languages, on
// real servers.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { inspect } from 'node:util'
import { fixed, Limiter, ThrottleError } from '@redis-throttle/client'
import { fromUrl as byIoredis } from '@redis-throttle/client/ioredis'
import { fromUrl as byNodeRedis } from '@redis-throttle/client/redis'
import { Redis } from 'ioredis'
import { Cluster, freePort, root, Server, until } from './servers.mjs'

type Kind = 'server' | 'cluster' | 'sentinel'

interface Case {
  server: string
  tls?: boolean
  password?: boolean
  kinds?: Kind[]
  code: string
  says: string
}

const table = JSON.parse(readFileSync(path.join(root, 'spec/clients/outages.json'), 'utf8')) as { password: string; crossslot: { code: string; says: string }; cases: Case[] }
const perHour = fixed(1000, '1h')
const urls: Record<Kind, [before: string, after: string]> = { server: ['', ''], cluster: ['+cluster', ''], sentinel: ['+sentinel', '/mymaster'] }

const libraries = {
  'node-redis': (url: string, options: object, ca: string) => byNodeRedis(url, { ...options, ...(url.startsWith('rediss') && { options: { socket: { tls: true, ca } } }) }),
  ioredis: (url: string, options: object, ca: string) => byIoredis(url, { ...options, ...(url.startsWith('rediss') && { options: { tls: { ca } } }) }),
}

/** Makes a certificate that signs itself, and its key. */
function certificate(folder: string, name: string, days: number): string[] {
  const [key, request, cert, names] = ['key', 'request', 'cert', 'names'].map((kind) => path.join(folder, `${name}.${kind}`)) as [string, string, string, string]
  const openssl = (...args: string[]) => execFileSync('openssl', args, { stdio: 'ignore' })
  execFileSync('sh', ['-c', 'echo subjectAltName=DNS:localhost,IP:127.0.0.1 > "$1"', 'sh', names])
  openssl('req', '-new', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', request, '-subj', '/CN=localhost')
  openssl('x509', '-req', '-in', request, '-signkey', key, '-days', String(days), '-extfile', names, '-out', cert)
  return [key, cert]
}

describe('errors name the server and what is wrong', () => {
  const at: Record<string, string> = {}
  const folder = mkdtempSync(path.join(tmpdir(), 'throttle-outages-'))
  const servers: Server[] = []
  const closes = net.createServer((socket) => void socket.destroy())
  let ca = ''

  before(async () => {
    const start = async (...options: string[]) => {
      const server = await Server.start(...options)
      servers.push(server)
      return server
    }
    const speaksTLS = async (name: string, days: number) => {
      const port = await freePort()
      const [key = '', cert = ''] = certificate(folder, name, days)
      await start('--tls-port', String(port), '--tls-cert-file', cert, '--tls-key-file', key, '--tls-auth-clients', 'no')
      return { address: `localhost:${port}`, cert }
    }
    at['nobody listens'] = `127.0.0.1:${await freePort()}`
    at['no such name'] = 'nobody.invalid:6379'
    const hangs = await start()
    hangs.pause()
    at['hangs'] = `127.0.0.1:${hangs.port}`
    const port = await freePort()
    await new Promise<void>((resolve) => closes.listen(port, '127.0.0.1', resolve))
    at['closes'] = `127.0.0.1:${port}`
    at['speaks no TLS'] = `localhost:${(await start()).port}`
    at['speaks TLS alone'] = at['untrusted certificate'] = (await speaksTLS('untrusted', 2)).address
    const { address, cert } = await speaksTLS('expired', -1)
    at['expired certificate'] = address
    ca = readFileSync(cert, 'utf8')
    const locked = await start()
    await locked.do('CONFIG', 'SET', 'requirepass', 'another')
    at['another password'] = at['a password'] = `127.0.0.1:${locked.port}`
  })

  after(async () => {
    for (const server of servers) await server.stop()
    closes.close()
    rmSync(folder, { recursive: true })
  })

  for (const [library, open] of Object.entries(libraries)) {
    for (const one of table.cases) {
      for (const kind of one.kinds ?? (Object.keys(urls) as Kind[])) {
        test(`${library}, ${kind}: ${one.server}`, async () => {
          const lines: string[] = []
          const note = (line: string) => void lines.push(line)
          const logger = { info: note, warn: note, error: note }
          const [form, rest] = urls[kind]
          const where = at[one.server] ?? ''
          const url = `redis${one.tls ? 's' : ''}${form}://${one.password ? `:${table.password}@` : ''}${where}${rest}`
          const ends = async (act: () => Promise<unknown>) => await act().then(() => undefined, (error: unknown) => error)
          let limiter: Awaited<ReturnType<typeof open>> | undefined
          let last: unknown
          const opened = await ends(async () => (limiter = await open(url, { breaker: false, logger }, ca)))
          try {
            // The reason is known when the library has tried to connect.
            await until(async () => {
              last = opened ?? (await ends(async () => await limiter?.limit('k', perHour)))
              const { code, message } = last as ThrottleError
              return last instanceof ThrottleError && code === one.code && new RegExp(one.says, 'i').test(message) && message.includes(where)
            }, 'it says so').catch(() => {
              assert.fail(`${one.code} /${one.says}/ ${where}, not ${inspect(last)}`)
            })
          } finally {
            await limiter?.close()
          }
          assert.doesNotMatch(inspect(last, { depth: 9 }) + lines.join('\n'), new RegExp(table.password))
        })
      }
    }
  }

  test('keys of two slots', async () => {
    await using cluster = await Cluster.start()
    const client = new Redis(cluster.first.port)
    try {
      const error: unknown = await new Limiter(client).limitAll([['a', perHour], ['b', perHour]]).catch((error: unknown) => error)
      assert.ok(error instanceof ThrottleError && error.code === table.crossslot.code)
      assert.match(error.message, new RegExp(table.crossslot.says))
    } finally {
      client.disconnect()
    }
  })
})
