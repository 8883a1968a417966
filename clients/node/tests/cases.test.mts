// The table of cases that the clients of every language run: spec/clients/calls.json.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import { type Call, type CallOptions, type Duration, type Key, Limit, type LimitFields, Limiter, MistakeError, OutageError, OverloadError, rate,
  type Result, type Verb } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { createClient } from 'redis'
import { single } from './clients.mjs'
import { type Exchange, MadeUp, root, Server } from './servers.mjs'

interface TableCall extends Omit<CallOptions, 'charge' | 'maxWait'> {
  verb: Verb
  keys: { name: string; limits?: LimitFields[]; slots?: number; ttl?: Duration; leased?: boolean }[]
  upto?: boolean
  strict?: boolean
  force?: boolean
  max_wait?: Duration | 'forever'
  ban_after?: string
}

interface Each {
  [field: string]: number | boolean | Each[]
}

const { takes } = (await import(new URL('../../dist/esm/call.js', import.meta.url).href)) as typeof import('../dist/esm/call.js')
const table = JSON.parse(readFileSync(path.join(root, 'spec/clients/calls.json'), 'utf8')) as {
  cases: { name: string; call: TableCall; exchanges: Exchange[]; result?: Each; error?: 'outage' | 'overload' | 'mistake'; says?: string }[]
  takes: Record<Verb, string[]>
  sessions: { name: string; steps: { call: TableCall; result: Each }[] }[]
}

function callOf({ verb, keys, upto, strict, force, max_wait, ban_after, ...options }: TableCall): Call {
  const several = verb === 'settle' || (verb === 'limit' && (keys.length !== 1 || options.any === true || keys[0]?.ttl !== undefined))
  return {
    ...options,
    ...(upto && { charge: 'up_to' }),
    ...(strict && { charge: 'strict' }),
    ...(force && { charge: 'force' }),
    ...(ban_after !== undefined && { banAfter: ban_after }),
    ...(max_wait !== undefined && { maxWait: max_wait }),
    verb,
    several,
    keys: keys.map(({ limits, ...key }): Key => (limits ? { ...key, limits: limits.map((limit) => new Limit(limit)) } : { ...key,
      leased: verb !== 'ban' && verb !== 'reset' })),
  }
}

const names: Record<string, string> = {
  limited: 'limited', keyIndex: 'key', rule: 'rule', banned: 'banned', limit: 'limit', remaining: 'remaining', retryAfterMs: 'retry_after_ms',
  resetAfterMs: 'reset_after_ms', nextAfterMs: 'next_after_ms', granted: 'granted', waitMs: 'wait_ms', lastsMs: 'lasts_ms', shadowed: 'shadowed',
  shadow: 'shadow', shadowKeyIndex: 'shadow_key',
}

const beside = new Set(['key', 'shadowKey', 'by']) // what Node.js has besides

/** A result as the table has it. What is 0, false or empty is left out. */
function shown(result: Result): Each {
  const fields: Each = {}
  for (const [name, value] of Object.entries(result)) {
    if (name === 'each') {
      const each = (value as Result[]).map(shown)
      if (each.length > 0) fields['each'] = each
      continue
    }
    if (beside.has(name)) continue
    const field = names[name]
    assert.ok(field, `the table knows no ${name}`)
    if (value !== 0 && value !== false) fields[field] = value === null ? -1 : (value as number)
  }
  return fields
}

function requires(got: Each, want: Each, where: string): void {
  for (const [name, value] of Object.entries(want)) {
    if (Array.isArray(value)) {
      const several = got[name] as Each[]
      assert.equal(several.length, value.length, where)
      for (const [i, each] of value.entries()) requires(several[i] ?? {}, each, where)
    } else {
      assert.equal(got[name] ?? (typeof value === 'number' ? 0 : false), value, `${where}: ${name} of ${JSON.stringify(got)}`)
    }
  }
}

