// The handler of README's chapter on Next.js, built and served by Next.js, which THROTTLE_NEXT brings: a folder in
// whose node_modules next, react and react-dom are.
import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import { promisify } from 'node:util'
import { freePort, packageFolder, Server, until } from './servers.mjs'

const run = promisify(execFile)
const next = process.env['THROTTLE_NEXT']

/**
 * The example, with a limiter on Redis in place of the one that is made up, and without the calls that show what it
 * does.
 */
function handler(): string {
  const readme = readFileSync(path.join(packageFolder, 'README.md'), 'utf8')
  const example = /\*\*Next\.js\*\*[^]*?```js\n([^]*?)```/.exec(readme)?.[1] ?? ''
  const [fake, made] = ["import { FakeLimiter } from '@redis-throttle/client/testing'", /new FakeLimiter\(\) .*: (await fromUrl\(.*\))$/m]
  assert.ok(example.includes(fake) && made.test(example) && example.includes('\nconst ask ='), 'the example is another one')
  return example
    .replace(fake, "import { fromUrl } from '@redis-throttle/client/ioredis'")
    .replace(made, '$1')
    .replace(/\nconst ask =[^]*/, '')
}

test('a route handler of Next.js keeps the limit', { skip: next === undefined && 'THROTTLE_NEXT is not set' }, async (t) => {
  await using server = await Server.start()
  const app = mkdtempSync(path.join(String(next), 'throttle-next-')) // below the folder, so that it finds next there
  t.after(() => { rmSync(app, { recursive: true, force: true }) })
  const write = (file: string, text: string) => {
    mkdirSync(path.dirname(path.join(app, file)), { recursive: true })
    writeFileSync(path.join(app, file), text)
  }
  const { stdout } = await run('npm', ['pack', '--ignore-scripts', '--silent', '--pack-destination', app], { cwd: packageFolder })
  mkdirSync(path.join(app, 'node_modules/@redis-throttle/client'), { recursive: true })
  await run('tar', ['-xzf', path.join(app, stdout.trim()), '--strip-components=1', '-C', path.join(app, 'node_modules/@redis-throttle/client')])
  const { packages } = JSON.parse(readFileSync(path.join(packageFolder, 'package-lock.json'), 'utf8')) as { packages: Record<string, { dependencies?: object }> }
  const bring = (name: string) => {
    const place = `node_modules/${name}`
    cpSync(path.join(packageFolder, place), path.join(app, place), { recursive: true, dereference: true })
    for (const needed of Object.keys(packages[place]?.dependencies ?? {})) bring(needed)
  }
  bring('ioredis')
  write('package.json', '{ "name": "app", "type": "module" }')
  write('next.config.js', `export default { turbopack: { root: ${JSON.stringify(next)} } }`)
  write('app/layout.jsx', 'export default function Layout({ children }) { return <html><body>{children}</body></html> }')
  write('app/orders/route.js', handler())

  const env = { ...process.env, REDIS_URL: `redis://127.0.0.1:${server.port}`, NEXT_TELEMETRY_DISABLED: '1' }
  const program = path.join(String(next), 'node_modules/next/dist/bin/next')
  await run(process.execPath, [program, 'build'], { cwd: app, env })
  const port = await freePort()
  const site = spawn(process.execPath, [program, 'start', '-H', '127.0.0.1', '-p', String(port)], { cwd: app, env, stdio: 'ignore' })
  t.after(async () => {
    const ended = once(site, 'exit')
    site.kill('SIGKILL')
    await ended
  })
  const ask = (address: string) => fetch(`http://127.0.0.1:${port}/orders`, { method: 'POST', headers: { 'x-forwarded-for': address } })
  await until(() => ask('192.0.2.1').then(() => true, () => false), 'Next.js serves')

  const answers = await Promise.all(Array.from({ length: 300 }, () => ask('203.0.113.7')))
  assert.equal(answers.filter(({ status }) => status === 200).length, 2)
  const denied = answers.filter(({ status }) => status === 429)
  assert.equal(denied.length, 298)
  assert.ok(Number(denied[0]?.headers.get('retry-after')) > 0)
  assert.match(String(denied[0]?.headers.get('content-type')), /^application\/problem\+json/)
  assert.equal((await ask('203.0.113.8')).status, 200)
})
