// What spec/clients/worst-day.json names and no other test shows: a full server, and a certificate that is replaced.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { fixed, Limiter, OutageError, ThrottleError } from '@redis-throttle/client'
import { fromUrl as byIoredis } from '@redis-throttle/client/ioredis'
import { fromUrl as byNodeRedis } from '@redis-throttle/client/redis'
import { single } from './clients.mjs'
import { freePort, Server, until } from './servers.mjs'

const logger = { info() {}, error() {} }
const limit = fixed(1_000_000, '1d')

describe('a server that is full', () => {
  for (const [name, open] of Object.entries(single)) {
    test(`${name}: is an outage until it has room`, async () => {
      await using server = await Server.start()
      const { client, close } = await open(server.port)
      try {
        const limiter = new Limiter(client, { logger, timeout: '30s' })
        assert.ok((await limiter.limit('before', limit)).allowed)
        await server.do('CONFIG', 'SET', 'maxmemory', 1)
        await assert.rejects(limiter.limit('k', limit), (error) => error instanceof OutageError && error.message.includes('OOM'))
        await server.do('CONFIG', 'SET', 'maxmemory', 0)
        assert.equal((await limiter.limit('k', limit)).remaining, 999_999)
      } finally {
        await close()
      }
    })
  }
})

describe('a certificate that is replaced', () => {
  for (const [name, open] of Object.entries({
    'node-redis': (url: string, ca: string[]) => byNodeRedis(url, { timeout: '5s', breaker: false, logger, options: { socket: { tls: true, ca } } }),
    ioredis: (url: string, ca: string[]) => byIoredis(url, { timeout: '5s', breaker: false, logger, options: { tls: { ca } } }),
  })) {
    test(`${name}: connections outlive it, and new ones have to trust the next`, async () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'throttle-rotated-'))
      const certificate = (cn: string) => {
        const files = { key: path.join(folder, `${cn}.key`), cert: path.join(folder, `${cn}.cert`) }
        execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', files.key, '-out', files.cert, '-days', '2', '-subj', `/CN=${cn}`, '-addext', 'subjectAltName=DNS:localhost'], { stdio: 'ignore' })
        return files
      }
      const [first, second, stranger] = [certificate('first'), certificate('second'), certificate('stranger')]
      const port = await freePort()
      await using server = await Server.start('--tls-port', String(port), '--tls-key-file', first.key, '--tls-cert-file', first.cert, '--tls-auth-clients', 'no')
      const shows = async ({ key, cert }: { key: string; cert: string }) => await server.do('CONFIG', 'SET', 'tls-key-file', key, 'tls-cert-file', cert)
      const hangUp = async () => await server.do('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
      const limiter = await open(`rediss://localhost:${port}`, [first, second].map(({ cert }) => readFileSync(cert, 'utf8')))
      const ends = async () => await limiter.limit('k', limit).then(() => 'decided', (error: unknown) => (error instanceof ThrottleError ? error.code : String(error)))
      try {
        await until(async () => (await ends()) === 'decided', 'it is connected')
        await shows(second)
        assert.equal(await ends(), 'decided', 'by the connection that is there')
        await hangUp()
        await until(async () => (await ends()) === 'decided', 'by a new connection')
        await shows(stranger)
        await hangUp()
        await until(async () => (await ends()) === 'MISTAKE', 'it is a mistake')
        await shows(first)
        await until(async () => (await ends()) === 'decided', 'it goes on')
      } finally {
        await limiter.close()
        rmSync(folder, { recursive: true })
      }
    })
  }
})
