// The help for tests: a limiter with its own clock and faults, and a server of throttle-dev. The examples of
// docs/testing.md are run, too.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, test } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { fixed, LeaseLostError, LimitedError, Limiter, MistakeError, OutageError, OverloadError, rate, slots, window } from '@redis-throttle/client'
import { FakeLimiter, ThrottleDev } from '@redis-throttle/client/testing'
import { packageFolder, root, until } from './servers.mjs'

const perHour = rate(2, '1h')

describe('a fake limiter', () => {
  test('has a clock that stands still', async () => {
    const limiter = new FakeLimiter()
    assert.equal(limiter.now.toISOString(), '2000-01-01T00:00:00.000Z')
    const month = fixed(1, '1mo', { zone: 'Europe/Berlin' })
    limiter.setTime(new Date('2026-01-31T22:59:59Z'))
    assert.equal((await limiter.limit('k', month)).allowed, true)
    const denied = await limiter.limit('k', month)
    assert.equal(denied.retryAfterMs, 1000)
    limiter.advance('1s')
    assert.equal((await limiter.limit('k', month)).allowed, true, 'midnight in Berlin')
    assert.throws(() => limiter.setTime(new Date(-1)), /time must be from 1970 to 2261/)
    assert.throws(() => limiter.advance(5 as never), /duration: 5 needs a unit/)
  })

  test('tells what it was asked, in words', async () => {
    const limiter = new FakeLimiter()
    await limiter.limit('user:42', perHour, { cost: 2 })
    await assert.rejects(limiter.limit('user:42', perHour, { cost: -1 }), RangeError)
    const [asked, ...none] = limiter.asked
    assert.deepEqual(none, [])
    assert.equal(asked?.words.join(' '), 'CL.LIMIT user:42 RATE 2/1h COST 2 COMPACT')
    assert.deepEqual([asked?.done, asked?.result?.remaining, asked?.at], [true, 0, limiter.now])
  })

  test('fails as it is told', async () => {
    const limiter = new FakeLimiter()
    for (const [fault, kind] of [[undefined, OutageError], ['outage', OutageError], ['overload', OverloadError], ['mistake', MistakeError],
      [new Error('ERR wrong'), MistakeError]] as const) {
      limiter.fail(fault)
      await assert.rejects(limiter.limit('k', perHour), kind)
    }
    limiter.heal()
    limiter.next(1).fail()
    await assert.rejects(limiter.limit('k', perHour), OutageError)
    assert.equal((await limiter.limit('k', perHour)).remaining, 1, 'nothing was charged')
    limiter.next(1).loseReplies()
    await assert.rejects(limiter.limit('k', perHour), OutageError)
    assert.equal((await limiter.limit('k', perHour)).limited, true, 'it was charged all the same')
  })

  test('hangs until it is healed, and decides then also for callers that have left', async () => {
    const limiter = new FakeLimiter()
    limiter.hang()
    const answer = limiter.limit('k', perHour)
    const leaving = new AbortController()
    const left = limiter.limit('k', perHour, { signal: leaving.signal })
    assert.equal(limiter.blocked, 2)
    leaving.abort(new Error('enough'))
    await assert.rejects(left, /enough/)
    limiter.heal()
    assert.equal((await answer).remaining, 1)
    assert.equal((await limiter.peek('k', perHour)).remaining, 0)
  })

  test('lets in callers that wait, in order, as time passes', async () => {
    const limiter = new FakeLimiter()
    const mail = window(1, '1m')
    await limiter.wait('mail', mail)
    const came: string[] = []
    const wait = (name: string, priority: number) => limiter.wait('mail', mail, { priority }).then(({ waitMs }) => came.push(`${name} ${waitMs}`))
    const all = [wait('second', 0), wait('third', 0), wait('first', 1)]
    const late = limiter.wait('mail', mail, { timeout: '90s' }).catch((error: unknown) => error)
    assert.equal(limiter.blocked, 4)
    limiter.advance('3m')
    await Promise.all(all)
    assert.deepEqual(came, ['first 60000', 'second 120000', 'third 180000'])
    assert.ok((await late) instanceof LimitedError)
    assert.equal(limiter.blocked, 0)
  })

  test('reserves rates for callers that wait, and returns units of those that leave', async () => {
    const limiter = new FakeLimiter()
    const leaving = new AbortController()
    await limiter.wait('k', rate(1, '1s'))
    const left = limiter.wait('k', rate(1, '1s'), { signal: leaving.signal })
    const next = limiter.wait('k', rate(1, '1s'))
    leaving.abort(new Error('enough'))
    await assert.rejects(left, /enough/)
    limiter.advance('2s')
    assert.equal((await next).waitMs, 2000)
    await assert.rejects(limiter.wait('k', rate(1, '1s'), { cost: 2 }), LimitedError)
  })

  test('tells a caller in line of a key of another kind', async () => {
    const limiter = new FakeLimiter()
    const lease = { verb: 'lease', keys: [{ name: 'k', slots: 1, ttl: '1m' }] } as const
    await limiter.decide({ ...lease, id: 'a' })
    await assert.rejects(limiter.limit('k', perHour), MistakeError)
    const line = limiter.decide({ ...lease, id: 'b', maxWait: '1h' })
    const wrong = assert.rejects(limiter.decide({ verb: 'wait', keys: [{ name: 'k', limits: [window(1, '1s')] }], maxWait: '1h' }), MistakeError)
    limiter.advance('1m')
    assert.equal((await line).allowed, true)
    await wrong
  })

  test('grants leases and admissions', async () => {
    const limiter = new FakeLimiter()
    const first = await limiter.lease('jobs', { slots: 1, ttl: '1h' })
    await assert.rejects(limiter.lease('jobs', { slots: 1, ttl: '1h' }), LimitedError)
    const second = limiter.lease('jobs', { slots: 1, ttl: '1h', timeout: 'forever' })
    await first.release()
    await (await second).release()
    await assert.rejects(limiter.withLease('jobs', { slots: 1, ttl: '300ms' }, async (lease) => {
      limiter.advance('1s')
      while (!lease.signal.aborted) await sleep(5)
    }), LeaseLostError)
    const admission = await limiter.admit({ tokens: rate(100, '1h', { take: 10 }), running: slots(1, '1m') })
    assert.equal(await admission.settle({ tokens: 3 }), true)
    assert.equal((await limiter.peek('tokens', rate(100, '1h'))).remaining, 97)
  })
})

