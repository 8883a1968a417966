// The transcripts of spec/, decided in this process: by what the limiters for tests, and for an outage, decide with.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, test } from 'node:test'
import type { Call, Duration, Result } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'
import { root } from './servers.mjs'
import { callOf, eachOf, inspectionOf, NotHere, order, replyOf } from './transcripts.mjs'

// Values in keys, lines of callers, redis-cell's command and the words of errors are the server's alone.
const files = ['rate', 'window', 'calendar', 'limits', 'kept', 'refund', 'bans', 'shadows', 'keys', 'slots', 'settling', 'leases', 'zero', 'denials', 'inspect']

// What this process does otherwise, and the reason.
const otherwise: Record<string, string> = {
  'Clocks are those of the laws of 2026.': 'the zones are those of Node.js',
}

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
    if (arrays.length > 0) assert.deepEqual(eachOf(result),
      arrays.map((array) => array.replace(']', '').split(' ').map(Number)).map((each) => (each[0] === 0 ? each.with(3, -1) : each)),
      where) // clients drop when to retry what was let through
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
              const [command, key = ''] = wordsOf(line.slice(2))
              if (command === 'CL.INSPECT') {
                const told = inspectionOf(await limiter.inspect(key))
                for (const [, name = '', value = ''] of expected.matchAll(/(\w+)=(\[.*\]|\S+)/g)) if (name !== 'bytes') assert.equal(told[name], value, `${line}: ${name}`) // this process keeps none
                here++
                continue
              }
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
