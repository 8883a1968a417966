// The transcripts of spec/, decided in this process: by what the limiters for tests, and for an outage, decide with.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import { type Call, type Duration, Limit, parseLimits, type Result, type Verb } from 'redis-throttle'
import { FakeLimiter } from 'redis-throttle/testing'
import { root } from './servers.mjs'

// Values in keys, lines of callers, redis-cell's command and the words of errors are the server's alone.
const files = ['rate', 'window', 'calendar', 'limits', 'kept', 'refund', 'bans', 'shadows', 'keys', 'slots', 'settling', 'leases', 'zero', 'denials']

// What this process does otherwise, and the reason.
const otherwise: Record<string, string> = {
  'Clocks are those of the laws of 2026.': 'the zones are those of Node.js',
}

/** Why a line, and what comes after it in its example, is not for this process. */
class NotHere extends Error {}

const verbs: Record<string, Verb> = {
  'CL.LIMIT': 'limit', 'CL.MLIMIT': 'limit', 'CL.PEEK': 'peek', 'CL.REFUND': 'refund', 'CL.BAN': 'ban',
  'CL.LEASE': 'lease', 'CL.RENEW': 'renew', 'CL.RELEASE': 'release', 'CL.SETTLE': 'settle',
}

const flags: Record<string, object> = { UPTO: { charge: 'up_to' }, STRICT: { charge: 'strict' }, FORCE: { charge: 'force' }, ANY: { any: true }, EACH: { each: true }, COMPACT: {} }
const valued: Record<string, (value: string) => object> = {
  COST: (value) => ({ cost: Number(value) }),
  BAN: (value) => ({ ban: value as Duration }),
  AFTER: (value) => ({ banAfter: value }),
  MAXWAIT: (value) => ({ maxWait: value as Duration }),
  ID: (value) => ({ id: value }),
}

/** Reads a command as a call. */
function callOf(words: string[]): Call {
  const [command = '', ...rest] = words
  const verb = verbs[command]
  if (verb === undefined) throw new NotHere(command)
  const several = command === 'CL.MLIMIT' || command === 'CL.SETTLE'
  const n = several ? Number(rest.shift()) : 1
  const names = rest.splice(0, n)
  if (verb === 'ban') return { verb, keys: [{ name: names[0] ?? '', }], ban: rest[0] as Duration }
  if (verb === 'lease' || verb === 'renew' || verb === 'release') {
    const of = (word: string) => (rest.includes(word) ? rest[rest.indexOf(word) + 1] : undefined)
    for (const word of rest) if (['TIMEOUT', 'GROUP', 'PRIORITY'].includes(word)) throw new NotHere(word)
    if (verb === 'release' && rest.length > 2) throw new NotHere('several ids, which clients do not send')
    const [slots, ttl, id] = [of('SLOTS'), of('TTL'), of('ID')]
    return { verb, keys: [{ name: names[0] ?? '', ...(verb === 'lease' && { leased: true }), ...(slots !== undefined && { slots: Number(slots) }), ...(ttl !== undefined && { ttl: ttl as Duration }) }], id: id ?? '' }
  }
  let options = {}
  const groups: string[][] = [[]]
  while (rest.length > 0) {
    const word = rest.shift() ?? ''
    const value = valued[word]
    if (word === 'NEXT') groups.push([])
    else if (flags[word]) options = { ...options, ...flags[word] }
    else if (value) options = { ...options, ...value(rest.shift() ?? '') }
    else groups.at(-1)?.push(word)
  }
  const keys = names.map((name, i) => {
    const group = groups[i] ?? groups[0] ?? []
    if (group[0] !== 'SLOTS') return { name, limits: limitsOf(group) }
    return { name, leased: true, ...(group[1] !== undefined && { slots: Number(group[1]) }), ...(group[3] !== undefined && { ttl: group[3] as Duration }) }
  })
  return { verb, keys, ...(several && { several }), ...options }
}

/** Limits in words, with USED, which configuration files do not have. */
function limitsOf(words: string[]): Limit[] {
  const used: (number | undefined)[] = []
  const others: string[] = []
  for (let i = 0; i < words.length; i++) {
    if (/^(RATE|WINDOW|FIXED)$/.test(words[i] ?? '')) used.push(undefined)
    if (words[i] === 'USED') used[used.length - 1] = Number(words[++i])
    else others.push(words[i] ?? '')
  }
  return parseLimits(others.join(' ')).map((limit, i) => (used[i] === undefined ? limit : limit.with({ used: used[i] })))
}

const rules = (call: Call, keyIndex: number) => call.keys.slice(0, keyIndex).reduce((n, { limits }) => n + Math.max(limits?.length ?? 0, 1), 0)