const program = path.join(root, 'build/throttle-dev')

describe('throttle-dev', () => {
  test('is started on a free port, has its time moved, and ends with its block', async () => {
    let url
    {
      await using server = await ThrottleDev.start({ program })
      url = server.url
      const client = new Redis(server.port)
      const limiter = new Limiter(client, { timeout: '10s' })
      await server.setTime(new Date('2026-01-31T12:00:00Z'))
      const month = fixed(1, '1mo')
      assert.equal((await limiter.limit('acme', month)).allowed, true)
      assert.equal((await limiter.limit('acme', month)).limited, true)
      assert.equal((await server.advance('1mo')).toISOString(), '2026-02-28T12:00:00.000Z')
      assert.equal((await limiter.limit('acme', month)).allowed, true)
      await server.flush()
      assert.equal((await limiter.peek('acme', month)).remaining, 1)
      await assert.rejects(server.command('CL.DEV.TIME', 'yesterday'), Error)
      client.disconnect()
    }
    const gone = new Redis(url, { lazyConnect: true, retryStrategy: null })
    gone.on('error', () => {})
    await assert.rejects(gone.connect())
  })

  test('two run at a time, and one that is missing is an error that says what to do', async () => {
    await using one = await ThrottleDev.start({ program })
    await using two = await ThrottleDev.start({ program })
    assert.notEqual(one.port, two.port)
    await assert.rejects(ThrottleDev.start({ program: 'no-such-throttle-dev' }), /no-such-throttle-dev cannot be started.*@redis-throttle\/dev.*go build .\/cmd\/throttle-dev/)
  })

  test('comes with the package @redis-throttle/dev of the project that is tested', () => {
    const project = mkdtempSync(path.join(tmpdir(), 'throttle-project-'))
    try {
      cpSync(path.join(root, 'packaging/dev/npm'), path.join(project, 'node_modules/@redis-throttle/dev'), { recursive: true })
      const env = { ...process.env }
      delete env['THROTTLE_DEV']
      const start = (extra: Record<string, string> = {}) => {
        const script = `const { ThrottleDev } = require(${JSON.stringify(path.join(packageFolder, 'dist/testing/index.js'))})
          ThrottleDev.start().then(async (server) => { console.log(await server.command('PING')); await server.stop() }, (error) => { console.log(error.message) })`
        return execFileSync(process.execPath, ['-e', script], { cwd: project, encoding: 'utf8', env: { ...env, PATH: project, ...extra } })
      }
      assert.match(start(), /^@redis-throttle\/dev has no package @redis-throttle\/dev-/)
      const ours = path.join(project, `node_modules/@redis-throttle/dev-${process.platform}-${process.arch}`)
      mkdirSync(path.join(ours, 'bin'), { recursive: true })
      writeFileSync(path.join(ours, 'package.json'), '{}')
      symlinkSync(program, path.join(ours, 'bin/throttle-dev'))
      assert.equal(start(), 'PONG\n')
      assert.match(start({ THROTTLE_DEV: 'another-one' }), /^another-one cannot be started/)
    } finally {
      rmSync(project, { recursive: true })
    }
  })

  test('that ends is an error of the next command', async () => {
    const server = await ThrottleDev.start({ program })
    await server.command('SHUTDOWN').catch(() => {})
    await until(() => server.command('PING').then(() => false, () => true), 'it has ended')
    await server.stop()
  })
})

