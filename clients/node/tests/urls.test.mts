// Limiters for a URL, each with a client of its own.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { inspect } from 'node:util'
import { Limiter, type LimiterOptions, MistakeError, OutageError, rate, window } from '@redis-throttle/client'
import { fromUrl as fromIoredis } from '@redis-throttle/client/ioredis'
import { fromUrl as fromRedis } from '@redis-throttle/client/redis'
import { Cluster, packageFolder, Server, until, Watched } from './servers.mjs'

interface Options extends LimiterOptions {
  options?: object
  sentinel?: object
}
type FromUrl = (url: string, options?: Options) => Promise<Limiter & AsyncDisposable & { client: object; close(): Promise<void> }>

const libraries: Record<string, { fromUrl: FromUrl; subpath: string; tls: (ca: string) => object }> = {
  'node-redis': { fromUrl: fromRedis as FromUrl, subpath: 'redis', tls: (ca) => ({ socket: { ca } }) },
  ioredis: { fromUrl: fromIoredis as FromUrl, subpath: 'ioredis', tls: (ca) => ({ tls: { ca } }) },
}

/** A logger that notes its lines. */
function noted() {
  const lines: string[] = []
  const note = (line: string) => { lines.push(line) }
  return { lines, logger: { error: note, warn: note, info: note } }
}

const patient = { timeout: '30s' } as const
const perHour = rate(10, '1h')
const connections = async (server: Server) => String(await server.do('CLIENT', 'LIST', 'TYPE', 'normal')).trim().split('\n').length - 1 // but the one that asks

