// The packed file, installed by npm, pnpm and Yarn where a user would: with the lowest versions of all peers and of
// Node.js, in a workspace with two versions of the package, and under Plug'n'Play. What that needs comes from the
// registry of npm, or its cache.
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { promisify } from 'node:util'
import { packageFolder, Server } from './servers.mjs'

const run = promisify(execFile)
const pnpm = 'pnpm@10.34.8'
const yarn = '@yarnpkg/cli-dist@4.18.1'
const quiet = ['--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--loglevel=error']

interface Manifest {
  name: string
  version: string
  engines: { node: string }
  peerDependencies: Record<string, string>
  peerDependenciesMeta: Record<string, object>
  devDependencies: Record<string, string>
}
const manifest = JSON.parse(readFileSync(path.join(packageFolder, 'package.json'), 'utf8')) as Manifest

let server: Server
const folder = mkdtempSync(path.join(tmpdir(), 'throttle-installed-'))
let now = '' // the packed file
let earlier = '' // the same as an older version
before(async () => {
  server = await Server.start()
  const pack = async (from: string, to: string) => {
    mkdirSync(to, { recursive: true })
    const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', to], { cwd: from })
    return path.join(to, stdout.trim())
  }
  now = await pack(packageFolder, path.join(folder, 'now'))
  await run('tar', ['-xzf', now, '-C', folder])
  writeFileSync(path.join(folder, 'package/package.json'), JSON.stringify({ ...manifest, version: '0.0.1', scripts: {} }))
  earlier = await pack(path.join(folder, 'package'), path.join(folder, 'before'))
})
after(async () => {
  await server.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** Makes a project. */
function project(name: string, files: Record<string, string | object>): string {
  const at = path.join(folder, name)
  for (const [file, content] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(at, file)), { recursive: true })
    writeFileSync(path.join(at, file), typeof content === 'string' ? content : JSON.stringify(content, null, 2))
  }
  return at
}