const examples = [
  ...[...readFileSync(path.join(root, 'docs/testing.md'), 'utf8').matchAll(/```js\n(.*?)```/gs)].map(([, code = '']) => code),
  ...['testing-vitest.mjs', 'testing-jest.cjs'].map((file) => readFileSync(path.join(packageFolder, 'examples', file), 'utf8')),
]
const env = { ...process.env, NODE_TEST_CONTEXT: undefined, THROTTLE_DEV: program }

/** Runs an example as a file of tests of Node.js's own runner. */
function withNode(code: string, i: number): void {
  const file = path.join(packageFolder, `build/testing-example-${i + 1}.test.mjs`)
  writeFileSync(file, code)
  const printed = execFileSync(process.execPath, ['--test', '--test-reporter=tap', file], { encoding: 'utf8', env })
  assert.match(printed, /^# pass [1-9]/m)
  assert.match(printed, /^# fail 0$/m)
}

/** Runs an example in a project that has the packed file and a test runner, from the registry of npm or its cache. */
function installed(runner: string, command: string[], name: string): (code: string) => void {
  return (code) => {
    const project = mkdtempSync(path.join(tmpdir(), `throttle-${name}-`))
    const npm = (...words: string[]) => execFileSync('npm', words, { cwd: project, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })
    try {
      writeFileSync(path.join(project, 'package.json'), '{ "private": true }')
      const packed = npm('pack', packageFolder, '--ignore-scripts', '--silent').trim()
      npm('install', '--no-audit', '--no-fund', '--ignore-scripts', '--prefer-offline', '--loglevel=error', '-E', `./${packed}`, 'redis@6', 'ioredis@6', runner)
      writeFileSync(path.join(project, code.includes('require(') ? 'mail.test.js' : 'mail.test.mjs'), code)
      execFileSync(process.execPath, command, { cwd: project, stdio: ['ignore', 'pipe', 'pipe'], env: { ...env, CI: 'true' } })
    } finally {
      rmSync(project, { recursive: true })
    }
  }
}
const withVitest = installed('vitest@4.1.12', ['node_modules/vitest/vitest.mjs', 'run'], 'vitest')
const withJest = installed('jest@30.5.2', ['node_modules/jest/bin/jest.js'], 'jest')

for (const [i, code] of examples.entries()) {
  const run = code.includes("from 'vitest'") ? withVitest : code.includes('require(') ? withJest : withNode
  test(`example ${i + 1} of docs/testing.md runs`, () => {
    run(code, i)
  })
}

test('there is an example for each test runner', () => {
  for (const runner of ["from 'node:test'", "from 'vitest'", 'require(']) assert.ok(examples.some((code) => code.includes(runner)), runner)
})
