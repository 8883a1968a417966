// Servers without the module: calls go as functions of the library, or as a script, and are charged once.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, beforeEach, describe, test } from 'node:test'
import { setImmediate } from 'node:timers/promises'
import { inspect } from 'node:util'
import { fixed, isOutage, Limiter, type LimiterOptions, MistakeError, OutageError, rate, slots, window } from '@redis-throttle/client'
import { cluster, type Opened, single } from './clients.mjs'
import { Cluster, packageFolder, root, Server, until } from './servers.mjs'

const { isMissing, rightOf } = (await import(path.join(packageFolder, 'dist/esm/clients/missing.js'))) as Record<'isMissing' | 'rightOf', (error: unknown) => unknown>

const library = readFileSync(path.join(root, 'functions/throttle.lua'), 'utf8')
const carried = Number(/\nlocal VERSION = (\d+)/.exec(library)?.[1])
const spelled = (version: number) => [Math.floor(version / 10_000), Math.floor(version / 100) % 100, version % 100].join('.')
const ofVersion = (version: number, name = 'throttle') => library.replace(/VERSION = \d+/, `VERSION = ${version}`).replace('name=throttle', `name=${name}`)
const many = { timeout: '5s' } as const // on a busy machine

class Lines {
  readonly lines: string[] = []
  info = (line: string) => { this.lines.push(`info ${line}`) }
  warn = (line: string) => { this.lines.push(`warn ${line}`) }
  error = (line: string) => { this.lines.push(`error ${line}`) }
}

test('the package carries the library of this repository', async () => {
  const { text } = (await import(path.join(packageFolder, 'dist/esm/functions/library.js'))) as { text: string }
  assert.equal(text, library)
})

test('options are checked', () => {
  const client = { sendCommand() {}, withTypeMapping() {}, destroy() {}, duplicate() {} }
  assert.throws(() => new Limiter(client, { commands: 'lua' as 'auto' }), /^TypeError: commands must be auto, module or functions, not 'lua'$/)
  assert.throws(() => new Limiter(client, { poll: 100 as unknown as '100ms' }), /poll: 100 needs a unit/)
})

interface Row {
  rule: string
  module?: boolean
  library?: 'N-1' | 'N' | 'N+1'
  by_hand?: boolean
  theirs?: string
  acl?: string[]
  commands: 'auto' | 'module' | 'functions'
  inspect?: string
  door: 'module' | 'library' | 'script' | 'none'
  loaded?: 'N-1' | 'N' | 'N+1'
  log?: string
  says?: string
  then?: string[]
}

describe('the table of all languages: spec/clients/doors.json', () => {
  const { cases } = JSON.parse(readFileSync(path.join(root, 'spec/clients/doors.json'), 'utf8')) as { cases: Row[] }
  const versionOf = (word: string) => carried + (word === 'N-1' ? -1 : word === 'N+1' ? 1 : 0)
  const limit = fixed(5, '365d')
  for (const row of cases) {
    test(row.rule, async () => {
      const server = await (row.module ? Server.start() : Server.withoutModule())
      const { client, close } = await (single['ioredis 6'] as (port: number) => Promise<Opened>)(server.port)
      try {
        const version = row.library && versionOf(row.library)
        if (version !== undefined) await server.do('FUNCTION', 'LOAD', ofVersion(version, row.by_hand ? 'throttle' : `throttle_${version}`))
        if (row.theirs) await server.do('FUNCTION', 'LOAD', `#!lua name=theirs\n${row.theirs}`)
        if (row.acl) await server.do('ACL', 'SETUSER', 'default', '+@all', '~*', ...row.acl)
        const log = new Lines()
        const limiter = new Limiter(client, { ...many, logger: log, commands: row.commands })
        const asked = row.inspect
        if (asked) await assert.rejects(limiter.inspect('k'), (error) => error instanceof MistakeError && error.message.includes(asked))
        if (row.door === 'none') {
          await assert.rejects(limiter.limit('k', limit), (error) => error instanceof MistakeError && error.message.includes(row.says ?? ''))
          return
        }
        for (let taken = 1; taken <= 2; taken++) assert.equal((await limiter.limit('k', limit)).remaining, 5 - taken)
        const command = { module: 'cl.limit', library: 'fcall', script: 'evalsha' }[row.door]
        assert.match(String(await server.do('INFO', 'commandstats')), new RegExp(`cmdstat_${command.replace('.', '\\.')}:`, 'i'))
        const expected = row.log?.replace(/\bN(-1)?(\+1)?(?=[:, ])/g, (word) => spelled(versionOf(word)))
        assert.equal(log.lines.length, expected === undefined ? 0 : 1)
        if (expected !== undefined) assert.ok(log.lines[0]?.includes(expected), `${log.lines[0]} has ${expected}`)
        await server.do('ACL', 'SETUSER', 'default', '+@all')
        if (row.loaded) assert.equal(await server.do('FCALL_RO', 'cl_version', 0), versionOf(row.loaded))
        else assert.doesNotMatch(inspect(await server.do('FUNCTION', 'LIST')), /throttle/)
        if (row.acl) await server.do('ACL', 'SETUSER', 'default', ...row.acl)
        let taken = 2
        for (const moment of row.then ?? []) {
          await server.do('ACL', 'SETUSER', 'default', '+@all')
          await server.do(...(moment.split(' ') as [string, string]))
          if (row.acl) await server.do('ACL', 'SETUSER', 'default', ...row.acl)
          taken++
          assert.equal((await limiter.limit('k', limit)).remaining, 5 - taken, moment)
        }
      } finally {
        await close()
        await server.stop()
      }
    })
  }
})