// Prints what becomes of the third request of two an hour in each framework, and of calls over each client.
const use = `
  const url = process.argv[2], run = process.argv[3] // whose keys are its own
  const told = {}
  const limits = rate(2, '1h', { unit: run })
  const get = async (server) => {
    if (!server.listening) await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
    const statuses = []
    for (let i = 0; i < 3; i++) statuses.push((await fetch('http://127.0.0.1:' + server.address().port + '/', { headers: { connection: 'close' } })).status)
    return statuses.join(' ')
  }
  const served = async (name, limiter) => {
    const handler = express()
    handler.use(forExpress({ limiter, limits, name: run + name }))
    handler.use(concurrency({ limiter, slots: 2, name: run + name + ':slots' }))
    handler.get('/', (_, res) => res.send('ok'))
    told['express ' + name] = await get(http.createServer(handler))
  }
  for (const [name, fromUrl] of [['redis', fromRedis], ['ioredis', fromIoredis]]) {
    const limiter = await fromUrl(url, { timeout: '30s' })
    await limiter.wait(run + name, limits, { timeout: '1s' })
    await (await limiter.lease(run + name + ':slots', { slots: 1, ttl: '1m' })).release()
    told[name] = (await limiter.limit(run + name, limits)).remaining
    await served(name, limiter)
    await limiter.close()
  }
  const limiter = await fromRedis(url, { timeout: '30s' })
  const stored = express()
  stored.use(expressRateLimit({ windowMs: 3_600_000, limit: 2, store: new ThrottleStore({ limiter, prefix: run + 'express:' }), validate: false }))
  stored.get('/', (_, res) => res.send('ok'))
  told['express-rate-limit'] = await get(http.createServer(stored))
  const koa = new Koa()
  koa.use(forKoa({ limiter, limits, name: run + 'koa' }))
  koa.use((ctx) => { ctx.body = 'ok' })
  told.koa = await get(http.createServer(koa.callback()))
  const hono = new Hono()
  hono.use('*', forHono({ limiter, limits, key: () => run + 'hono' }))
  hono.get('/', (c) => c.text('ok'))
  told.hono = [(await hono.request('/')).status, (await hono.request('/')).status, (await hono.request('/')).status].join(' ')
  for (const [name, plugin, options] of [['fastify', forFastify, { limiter, limits, name: run + 'fastify' }], ['@fastify/rate-limit', fastifyRateLimit, { max: 2, timeWindow: 3_600_000, store: throttleStore({ limiter, prefix: run + 'fastify:' }) }]]) {
    const app = fastify()
    await app.register(plugin, options)
    app.get('/', () => 'ok')
    await app.listen({ port: 0, host: '127.0.0.1' })
    told[name] = await get(app.server)
    await app.close()
  }
  class Cats { hello() { return 'ok' } }
  Get()(Cats.prototype, 'hello', Object.getOwnPropertyDescriptor(Cats.prototype, 'hello'))
  Controller()(Cats)
  class App {}
  Module({
    imports: [ThrottlerModule.forRoot({ throttlers: [{ ttl: 3_600_000, limit: 2 }], storage: new ThrottleStorage({ limiter, prefix: run + 'nest:' }) })],
    controllers: [Cats], providers: [{ provide: APP_GUARD, useClass: ThrottlerGuard }],
  })(App)
  const nest = await NestFactory.create(App, { logger: false })
  await nest.listen(0, '127.0.0.1')
  told['@nestjs/throttler'] = await get(nest.getHttpServer())
  await nest.close()
  const flexible = new RateLimiterThrottle({ limiter, points: 2, duration: 3600, keyPrefix: run + 'flexible' })
  for (let i = 0; i < 3; i++) told['rate-limiter-flexible'] = await flexible.consume('k').then(({ remainingPoints }) => remainingPoints, ({ msBeforeNext }) => msBeforeNext > 0)
  const partner = http.createServer((_, res) => res.end('ok'))
  await new Promise((resolve) => partner.listen(0, '127.0.0.1', resolve))
  const origin = 'http://127.0.0.1:' + partner.address().port
  const dispatcher = new Agent().compose(limitedUndici({ limiter, limits, key: run + 'undici' }))
  const client = axios.create()
  client.interceptors.request.use(limitedAxios({ limiter, limits, key: run + 'axios' }))
  for (const [name, ask] of [['undici', () => request(origin, { dispatcher }).then(({ body }) => body.text())], ['axios', () => client.get(origin)]]) {
    const codes = []
    for (let i = 0; i < 3; i++) codes.push(await ask().then(() => 'ok', ({ code }) => code))
    told[name] = codes.join(' ')
  }
  console.log(JSON.stringify(told))
  process.exit()`

const imports: [string, string][] = [
  ['http', 'node:http'], ['{ rate }', '@redis-throttle/client'], ['{ fromUrl as fromRedis }', '@redis-throttle/client/redis'], ['{ fromUrl as fromIoredis }', '@redis-throttle/client/ioredis'],
  ['{ rateLimit as forExpress, concurrency }', '@redis-throttle/client/express'], ['{ rateLimit as forKoa }', '@redis-throttle/client/koa'], ['{ rateLimit as forHono }', '@redis-throttle/client/hono'],
  ['{ rateLimit as forFastify }', '@redis-throttle/client/fastify'], ['{ ThrottleStore }', '@redis-throttle/client/express-rate-limit'], ['{ throttleStore }', '@redis-throttle/client/fastify-rate-limit'],
  ['{ ThrottleStorage }', '@redis-throttle/client/nestjs'], ['{ RateLimiterThrottle }', '@redis-throttle/client/rate-limiter-flexible'], ['{ limited as limitedUndici }', '@redis-throttle/client/undici'],
  ['{ limited as limitedAxios }', '@redis-throttle/client/axios'], ['express', 'express'], ['{ rateLimit as expressRateLimit }', 'express-rate-limit'], ['Koa', 'koa'], ['{ Hono }', 'hono'], ['fastify', 'fastify'],
  ['fastifyRateLimit', '@fastify/rate-limit'], ['{ Controller, Get, Module }', '@nestjs/common'], ['{ APP_GUARD, NestFactory }', '@nestjs/core'], ['{ ThrottlerGuard, ThrottlerModule }', '@nestjs/throttler'],
  ['axios', 'axios'], ['{ Agent, request }', 'undici'],
]
const esm = `import 'reflect-metadata'\n${imports.map(([names, from]) => `import ${names} from '${from}'`).join('\n')}\n${use}`
const defaults = new Set(['axios'])
const cjs = `require('reflect-metadata')\n${imports.map(([names, from]) => `const ${names.replaceAll(' as ', ': ')} = require('${from}')${defaults.has(from) ? '.default' : ''}`).join('\n')}\n;(async () => {${use}})()`

