// The engine beside the limiter, compared by chance: histories of calls that spec/chance draws, each with the replies
// of the limiter. N= and SEED= in the environment say how many, and which. What differs is shown as the shortest
// history that still does.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import type { Engine } from '../dist/esm/local/engine.js'
import { root } from './servers.mjs'
import { callOf, eachOf, order, replyOf } from './transcripts.mjs'

// No one may import the engine from the package.
const local = (await import(new URL('../../dist/esm/local/engine.js', import.meta.url).href)) as typeof import('../dist/esm/local/engine.js')

const ofLease = ['limited', 'limit', 'remaining', 'retry_after_ms', 'lease_ms', 'wait_ms']

/** Makes a call, and returns the reply as transcripts show it. */
function reply(engine: Engine, words: string[], now: bigint): string {
  const call = callOf(words)
  const result = engine.decide(call, now)
  if (call.verb === 'ban') return String(result.lastsMs)
  if (call.verb === 'release' || call.verb === 'reset') return String(0 - result.granted)
  const fields = replyOf(call, result)
  const ofLimits = [call.verb === 'settle' ? 'settled' : 'limited', ...order.slice(1, call.several ? undefined : -1)]
  const names = call.verb === 'lease' || call.verb === 'renew' ? ofLease : ofLimits
  const each = call.each ? [`each=[${eachOf(result).map((one) => `[${one.join(' ')}]`).join(' ')}]`] : []
  return [...names.map((name) => `${name}=${fields[name]}`), ...each].join(' ')
}

/** Returns what differs between the engine and a history, or "ok". */
function played(history: string[]): string {
  const engine = new local.Engine()
  let now = BigInt(Date.UTC(2026, 0, 1)) * 1_000_000n
  for (let i = 0; i < history.length; i++) {
    const step = history[i] ?? ''
    if (!step.startsWith('> ')) {
      now += BigInt(step.replace('us', '')) * 1000n
      continue
    }
    // Clients drop when to retry what was let through.
    const want = history[++i]?.replace(/\[0 (\S+) (\S+) \S+ /g, '[0 $1 $2 -1 ')
    let got
    try {
      got = reply(engine, step.slice(2).split(' '), now)
    } catch (error) {
      got = String(error).includes('WRONGTYPE') ? '(error) WRONGTYPE' : String(error).replace(/\s+/g, ' ')
    }
    if (got !== want) return `${step.slice(2)}: want ${want}, got ${got}`
  }
  return 'ok'
}

test('the engine decides as the limiter does', async () => {
  const limiter = spawn('go', ['run', './spec/chance'], { cwd: root, env: { N: '3000', ...process.env } })
  const said = text(limiter.stderr)
  const ended = once(limiter, 'exit')
  let history: string[] = []
  for await (const line of createInterface({ input: limiter.stdout })) {
    if (line !== '') {
      history.push(line)
      continue
    }
    limiter.stdin.write(`${played(history)}\n`)
    history = []
  }
  const [code] = (await ended) as [number]
  assert.equal(code, 0, await said)
})