for (const [name, open] of Object.entries(single)) {
  describe(name, () => {
    let server: Server
    let opened: Opened
    let log: Lines
    before(async () => {
      server = await Server.withoutModule('--enable-module-command', 'yes')
      opened = await open(server.port)
    })
    after(async () => {
      await opened.close()
      await server.stop()
    })
    beforeEach(async () => {
      await server.do('FLUSHALL')
      await server.do('FUNCTION', 'FLUSH')
      await server.do('SCRIPT', 'FLUSH')
      await server.do('ACL', 'SETUSER', 'default', 'on', 'nopass', '~*', '+@all')
      log = new Lines()
    })
    const limiterOf = (options: LimiterOptions = {}) => new Limiter(opened.client, { ...many, logger: log, ...options })
    const left = async (limiter: Limiter) => (await limiter.peek('k', window(100, '1h'))).remaining
    const take = async (limiter: Limiter) => { assert.equal((await limiter.limit('k', window(100, '1h'))).by, 'server') }

    test('the library is loaded by the first call, and every act goes by it', async () => {
      const limiter = limiterOf({ poll: '20ms' })
      const limit = [rate(10, '1h'), fixed(5, '1d')]
      assert.deepEqual(await limiter.limit('k', limit, { cost: 2, each: true }).then(({ remaining, each }) => [remaining, each.length]), [3, 2])
      assert.deepEqual(log.lines.map((line) => line.replace(/(localhost|127\.0\.0\.1):\d+|the server/, 'SERVER')), [`info redis-throttle: SERVER has no module: the function library ${spelled(carried)} was loaded, and calls are sent as functions`])
      assert.deepEqual(await limiter.limitAll({ a: limit, b: rate(1, '1h') }).then(({ limited, remaining, key }) => [limited, remaining, key]), [false, 0, 'b'])
      assert.equal((await limiter.limitAny([['a', limit], ['b', rate(1, '1h')]])).key, 'a')
      assert.equal((await limiter.peek('k', limit, { cost: 0 })).remaining, 3)
      assert.equal(await limiter.refund('k', limit, { cost: 2 }), 2)
      await limiter.ban('banned', '1h')
      assert.equal((await limiter.limit('banned', limit)).banned, true)
      assert.equal(await limiter.reset('banned'), true)
      const lease = await limiter.lease('jobs', { slots: 1, ttl: '1m' })
      await assert.rejects(limiter.lease('jobs', { slots: 1, ttl: '1m', timeout: '30ms' }), { code: 'LIMITED' })
      await lease.release()
      await limiter.withAdmission({ '{7}:tokens': rate(100, '1h', { take: 20 }), '{7}:running': slots(1, '1m') }, {}, (admission) => admission.settle({ '{7}:tokens': 5 }))
      assert.equal((await limiter.peek('{7}:tokens', rate(100, '1h'), { cost: 0 })).remaining, 95)
      assert.equal((await limiter.limit('berlin', fixed(5, '1mo', { zone: 'Europe/Berlin' }))).remaining, 4)
      await assert.rejects(limiter.limit('k', fixed(5, '1d', { zone: 'Europe/Berlim' })), MistakeError)
    })

    test('a library that is there is used, also a newer one; an older one is replaced', async () => {
      await server.do('FUNCTION', 'LOAD', ofVersion(99_999))
      await take(limiterOf())
      assert.match(log.lines.join(), /has no module, and the function library 9\.99\.99: calls are sent as functions$/)
      for (const older of [ofVersion(carried - 1), ofVersion(carried - 1, `throttle_${carried - 1}`)]) {
        await server.do('FUNCTION', 'FLUSH')
        await server.do('FUNCTION', 'LOAD', older)
        log.lines.length = 0
        await Promise.all(Array.from({ length: 5 }, () => take(limiterOf())))
        assert.match(log.lines.join(), new RegExp(`the function library ${spelled(carried)} was loaded in place of ${spelled(carried - 1)}, and calls`))
        assert.equal(await server.do('FCALL', 'cl_version', 0), carried)
      }
      assert.equal(await left(limiterOf()), 89)
    })

    test('a server that is sent scripts is asked again later', async (t) => {
      const now = performance.now.bind(performance)
      let aheadMs = 0
      t.mock.method(performance, 'now', () => now() + aheadMs)
      await server.do('ACL', 'SETUSER', 'default', '-function|load')
      const limiter = limiterOf()
      await take(limiter)
      await server.do('ACL', 'SETUSER', 'default', '+function|load')
      await take(limiter)
      assert.deepEqual(await server.do('FUNCTION', 'LIST'), [])
      aheadMs = 6 * 60_000
      await take(limiter)
      assert.equal(await server.do('FCALL', 'cl_version', 0), carried)
      assert.equal(await left(limiter), 97)
    })

    test('a library of somebody else is not deleted', async () => {
      await server.do('FUNCTION', 'LOAD', "#!lua name=throttle\nredis.register_function('theirs', function() return 'theirs' end)")
      await server.do('FUNCTION', 'LOAD', ofVersion(carried - 1, `throttle_${carried - 1}`))
      await take(limiterOf())
      assert.equal(await server.do('FCALL', 'cl_version', 0), carried)
      assert.equal(await server.do('FCALL', 'theirs', 0), 'theirs')
    })

    test('many limiters at once load it once, and every call is charged once', async () => {
      const limiters = Array.from({ length: 4 }, () => limiterOf())
      await Promise.all(Array.from({ length: 80 }, (_, i) => take(limiters[i % 4] as Limiter)))
      assert.equal(await left(limiterOf()), 20)
      assert.equal(log.lines.filter((line) => line.includes('was loaded')).length, 1)
    })

    test('a library, a script or a module that comes and goes is noticed within the call', async () => {
      const limiter = limiterOf()
      await take(limiter)
      await server.do('FUNCTION', 'FLUSH')
      await take(limiter)
      assert.equal(await left(limiter), 98)
      await server.do('FUNCTION', 'FLUSH')
      await server.do('MODULE', 'LOAD', process.env['THROTTLE_SO'] ?? path.join(root, 'build/throttle.so'))
      await take(limiter)
      await take(limiter)
      assert.equal(await left(limiter), 96)
      assert.match(log.lines.at(-1) ?? '', /has the module: calls are sent as its commands$/)
      await server.do('MODULE', 'UNLOAD', 'throttle') // which closes the connection: its last command was the module's
      await until(() => take(limiter).then(() => true, () => false), 'it is connected again')
      assert.equal(await left(limiter), 95)
    })

    test('where functions are refused it is a script, also after SCRIPT FLUSH', async () => {
      await server.do('ACL', 'SETUSER', 'default', '-function|load')
      const limiter = limiterOf()
      for (let i = 0; i < 3; i++) await take(limiter)
      assert.match(log.lines.join(), /^warn redis-throttle: .* has no module and refuses functions \(NOPERM .*\): calls are sent as scripts, which take longer$/)
      await server.do('SCRIPT', 'FLUSH')
      await take(limiter)
      assert.equal(await left(limiter), 96)
      assert.equal((await limiter.limitAll({ a: rate(2, '1h'), b: rate(1, '1h') })).remaining, 0)
      await server.do('ACL', 'SETUSER', 'default', '-evalsha')
      await assert.rejects(limiter.limit('k', window(100, '1h')),
        (error) => error instanceof MistakeError && /the server has no throttle\.so, and refuses functions and scripts: NOPERM/.test(error.message))
      await server.do('ACL', 'SETUSER', 'default', '+evalsha')
      await take(limiter)
    })

    test('commands fixes the choice', async () => {
      await assert.rejects(limiterOf({ commands: 'module' }).limit('k', rate(1, '1s')), /unknown command/)
      await take(limiterOf({ commands: 'functions' }))
      assert.equal(await left(limiterOf({ commands: 'functions' })), 99)
      assert.deepEqual(log.lines.map((line) => line.replace(/(localhost|127\.0\.0\.1):\d+|the server/, 'SERVER')), [
        `info redis-throttle: SERVER: the function library ${spelled(carried)} was loaded, and calls are sent as functions`,
        `info redis-throttle: SERVER has the function library ${spelled(carried)}: calls are sent as functions`,
      ])
    })

    test('a server that became a replica is an outage, also for a script', async () => {
      await server.do('ACL', 'SETUSER', 'default', '-function|load')
      const limiter = limiterOf()
      await take(limiter)
      await server.do('REPLICAOF', '127.0.0.1', '1')
      await assert.rejects(take(limiter), (error) => error instanceof OutageError && error.message.includes('READONLY'))
      await assert.rejects(take(limiter), OutageError) // by now the client may connect anew
      await server.do('REPLICAOF', 'NO', 'ONE')
      await until(() => take(limiter).then(() => true, () => false), 'it is a master again')
    })

    test('a caller that waits needs poll', async () => {
      for (const limiter of [limiterOf(), limiterOf()]) {
        await assert.rejects(limiter.wait('k', window(1, '1h')), (error) => error instanceof MistakeError && error.message === 'CL.WAIT needs the module, or the option poll: a function cannot make its caller wait')
        await take(limiter) // which knows by now that there is no module
        await assert.rejects(limiter.wait('k', window(1, '1h')), /option poll/)
        await assert.rejects(limiterOf({ poll: '1s' }).wait('k', window(1, '1h'), { priority: 1 }), /group, weight and priority need the module/)
      }
    })

    test('polls until there is room, or it is certain that there is none in time', async () => {
      const limiter = limiterOf({ poll: '10ms' })
      await limiter.wait('w', window(1, '1h'))
      const asked = async () => {
        const calls = String(await server.do('INFO', 'commandstats')).matchAll(/^cmdstat_(?:fcall|evalsha):calls=(\d+)/gm)
        return [...calls].reduce((sum, [, count]) => sum + Number(count), 0)
      }
      const before = await asked()
      const waiting = limiter.wait('w', window(1, '1h'))
      await until(async () => (await asked()) > before + 1, 'it asks again')
      await limiter.refund('w', window(1, '1h'))
      assert.ok((await waiting).waitMs > 0)
      await limiter.wait('hour', window(1, '1h'))
      await assert.rejects(limiter.wait('hour', window(1, '1h'), { timeout: '5ms' }), { code: 'LIMITED' })
      await assert.rejects(limiter.wait('hour', window(1, '1h'), { cost: 2 }), { code: 'LIMITED' })
      await limiter.ban('banned', '2h')
      for (const limit of [rate(5, '1s'), window(5, '1s')]) await assert.rejects(limiter.wait('banned', limit, { timeout: '1h' }),
        { code: 'LIMITED' }) // at once: the ban lasts longer
      const held = await limiter.lease('jobs', { slots: 1, ttl: '1m' })
      const next = limiter.lease('jobs', { slots: 1, ttl: '1m', timeout: 'forever' })
      await setImmediate()
      await held.release()
      await (await next).release()
    })

    test('a rate is reserved on arrival, and returned by a caller that leaves', async () => {
      const limiter = limiterOf({ poll: '10ms' })
      const limit = rate(20, '1s', { burst: 1 })
      await Promise.all([1, 2, 3].map(() => limiter.wait('r', limit, { timeout: '10s' })))
      const slow = rate(1, '1h')
      await limiter.wait('slow', slow)
      await assert.rejects(limiter.wait('slow', slow, { timeout: '10m' }), { code: 'LIMITED' })
      const leaving = new AbortController()
      const waiting = limiter.wait('slow', slow, { signal: leaving.signal })
      const reserved = async () => (await limiter.peek('slow', slow)).retryAfterMs ?? 0
      await until(async () => (await reserved()) > 3_600_000, 'it is reserved')
      leaving.abort(new Error('left'))
      await assert.rejects(waiting, /left/)
      await until(async () => (await reserved()) <= 3_600_000, 'it is returned')
    })
  })
}