const third = '200 200 429'
const expected = {
  redis: 0, 'express redis': third, ioredis: 0, 'express ioredis': third, 'express-rate-limit': third, koa: third, hono: third, fastify: third,
  '@fastify/rate-limit': third, '@nestjs/throttler': third, 'rate-limiter-flexible': true, undici: 'ok ok LIMITED', axios: 'ok ok LIMITED',
}

/** The lowest version that bounds allow, such as 5.12.0 of >=5.12 <7. */
function lowest(bounds: string): string {
  const [major, minor = '0', patch = '0'] = /(\d+)(?:\.(\d+))?(?:\.(\d+))?/.exec(bounds)?.slice(1) ?? []
  return `${major}.${minor}.${patch}`
}

test('the lowest version of every peer, and of Node.js, decides in every adapter', async () => {
  const peers = Object.fromEntries(Object.entries(manifest.peerDependencies).map(([name, bounds]) => [name, lowest(bounds)]))
  const node = `node-${process.platform}-${process.arch}`
  const at = project('lowest', {
    'package.json': {
      private: true,
      dependencies: { ...peers, '@redis-throttle/client': `file:${now}`, '@nestjs/common': '10.0.0', '@nestjs/core': '10.0.0', '@nestjs/platform-express': '10.0.0', 'reflect-metadata': '0.1.13', rxjs: '7.8.1' },
    },
    'use.mjs': esm,
    'use.cjs': cjs,
  })
  await run('npm', ['install', ...quiet, '--strict-peer-deps'], { cwd: at })
  const old = project('node', { 'package.json': { private: true, dependencies: { [node]: lowest(manifest.engines.node) } } })
  await run('npm', ['install', ...quiet], { cwd: old })
  for (const program of [process.execPath, path.join(old, 'node_modules', node, 'bin/node')]) {
    for (const file of ['use.mjs', 'use.cjs']) {
      const { stdout } = await run(program, [file, server.url, `${program.startsWith(old) ? 'old' : 'new'}-${file.slice(-3)}-`], { cwd: at })
      assert.deepEqual(JSON.parse(stdout), expected, `${program} ${file}`)
    }
  }
})

test('peers have bounds, are optional, and the newest are what the other tests use', () => {
  for (const [peer, bounds] of Object.entries(manifest.peerDependencies)) {
    assert.match(bounds, /^>=\d[\d.]* <\d+$/, peer)
    assert.deepEqual(manifest.peerDependenciesMeta[peer], { optional: true })
    assert.ok(manifest.devDependencies[peer], `${peer}: the newest is tested`)
  }
})

// An application of one version of the package, over a limiter of another: what one throws and returns the other knows.
const mixed = `
  import { LimitedError, Limiter, OutageError, guard, rate, untilRetry } from '@redis-throttle/client'
  import { rateLimit } from '@redis-throttle/client/express'
  import * as other from 'shared'
  const limiter = await other.open(process.argv[2])
  const over = new Limiter(guard(limiter))
  const told = [(await over.limit('mixed', rate(1, '1h'))).limited, (await over.limit('mixed', other.rate(1, '1h'))).limited]
  try { await limiter.wait('mixed', rate(1, '1h'), { timeout: '1ms' }) } catch (error) { told.push(error instanceof LimitedError, error instanceof OutageError) }
  const answers = []
  for (let i = 0; i < 2; i++) {
    const res = { statusCode: 200, getHeader() {}, setHeader() {}, end() {} }
    await rateLimit({ limiter, limits: other.rate(1, '1h'), key: () => 'by middleware' })({}, res, () => {})
    answers.push(res.statusCode)
  }
  told.push(...answers, other.version === '0.0.1', Limiter !== other.Limiter)
  await limiter.close()
  console.log(told.join())`
const shared = `
  import { createRequire } from 'node:module'
  export { Limiter, rate } from '@redis-throttle/client'
  import { fromUrl } from '@redis-throttle/client/redis'
  export const version = createRequire(import.meta.url)('@redis-throttle/client/package.json').version
  export const open = (url) => fromUrl(url, { timeout: '30s' })`
