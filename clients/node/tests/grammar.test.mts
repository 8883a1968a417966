// What calls take, compared with spec/commands.json: a word that is added there is known here, or a test fails.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { type Call, type CallOptions, fixed, type Key, type Limit, rate, window } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { root } from './servers.mjs'

interface Command { command: string; options?: string[]; limits?: string[]; terms?: string[] }
interface Grammar { words: { own?: string[] }[]; commands: Command[] }

const { words: rows, commands } = JSON.parse(readFileSync(path.join(root, 'spec/commands.json'), 'utf8')) as Grammar

const options: Record<string, CallOptions> = {
  COST: { cost: 2 }, UPTO: { charge: 'up_to' }, STRICT: { charge: 'strict' }, FORCE: { charge: 'force' }, ANY: { any: true },
  MAXWAIT: { maxWait: '1s' }, TIMEOUT: { maxWait: '1s' }, BAN: { ban: '1m' }, AFTER: { ban: '1m', banAfter: '3/1m' },
  GROUP: { group: 'g' }, WEIGHT: { group: 'g', weight: 2 }, PRIORITY: { priority: 3 }, ID: { id: 'a' }, EACH: { each: true },
}
// Words that calls say by themselves or in their keys, and that of CL.LEASES, which the package does not send.
const withoutOption = new Set(['NEXT', 'COMPACT', 'COUNT', 'SLOTS', 'TTL'])
const limited: Key = { name: 'k', limits: [rate(5, '1m')] }
const leased: Key = { name: 's', leased: true, slots: 1, ttl: '1s' }
const calls: Record<string, Call> = {
  'CL.LIMIT': { verb: 'limit', keys: [limited] },
  'CL.MLIMIT': { verb: 'limit', keys: [limited], several: true },
  'CL.PEEK': { verb: 'peek', keys: [limited] },
  'CL.REFUND': { verb: 'refund', keys: [limited] },
  'CL.WAIT': { verb: 'wait', keys: [{ name: 'k', limits: [window(5, '1m')] }], maxWait: '1s' },
  'CL.LEASE': { verb: 'lease', keys: [leased], id: 'a', maxWait: '1s' },
  'CL.RENEW': { verb: 'renew', keys: [{ name: 's', leased: true, ttl: '1s' }], id: 'a' },
  'CL.RELEASE': { verb: 'release', keys: [{ name: 's', leased: true }], id: 'a' },
  'CL.SETTLE': { verb: 'settle', keys: [limited], id: 'a' },
}

const limits: Record<string, Limit> = {
  RATE: rate(5, '1m'), WINDOW: window(5, '1m'), FIXED: fixed(5, '1d'), BURST: rate(5, '1m', { burst: 9 }),
  FIRST: fixed(5, '1d', { first: true }), OFFSET: fixed(5, '1d', { offset: '1h' }), TZ: fixed(5, '1d', { zone: 'UTC' }),
  TAKE: rate(5, '1m', { take: 2 }), USED: rate(5, '1m', { take: 2, used: 1 }), SPARE: rate(5, '1m', { spare: 1 }),
  SHADOW: rate(5, '1m', { shadow: true }),
}
const ofCommands = commands.flatMap((command) => [...(command.limits ?? []), ...(command.terms ?? [])])
const ofLimits = new Set([...rows.flatMap(({ own = [] }) => own), ...ofCommands])

describe('the words of limits', () => {
  for (const word of ofLimits) {
    test(`${word} is known`, () => { assert.ok(limits[word]?.words.includes(word), `limits have no ${word}`) })
  }
})

describe('the grammar', () => {
  for (const { command, options: words = [] } of commands) {
    const call = calls[command]
    if (call === undefined) continue
    for (const word of words) {
      test(`${command} ${word} is known`, () => {
        assert.ok(word in options || withoutOption.has(word), `calls have no option for ${word}`)
      })
    }
    // One option says MAXWAIT and TIMEOUT.
    const taken = new Set(words.flatMap((word) => (word === 'MAXWAIT' || word === 'TIMEOUT' ? ['MAXWAIT', 'TIMEOUT'] : [word])))
    for (const [word, given] of Object.entries(options)) {
      test(`${command} ${taken.has(word) ? 'takes' : 'refuses'} ${word}`, async () => {
        const keys = word === 'ID' && command === 'CL.MLIMIT' ? [limited, leased] : call.keys
        const decide = () => new FakeLimiter().decide({ ...call, ...given, keys })
        if (taken.has(word)) await decide()
        else await assert.rejects(decide, /has no such option/)
      })
    }
  }
})
