// Limits in words, as configuration files have them.
import type { Period } from './duration.js'
import { type Kind, Limit, type LimitFields } from './limit.js'

type Mutable = { -readonly [K in keyof LimitFields]: LimitFields[K] }

const numbers: Record<string, 'burst' | 'take' | 'spare'> = { BURST: 'burst', TAKE: 'take', SPARE: 'spare' }
const texts: Record<string, 'offset' | 'zone'> = { OFFSET: 'offset', TZ: 'zone' }
const flags: Record<string, 'first' | 'shadow'> = { FIRST: 'first', SHADOW: 'shadow' }

/**
 * Reads limits as CL.LIMIT takes them, such as from a configuration file.
 *
 *     const limits = parseLimits('RATE 5/s BURST 10 FIXED 1000/d TZ Europe/Berlin')
 */
export function parseLimits(text: string): Limit[] {
  const words = text.split(/\s+/).filter((word) => word !== '')
  const made: Mutable[] = []
  for (let at = words.shift(); at !== undefined; at = words.shift()) {
    const option = at.toUpperCase()
    const limit = made.at(-1)
    if (option === 'RATE' || option === 'WINDOW' || option === 'FIXED') {
      made.push(start(option, words.shift() ?? ''))
      continue
    }
    if (!limit) throw new SyntaxError(`limits: expected RATE, WINDOW or FIXED, not '${at}'`)
    const flag = flags[option]
    const number = numbers[option]
    const name = texts[option]
    if (flag) {
      limit[flag] = true
    } else if (number) {
      limit[number] = integerOf(option, words.shift())
    } else if (name) {
      Object.assign(limit, { [name]: valueOf(option, words.shift()) })
    } else {
      throw new SyntaxError(`limits: expected RATE, WINDOW, FIXED, BURST, FIRST, OFFSET, TZ, TAKE, SPARE or SHADOW, not '${at}'`)
    }
  }
  if (made.length === 0) throw new SyntaxError('limits: there must be at least one, such as RATE 5/s')
  return made.map((limit) => new Limit(limit))
}

function start(kind: Kind, given: string): Mutable {
  const [, count, period] = /^(0|[1-9]\d*)\/(.+)$/.exec(given) ?? []
  if (count === undefined || period === undefined) throw new SyntaxError(`limits: ${kind} takes count/period, such as 5/s or 100/30m, not '${given}'`)
  return { kind, count: Number(count), period: period as Period } // which Limit checks
}

function valueOf(option: string, value: string | undefined): string {
  if (value === undefined) throw new SyntaxError(`limits: ${option} needs a value`)
  return value
}

function integerOf(option: string, value: string | undefined): number {
  if (!/^(0|[1-9]\d*)$/.test(valueOf(option, value))) throw new SyntaxError(`limits: ${option} takes an integer, not '${value ?? ''}'`)
  return Number(value)
}