interface Answer {
  from: string
  sent: string
  reply: string
  leads_to: string
  lacks?: string
}

test('the table of all languages: spec/clients/missing.json', () => {
  const { cases } = JSON.parse(readFileSync(path.join(root, 'spec/clients/missing.json'), 'utf8')) as { cases: Answer[] }
  for (const { from, sent, reply, leads_to, lacks } of cases) {
    const error = new Error(reply)
    const there = ['mistake', 'outage', 'load', 'again', 'EVAL'].includes(leads_to) || reply.startsWith('READONLY')
    const told = `${from}: ${sent}: ${reply}`
    if (!/wrong number of arguments/.test(reply)) assert.equal(isMissing(error), !there, told)
    if (reply.startsWith('NOPERM')) assert.equal(rightOf(error), lacks, told)
    else if (lacks) assert.match(reply, new RegExp(lacks), 'the error names it')
    assert.equal(isOutage(error), leads_to === 'outage' || reply.startsWith('READONLY'), told)
  }
})

/** Starts a server that lacks commands, as older servers and managed services do. */
const lacking = (...commands: string[]) => Server.withoutModule(...commands.flatMap((command) => ['--rename-command', command, '']))

describe('servers that lack what others have', () => {
  const open = single['ioredis 6'] as (port: number) => Promise<Opened>
  const lent = async (server: Server, act: (limiter: Limiter, log: Lines) => Promise<void>, options: LimiterOptions = {}) => {
    const { client, close } = await open(server.port)
    const log = new Lines()
    try {
      await act(new Limiter(client, { ...many, logger: log, ...options }), log)
    } finally {
      await close()
      await server.stop()
    }
  }

  test('a server older than Redis 7.0 is refused before anything is charged', async () => {
    const server = await lacking('FCALL', 'FCALL_RO', 'FUNCTION', 'PEXPIRETIME', 'EXPIRETIME', 'EVALSHA_RO', 'EVAL_RO')
    await lent(server, async (limiter) => {
      for (let i = 0; i < 2; i++) await assert.rejects(limiter.limitAll({ y: rate(5, '1h'), z: rate(5, '1h') }),
        (error) => error instanceof MistakeError && error.message.includes('older than Redis 7.0'))
      assert.equal(await server.do('DBSIZE'), 0)
    })
  })

  test('scripts that only read are sent as others where the server has no command for them, and no error holds a key', async () => {
    const server = await lacking('FCALL', 'FCALL_RO', 'FUNCTION', 'EVALSHA_RO', 'EVAL_RO')
    await lent(server, async (limiter) => {
      assert.equal((await limiter.peek('secret', rate(5, '1h'))).remaining, 5)
      assert.equal((await limiter.limit('secret', rate(5, '1h'))).remaining, 4)
      assert.equal((await limiter.peek('secret', rate(5, '1h'))).remaining, 4)
    })
    const none = await lacking('FCALL', 'FCALL_RO', 'FUNCTION', 'EVALSHA_RO', 'EVAL_RO', 'EVAL', 'EVALSHA')
    await lent(none, async (limiter, log) => {
      for (const act of [() => limiter.peek('secret', rate(5, '1h')), () => limiter.limit('secret', rate(5, '1h'))]) {
        await assert.rejects(act(), (error) => error instanceof MistakeError && error.message.includes('refuses functions and scripts') && !inspect(error).includes('secret'))
      }
      assert.doesNotMatch(log.lines.join(), /secret/)
    })
  })

  test('a user who may not run the command of the module uses functions, and the log names the right', async () => {
    const server = await Server.start()
    await server.do('ACL', 'SETUSER', 'default', '-cl.limit')
    await lent(server, async (limiter, log) => {
      assert.equal((await limiter.limit('k', rate(5, '1h'))).remaining, 4)
      assert.match(log.lines.join(), /does not let this user run cl\.limit/)
    })
  })

  test('every question to a server carries a key of the call', async () => {
    const server = await Server.withoutModule()
    await lent(server, async (limiter) => {
      const monitor = await server.watch()
      await limiter.limit('mine', rate(5, '1h'))
      const asked = (await monitor.stop()).filter((line) => !/"(FUNCTION|HELLO|CLIENT|INFO|MONITOR)"/i.test(line))
      assert.ok(asked.length >= 2)
      for (const line of asked) assert.match(line, /"mine"/, line.slice(0, 200))
    })
  })

  test('who may look but not write by functions sends scripts', async () => {
    const server = await Server.withoutModule()
    await server.do('FUNCTION', 'LOAD', library)
    await server.do('ACL', 'SETUSER', 'default', '-fcall', '+fcall_ro')
    await lent(server, async (limiter, log) => {
      assert.equal((await limiter.limit('k', rate(5, '1h'))).remaining, 4)
      assert.match(log.lines.join(), /refuses functions \(NOPERM .*'fcall' command\): calls are sent as scripts/)
    })
  })

  test('an edited library that lacks a function is no end: calls are sent as scripts', async () => {
    const server = await Server.withoutModule()
    await server.do('FUNCTION', 'LOAD', ofVersion(carried).replaceAll("'cl_limit'", "'cl_limited'"))
    await lent(server, async (limiter) => {
      for (let taken = 1; taken <= 5; taken++) assert.equal((await limiter.limit('k', rate(5, '1h'))).remaining, 5 - taken)
    })
  })

  test('a library of somebody else whose function only sounds like ours is not deleted', async () => {
    const server = await Server.withoutModule()
    await server.do('FUNCTION', 'LOAD', "#!lua name=throttle\nredis.register_function('their_cl_version', function() return 'theirs' end)")
    await server.do('FUNCTION', 'LOAD', ofVersion(carried - 1, `throttle_${carried - 1}`))
    for (const open of Object.values(single)) {
      const { client, close } = await open(server.port)
      const limiter = new Limiter(client, { ...many, logger: new Lines() })
      assert.equal((await limiter.limit('k', rate(50, '1h'))).by, 'server')
      assert.equal(await server.do('FCALL', 'their_cl_version', 0), 'theirs')
      await close()
    }
    await server.stop()
  })

  test('1,000 first calls send the script once', async () => {
    const server = await Server.withoutModule()
    await server.do('ACL', 'SETUSER', 'default', '-function')
    await lent(server, async (limiter) => {
      const results = await Promise.all(Array.from({ length: 1000 }, () => limiter.limit('k', window(1000, '1h'))))
      assert.equal(Math.min(...results.map(({ remaining }) => remaining)), 0)
      assert.match(String(await server.do('INFO', 'commandstats')), /cmdstat_eval:calls=1,/)
    })
  })

  test('the module that appears after a restart is noticed', async () => {
    const server = await Server.withoutModule()
    await lent(server, async (limiter, log) => {
      await limiter.limit('k', rate(5, '1h'))
      await server.kill()
      server.options.push('--loadmodule', process.env['THROTTLE_SO'] ?? path.join(root, 'build/throttle.so'))
      await server.start()
      await until(() => limiter.limit('k', rate(500, '1h')).then(() => log.lines.join().includes('has the module'), () => false), 'the module is used')
    }, { breaker: false })
  })

  test('a replica that the first call meets is asked again when it was promoted', async () => {
    const server = await Server.withoutModule('--replicaof', '127.0.0.1 1')
    await lent(server, async (limiter) => {
      await assert.rejects(limiter.limit('k', rate(5, '1h')), OutageError)
      await server.do('REPLICAOF', 'NO', 'ONE')
      await until(() => limiter.limit('k', rate(500, '1h')).then(() => true, () => false), 'it is a master')
      await until(async () => {
        await limiter.limit('k', rate(500, '1h'))
        return (await server.do('FCALL', 'cl_version', 0).catch(() => 0)) === carried
      }, 'it has the library')
    }, { breaker: false })
  })
})