const mixes = 'false,true,true,false,200,429,true,true\n'

/** Installs a package manager, and returns the path of its program. */
async function manager(name: string, dependency: string, program: string): Promise<string> {
  const [, id = '', version = ''] = /^(.+)@([^@]+)$/.exec(dependency) ?? []
  const at = project(name, { 'package.json': { private: true, dependencies: { [id]: version } } })
  await run('npm', ['install', ...quiet], { cwd: at })
  return path.join(at, 'node_modules', id, program)
}

test('a workspace of pnpm with two versions of the package', async () => {
  const program = await manager('pnpm', pnpm, 'bin/pnpm.cjs')
  const at = project('workspace', {
    'package.json': { private: true },
    'pnpm-workspace.yaml': 'packages: [app, shared]\n',
    'app/package.json': { name: 'app', private: true, dependencies: { '@redis-throttle/client': `file:${now}`, shared: 'workspace:*' } },
    'app/index.mjs': mixed,
    'shared/package.json': { name: 'shared', private: true, exports: './index.mjs', dependencies: { '@redis-throttle/client': `file:${earlier}`, redis: lowest(manifest.peerDependencies['redis'] ?? '') } },
    'shared/index.mjs': shared,
  })
  await run(process.execPath, [program, 'install', '--prefer-offline', '--ignore-scripts', '--strict-peer-dependencies', '--store-dir', path.join(folder, 'store')], { cwd: at, env: { ...process.env, CI: 'true' } })
  await server.do('FLUSHALL')
  assert.equal((await run(process.execPath, ['index.mjs', server.url], { cwd: path.join(at, 'app') })).stdout, mixes)
})

test("Yarn's Plug'n'Play, which gives a package only what it declares", async () => {
  const program = await manager('yarn', yarn, 'bin/yarn.js')
  const at = project('pnp', {
    'package.json': { private: true, dependencies: { '@redis-throttle/client': `file:${now}`, redis: lowest(manifest.peerDependencies['redis'] ?? ''), fastify: '5.0.0' } },
    '.yarnrc.yml': `nodeLinker: pnp\nenableTelemetry: false\nenableScripts: false\nenableImmutableInstalls: false\nenableGlobalCache: true\nglobalFolder: ${path.join(folder, 'yarn-cache')}\n`,
    'yarn.lock': '',
    'use.mjs': `
      import fastify from 'fastify'
      import { rate } from '@redis-throttle/client'
      import { rateLimit } from '@redis-throttle/client/fastify'
      import { fromUrl } from '@redis-throttle/client/redis'
      import { FakeLimiter } from '@redis-throttle/client/testing'
      const limiter = await fromUrl(process.argv[2], { timeout: '30s' })
      const app = fastify()
      await app.register(rateLimit, { limiter, limits: rate(1, '1h'), key: () => 'pnp' })
      app.get('/', () => 'ok')
      console.log((await app.inject('/')).statusCode, (await app.inject('/')).statusCode, new FakeLimiter().now.getTime() > 0)
      await import('@redis-throttle/client/ioredis').then(() => console.log('ioredis'), (error) => console.log(error.message.includes('ioredis')))
      await limiter.close()`,
    'use.cjs': `
      const { rate } = require('@redis-throttle/client')
      const { fromUrl } = require('@redis-throttle/client/redis')
      fromUrl(process.argv[2], { timeout: '30s' }).then(async (limiter) => { console.log((await limiter.limit('pnp cjs', rate(1, '1h'))).limited); await limiter.close() })`,
  })
  const env = { ...process.env, YARN_NPM_REGISTRY_SERVER: await registry() }
  await run(process.execPath, [program, 'install'], { cwd: at, env })
  const inside = async (file: string) => (await run(process.execPath, [program, 'node', file, server.url], { cwd: at, env })).stdout
  await server.do('FLUSHALL')
  assert.equal(await inside('use.mjs'), '200 429 true\ntrue\n')
  assert.equal(await inside('use.cjs'), 'false\n')
})

/** The registry that npm uses here. */
async function registry(): Promise<string> {
  return (await run('npm', ['config', 'get', 'registry'])).stdout.trim()
}