/** A result as the server replies it. */
function replyOf(call: Call, result: Result): Record<string, number> {
  const settles = call.verb === 'settle'
  return {
    limited: Number(result.limited),
    settled: Number(!result.limited),
    rule: result.banned || (settles && result.limit === 0) ? 0 : rules(call, result.keyIndex) + result.rule + 1,
    limit: result.limit,
    remaining: result.remaining,
    retry_after_ms: result.limited ? (result.retryAfterMs ?? -1) : -1,
    reset_after_ms: result.resetAfterMs,
    next_after_ms: result.nextAfterMs,
    granted: result.granted,
    wait_ms: result.waitMs,
    shadow: result.shadowed ? rules(call, result.shadowKeyIndex) + result.shadow + 1 : 0,
    key: result.keyIndex + 1,
    lease_ms: result.lastsMs,
  }
}

const order = ['limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms', 'shadow', 'key']

/** Each of a call, as the server replies it. */
const eachOf = (result: Result) => result.each.map((each) => [Number(each.limited), each.limit, each.remaining, each.limited ? (each.retryAfterMs ?? -1) : -1, each.resetAfterMs])

function compare(call: Call, result: Result, expected: string, where: string): void {
  const reply = replyOf(call, result)
  if (call.verb === 'ban') {
    assert.equal(String(result.lastsMs), expected, where)
  } else if (call.verb === 'release') {
    assert.equal(String(0 - result.granted), expected, where)
  } else if (/^-?\d+ /.test(expected)) {
    if (call.verb === 'lease' || call.verb === 'renew') throw new NotHere('a lease as integers')
    const [numbers = '', ...arrays] = expected.split(/ ?\[/)
    const named = call.verb === 'settle' ? ['settled', ...order.slice(1)] : order
    const own = (call.several ? named : named.slice(0, -1)).map((name) => reply[name])
    assert.equal(own.join(' '), numbers.trim(), where)
    if (arrays.length > 0) assert.deepEqual(eachOf(result), arrays.map((array) => array.replace(']', '').split(' ').map(Number)).map((each) => (each[0] === 0 ? each.with(3, -1) : each)), where) // clients drop when to retry what was let through
  } else {
    for (const [, name = '', value = ''] of expected.matchAll(/(\w+)=(\[.*\]|\S+)/g)) {
      if (name === 'each') assert.equal(`[${eachOf(result).map((each) => `[${each.join(' ')}]`).join(' ')}]`, value, where)
      else assert.equal(String(reply[name]), value, `${where}: ${name}`)
    }
  }
}

const wordsOf = (line: string) => line.split(/\s+/).filter((word) => word !== '')

/** The examples of a file: the rule that each shows, and its lines. */
function examplesOf(text: string): { rule: string; lines: string[] }[] {
  const examples: { rule: string; lines: string[] }[] = []
  for (const line of text.split('\n').slice(1)) {
    if (line.startsWith('# ')) examples.push({ rule: line.slice(2), lines: [] })
    else if (line !== '') examples.at(-1)?.lines.push(line)
  }
  return examples
}

const units: Record<string, number> = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000 }

let here = 0
for (const file of files) {
  describe(`spec/${file}.txt`, () => {
    for (const { rule, lines } of examplesOf(readFileSync(path.join(root, 'spec', `${file}.txt`), 'utf8'))) {
      test(rule, { skip: otherwise[rule] ?? false }, async (t) => {
        const limiter = new FakeLimiter()
        limiter.setTime(new Date('2026-01-01T00:00:00Z'))
        try {
          for (let i = 0; i < lines.length; i++) {
            const line = lines[i] ?? ''
            if (line.startsWith('= ')) continue
            if (line.startsWith('@')) limiter.setTime(new Date(line.slice(1)))
            else if (/^\+[\d.]+us$/.test(line)) limiter.advance(`${Number(line.slice(1, -2)) / 1000}ms`)
            else if (line.startsWith('+')) limiter.advance(line.slice(1) as Duration)
            else if (line.startsWith('-')) limiter.setTime(new Date(limiter.now.getTime() - (units[line.at(-1) ?? ''] ?? NaN) * Number(line.slice(1, -1))))
            else if (line.startsWith('> ')) {
              const expected = lines[++i] ?? ''
              if (expected.startsWith('(error)')) continue
              const call = callOf(wordsOf(line.slice(2)))
              compare(call, await limiter.decide(call), expected, line)
              here++
            } else throw new NotHere(line)
          }
        } catch (error) {
          if (!(error instanceof NotHere)) throw error
          t.diagnostic(`not in this process: ${error.message}`)
        }
      })
    }
  })
}

test('most of the specification is for this process', () => {
  assert.ok(here > 200, `${here} calls`)
})