function kindOf(error: unknown): string {
  if (error instanceof OutageError) return 'outage'
  if (error instanceof OverloadError) return 'overload'
  return error instanceof MistakeError || error instanceof RangeError || error instanceof TypeError ? 'mistake' : String(error)
}

for (const [name, open] of Object.entries(single)) {
  describe(`cases of all languages on ${name}`, () => {
    for (const one of table.cases) {
      test(one.name, async () => {
        await using server = await MadeUp.start(one.exchanges)
        const { client, close } = await open(server.port)
        try {
          const decided = (async () => await new Limiter(client, { timeout: '10s', commands: 'module' }).decide(callOf(one.call)))()
          if (one.error) {
            const error: unknown = await decided.then(() => undefined, (e: unknown) => e)
            assert.equal(kindOf(error), one.error, String(error))
            const { message } = error as Error
            assert.ok(message.includes(one.says ?? ''), message)
            assert.ok(!message.includes(`'${one.call.keys[0]?.name}'`), `a key in an error: ${message}`)
          } else {
            assert.deepEqual(shown(await decided), one.result)
          }
          assert.deepEqual(server.exchanges, [], 'not everything was sent')
          assert.deepEqual(server.problems, [])
        } finally {
          await close()
        }
      })
    }
  })

  describe(`sessions of all languages on ${name}`, () => {
    let server: Server
    before(async () => {
      server = await Server.start()
    })
    after(() => server.stop())
    for (const session of table.sessions) {
      test(session.name, async () => {
        const { client, close } = await open(server.port)
        try {
          const limiter = new Limiter(client)
          for (const [i, step] of session.steps.entries()) requires(shown(await limiter.decide(callOf(step.call))), step.result, `step ${i + 1}`)
        } finally {
          await close()
        }
      })
    }
  })
}

describe('sessions of all languages in this process', () => {
  for (const session of table.sessions) {
    test(session.name, async () => {
      const limiter = new FakeLimiter()
      for (const [i, { call, result }] of session.steps.entries()) {
        const decided = limiter.decide(callOf(call))
        if (call.max_wait !== undefined && call.verb !== 'limit') limiter.advance(call.max_wait as Duration)
        requires(shown(await decided), result, `step ${i + 1}`)
      }
    })
  }
})

test('a verb takes what it takes in every language', () => {
  const { limit: one, mlimit, ...rest } = takes
  const snake = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
  const got = Object.entries({ ...rest, limit: mlimit }).map(([verb, taken]) => [verb, taken.map(snake).sort()])
  const want = Object.entries({ ...table.takes, release: ['id', 'ttl'] }).map(([verb, taken]) => [verb, taken.sort()])
  assert.deepEqual(Object.fromEntries(got), Object.fromEntries(want))
  assert.deepEqual([...one, 'any', 'id', 'slots', 'ttl'].sort(), [...mlimit].sort()) // of one key
})

test('login protection as the documentation has it', async (t) => {
  const page = readFileSync(path.join(root, 'docs/choosing.md'), 'utf8')
  const [, block = ''] = /## Login protection[^]*?```js\n([^]*?)```/.exec(page) ?? []
  const server = await Server.start()
  const client = createClient({ socket: { port: server.port } })
  t.after(async () => {
    client.destroy()
    await server.stop()
  })
  await client.connect()
  const ask = new Function('limiter', 'rate', `return (async () => { ${block}; return result })()`) as (...given: unknown[]) => Promise<Result>
  const results: Result[] = []
  for (let i = 0; i < 16; i++) results.push(await ask(new Limiter(client), rate))
  assert.deepEqual(results.map(({ limited }) => limited), [...Array<boolean>(5).fill(false), ...Array<boolean>(11).fill(true)])
  assert.deepEqual(results.map(({ banned }) => banned), [...Array<boolean>(15).fill(false), true])
  assert.equal(results[14]?.retryAfterMs, 3_600_000)
})