for (const [name, { fromUrl, subpath, tls }] of Object.entries(libraries)) {
  describe(name, () => {
    test('an outage names the server and the reason', async () => {
      const nobody = net.createServer().listen(0, '127.0.0.1')
      await once(nobody, 'listening')
      const { port } = nobody.address() as net.AddressInfo
      nobody.close()
      await once(nobody, 'close')
      const reasons: [string, RegExp][] = [
        [`redis://127.0.0.1:${port}`, new RegExp(`connect ECONNREFUSED 127\\.0\\.0\\.1:${port}`)],
        ['redis://redis.invalid:6379', /getaddrinfo (ENOTFOUND|EAI_AGAIN) redis\.invalid/],
        [`redis+unix://${path.join(tmpdir(), 'nobody.sock')}`, /connect ENOENT .*nobody\.sock/],
      ]
      for (const [url, reason] of reasons) {
        const { lines, logger } = noted()
        await using limiter = await fromUrl(url, { logger, timeout: '5s', options: {} })
        for (let i = 0; i < 6; i++) await assert.rejects(limiter.limit('secret', perHour),
          (error) => error instanceof OutageError && reason.test(error.message) && !inspect(error).includes('secret'))
        assert.equal(lines.length, 1)
        assert.match(lines[0] ?? '', reason)
      }
    })

    test('keys in several slots: the error tells about hash tags', async () => {
      await using cluster = await Cluster.start()
      await using limiter = await fromUrl(`redis+cluster://127.0.0.1:${cluster.first.port}`, patient)
      await assert.rejects(limiter.limitAll({ a: perHour, b: perHour }),
        (error) => error instanceof MistakeError && /CROSSSLOT.*the same hash tag, such as \{42\}:requests/.test(error.message))
    })

    test('it is connected at once, is closed with its block, and leaves nothing', async () => {
      await using server = await Server.start()
      {
        await using limiter = await fromUrl(server.url, patient)
        assert.ok(limiter instanceof Limiter)
        assert.equal((await limiter.limit('k', perHour)).remaining, 9)
        assert.equal(typeof (limiter.client as { sendCommand?: unknown }).sendCommand, 'function')
        assert.equal(await connections(server), 1)
      }
      await until(async () => (await connections(server)) === 0, 'the client is closed')

      const limiter = await fromUrl(`${server.url}/3`, { ...patient, options: { keyPrefix: 'app:' } })
      const last = limiter.limit('k', perHour)
      await Promise.all([limiter.close(), limiter.close()])
      assert.equal((await last).remaining, 9, 'a call that is under way gets its reply')
      await assert.rejects(limiter.limit('k', perHour), MistakeError)
      assert.match(String(await server.do('INFO', 'keyspace')), /db3:keys=1/)

      const script = `import { fromUrl } from '@redis-throttle/client/${subpath}'\nimport { rate } from '@redis-throttle/client'
        const limiter = await fromUrl('${server.url}', { timeout: '30s' })
        console.log((await limiter.limit('script', rate(5, '1h'))).remaining)
        await limiter.close()`
      assert.equal(execFileSync(process.execPath, ['--input-type=module', '-e', script], { cwd: packageFolder, encoding: 'utf8' }), '4\n', 'and the process ends')
    })

    test('an outage at start is an outage of the calls, and is over with it', async () => {
      await using server = await Server.start()
      await server.kill()
      const { lines, logger } = noted()
      await using limiter = await fromUrl(server.url, { logger })
      for (let i = 0; i < 6; i++) await assert.rejects(limiter.limit('k', perHour), OutageError)
      assert.equal(lines.length, 1)
      assert.match(lines[0] ?? '', /Redis is out of reach/)
      await server.start()
      await until(() => limiter.limit('k', perHour).then(() => true, () => false), 'it is back')
      assert.match(lines[1] ?? '', /Redis is back/)
    })

    test('a server that hangs at start costs no more than the timeout, and nothing is sent later', async () => {
      await using server = await Server.start()
      server.pause()
      await using limiter = await fromUrl(server.url, { logger: noted().logger })
      await assert.rejects(limiter.limit('k', perHour), OutageError)
      server.resume()
      await until(() => limiter.peek('k', perHour).then(({ remaining }) => remaining === 10, () => false), 'it is back, and nothing was charged')
    })

    test('a wrong password is a mistake, at start and when it was changed, and is told nowhere', async () => {
      await using server = await Server.start()
      await server.do('ACL', 'SETUSER', 'ann', 'on', '>p@ss/wo#rd', '~*', '+@all')
      const at = `127.0.0.1:${server.port}`
      const { lines, logger } = noted()
      const refused = (error: unknown) => {
        assert.ok(error instanceof MistakeError, String(error))
        assert.match(error.message, /WRONGPASS/)
        assert.doesNotMatch(inspect(error, { depth: 9 }), /p@ss|p%40ss|wr0ng/)
        return true
      }
      await assert.rejects(fromUrl(`redis://ann:wr0ng@${at}`, { ...patient, logger }), refused)
      await until(async () => (await connections(server)) === 0, 'its client is closed')

      await using limiter = await fromUrl(`redis://ann:p%40ss%2Fwo%23rd@${at}`, { logger, breaker: { pause: '10ms' } })
      await limiter.limit('k', perHour)
      const before = lines.length
      await server.do('ACL', 'SETUSER', 'ann', 'resetpass', '>another')
      await server.do('CLIENT', 'KILL', 'USER', 'ann')
      await until(() => limiter.limit('k', perHour).then(() => false, (error: unknown) => error instanceof MistakeError && refused(error)), 'calls are refused')
      assert.equal(lines.slice(before).filter((line) => line.includes('does not let this client in: WRONGPASS')).length, 1)
      await server.do('ACL', 'SETUSER', 'ann', '>p@ss/wo#rd')
      await until(() => limiter.limit('k', perHour).then(() => true, () => false), 'it is let in')
      assert.doesNotMatch(lines.join('\n') + inspect(limiter, { depth: 9 }), /p@ss|p%40ss|wr0ng|another/)
    })

    test('a client that you give is refused as well: a changed password is a mistake', async () => {
      await using server = await Server.start()
      await server.do('ACL', 'SETUSER', 'ann', 'on', '>old', '~*', '+@all')
      await using owner = await fromUrl(`redis://ann:old@127.0.0.1:${server.port}`, { logger: noted().logger, ...patient })
      const limiters = Array.from({ length: 20 }, () => new Limiter(owner.client as never, { breaker: false }))
      const [limiter = owner] = limiters
      await limiter.limit('k', perHour)
      await server.do('ACL', 'SETUSER', 'ann', 'resetpass', '>new')
      await server.do('CLIENT', 'KILL', 'USER', 'ann')
      await until(() => limiter.limit('k', perHour).then(() => false, (error: unknown) => error instanceof MistakeError), 'calls are refused')
      await server.do('ACL', 'SETUSER', 'ann', '>old')
      await until(() => limiter.limit('k', perHour).then(() => true, () => false), 'it is let in')
    })

    test('TLS, with a certificate that is believed and with one that is not', async () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'throttle-tls-'))
      try {
        const [key, cert] = [path.join(folder, 'key.pem'), path.join(folder, 'cert.pem')]
        execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key, '-out', cert, '-days', '2', '-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1'], { stdio: 'ignore' })
        const { port } = await free()
        await using server = await Server.start('--tls-port', String(port), '--tls-cert-file', cert, '--tls-key-file', key, '--tls-auth-clients', 'no')
        await using limiter = await fromUrl(`rediss://localhost:${port}`, { ...patient, options: tls(readFileSync(cert, 'utf8')) })
        assert.equal((await limiter.limit('k', perHour)).remaining, 9)
        assert.equal(await server.do('EXISTS', 'k'), 1)
        await assert.rejects(fromUrl(`rediss://localhost:${port}`, { ...patient, logger: noted().logger }),
          (error: unknown) => error instanceof MistakeError && /self.signed certificate/.test(error.message))
      } finally {
        rmSync(folder, { recursive: true })
      }
    })

    test('a Unix socket', async () => {
      const folder = mkdtempSync(path.join(tmpdir(), 'throttle socket '))
      try {
        const socket = path.join(folder, 'redis.sock')
        await using server = await Server.start('--unixsocket', socket)
        await using limiter = await fromUrl(`redis+unix://${encodeURI(socket)}?db=2`, patient)
        await limiter.limit('k', perHour)
        assert.match(String(await server.do('INFO', 'keyspace')), /db2:keys=1/)
        await server.kill()
        await until(() => limiter.limit('k', perHour).then(() => false,
          (error: unknown) => { assert.ok(error instanceof OutageError, inspect(error)); return true }), 'it is an outage')
      } finally {
        rmSync(folder, { recursive: true })
      }
    })

    test('a cluster, also one that is not there at first, and in Redis Sentinel the master', async () => {
      await using nodes = await Cluster.start()
      const [first, ...others] = nodes.nodes.map(({ port }) => `127.0.0.1:${port}`)
      await using limiter = await fromUrl(`redis+cluster://127.0.0.1:1,${others.join()},${first}`, { ...patient, options: { keyPrefix: 'app:' } })
      for (const key of ['a', 'b', 'c', 'd', 'e', 'f']) assert.equal((await limiter.limit(key, perHour)).remaining, 9)
      const sizes = await Promise.all(nodes.nodes.map((node) => node.do('DBSIZE')))
      assert.equal(sizes.map(Number).reduce((sum, size) => sum + size), 6)
      const owner = await nodes.owner('app:a')
      assert.equal(await owner.do('EXISTS', 'app:a'), 1)

      for (const node of nodes.nodes) await node.kill()
      const { lines, logger } = noted()
      await using late = await fromUrl(`redis+cluster://${[first, ...others].join()}`, { logger })
      await assert.rejects(late.limit('a', perHour), OutageError)
      for (const node of nodes.nodes) await node.start()
      await until(() => late.limit('a', perHour).then(() => true,
        (error: unknown) => { assert.ok(error instanceof OutageError, inspect(error)); return false }), 'it is back')
      assert.doesNotMatch(lines.join('\n'), /let this client in/)

      await using watched = await Watched.start()
      await using after = await fromUrl(`redis+sentinel://127.0.0.1:1,127.0.0.1:${watched.sentinel.port}/mymaster/1`, patient)
      assert.equal((await after.limit('k', perHour)).remaining, 9)
      await after.wait('w', window(5, '1s'))
      assert.match(String(await watched.master.do('INFO', 'keyspace')), /db1:keys=2/)
    })

    test('a URL or an option that is wrong is told, and the URL is not', async () => {
      for (const [url, says] of [
        ['localhost:6379', /url must begin with redis:\/\/, rediss:\/\//], ['http://s3cret@host', /url must begin with/], ['redis+tls://s3cret@host', /url must begin with/],
        ['redis://:s3cret/x@host', /%2F/], ['redis://:s3cret?x@host', /%3F/], ['redis://:s3cret%zz@host', /%25/], ['redis://:s3cret@host:99999', /a port is from 1 to 65535/], ['redis://:s3cret@host:port', /HOST:PORT/],
        ['redis://:s3cret@host/db', /the number of a database/], ['redis://:s3cret@host/0?family=6', /it takes no query/], ['redis://:s3cret@a,b', /several hosts go with redis\+cluster/],
        ['redis+cluster://:s3cret@host/1', /only database 0/], ['redis+sentinel://:s3cret@host', /the name of the master is missing/], ['redis+sentinel://:s3cret@host/m/x', /the number of a database/],
        ['redis+unix://:s3cret@host/path', /has a path and no host/], ['redis+unix:///path?family=6', /\?db=NUMBER/], [undefined, /url must be a string/], [new URL('redis://:s3cret@host'), /url must be a string/],
      ] as const) {
        await assert.rejects(fromUrl(url as string), (error: unknown) => {
          assert.ok(error instanceof TypeError, inspect(error))
          assert.match(error.message, says)
          assert.doesNotMatch(inspect(error), /s3cret/)
          return true
        })
      }
      await assert.rejects(fromUrl('redis://127.0.0.1:1', { password: 's3cret' } as object), /fromUrl: there is no option password; it takes timeout, .*options and sentinel/)
      await assert.rejects(fromUrl('redis://127.0.0.1:1', { timeout: '0' }), /timeout: '0' must be from 1ms/)
    })
  })
}

async function free(): Promise<{ port: number }> {
  const listener = net.createServer()
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
  const { port } = listener.address() as net.AddressInfo
  await new Promise((resolve) => listener.close(resolve))
  return { port }
}