test('units whose caller leaves before the reply comes are returned', async () => {
  const server = await Server.withoutModule()
  try {
    for (const open of Object.values(single)) {
      await server.do('FLUSHALL')
      const { client, close } = await open(server.port)
      const limiter = new Limiter(client, { ...many, logger: new Lines(), poll: '10ms' })
      const limit = rate(1, '1h')
      await limiter.peek('late', limit)
      await server.do('CONFIG', 'RESETSTAT')
      server.pause()
      const leaving = new AbortController()
      const waiting = limiter.wait('late', limit, { signal: leaving.signal })
      for (let i = 0; i < 10; i++) await setImmediate() // it is written
      leaving.abort(new Error('left'))
      await assert.rejects(waiting, /left/)
      server.resume()
      await until(async () => /cmdstat_fcall:calls=2,/.test(String(await server.do('INFO', 'commandstats'))), 'both calls have come')
      assert.equal((await limiter.peek('late', limit)).remaining, 1)
      await close()
    }
  } finally {
    await server.stop()
  }
})

describe('a cluster', () => {
  let nodes: Cluster
  before(async () => {
    nodes = await Cluster.start((...options) => Server.withoutModule(...options))
  })
  after(() => nodes[Symbol.asyncDispose]())
  for (const [name, open] of Object.entries(cluster)) {
    test(`${name}: keys of a slot that moves to a master without the library are decided`, async () => {
      for (const node of nodes.nodes) await node.do('FUNCTION', 'FLUSH')
      const { client, close } = await open(nodes.first.port)
      const limiter = new Limiter(client, { ...many, logger: new Lines() })
      const key = `moves ${name}`
      const limit = rate(100, '1h')
      await limiter.limit(key, limit)
      await limiter.reset(key)
      const from = await nodes.owner(key)
      const to = nodes.nodes.find((node) => node !== from) as Server
      const slot = Number(await from.do('CLUSTER', 'KEYSLOT', key))
      const [source, target] = [String(await from.do('CLUSTER', 'MYID')), String(await to.do('CLUSTER', 'MYID'))]
      await to.do('CLUSTER', 'SETSLOT', slot, 'IMPORTING', source)
      await from.do('CLUSTER', 'SETSLOT', slot, 'MIGRATING', target)
      for (let taken = 1; taken <= 6; taken++) assert.equal((await limiter.limit(key, limit)).remaining, 100 - taken)
      await from.do('CLUSTER', 'SETSLOT', slot, 'STABLE')
      await to.do('CLUSTER', 'SETSLOT', slot, 'STABLE')
      await close()
    })

    test(`${name}: each master gets the library`, async () => {
      for (const node of nodes.nodes) await node.do('FUNCTION', 'FLUSH')
      const { client, close } = await open(nodes.first.port)
      const log = new Lines()
      const limiter = new Limiter(client, { ...many, logger: log })
      for (let i = 0; i < 20; i++) assert.equal((await limiter.limit(`${name} ${i}`, rate(2, '1h'))).remaining, 1)
      for (const node of nodes.nodes) assert.equal(await node.do('FCALL', 'cl_version', 0), carried)
      assert.equal(log.lines.length, 3)
      await close()
    })
  }
})
