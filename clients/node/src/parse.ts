// Limits in words, as configuration files and policies have them.
import type { Period } from './duration.js'
import { type Kind, Limit, type LimitFields } from './limit.js'

type Mutable = { -readonly [K in keyof LimitFields]: LimitFields[K] }

/** The words that may follow a limit, and what they are in its fields. */
type Terms = Readonly<Record<string, 'burst' | 'take' | 'spare' | 'offset' | 'zone' | 'name' | 'first' | 'shadow'>>

const own = { BURST: 'burst', FIRST: 'first', OFFSET: 'offset', TZ: 'zone' } as const
const called = { ...own, TAKE: 'take', SPARE: 'spare', SHADOW: 'shadow' } as const
const numbers = new Set(['BURST', 'TAKE', 'SPARE'])
const flags = new Set(['FIRST', 'SHADOW'])

/** The words that limits have in policies. What one call takes is for the code to say. */
export const inPolicies: Terms = { ...own, SHADOW: 'shadow', NAME: 'name' }

/**
 * Reads limits as CL.LIMIT takes them, such as from a configuration file.
 *
 *     const limits = parseLimits('RATE 5/s BURST 10 FIXED 1000/d TZ Europe/Berlin')
 */
export function parseLimits(text: string): Limit[] {
  return readLimits(wordsIn(text), called).map((fields) => new Limit(fields))
}

/** Returns the words of a text. */
export const wordsIn = (text: string): string[] => text.split(/\s+/).filter((word) => word !== '')

/** Takes limits from words, up to the word `end` behind them. */
export function readLimits(words: string[], terms: Terms, end?: string): LimitFields[] {
  const made: Mutable[] = []
  for (let at = words[0]; at !== undefined && (made.length === 0 || at.toUpperCase() !== end); at = words[0]) {
    words.shift()
    const option = at.toUpperCase()
    if (option === 'RATE' || option === 'WINDOW' || option === 'FIXED') {
      made.push(start(option, words.shift() ?? ''))
      continue
    }
    const limit = made.at(-1)
    if (!limit) throw new SyntaxError(`limits: expected RATE, WINDOW or FIXED, not '${at}'`)
    const field = Object.hasOwn(terms, option) ? terms[option] : undefined
    if (!field) throw new SyntaxError(`limits: expected RATE, WINDOW, FIXED, ${Object.keys(terms).join(', ').replace(/, (\w+)$/, ' or $1')}, not '${at}'`)
    if (field in limit) throw new SyntaxError(`limits: ${option} is given twice`)
    Object.assign(limit, { [field]: flags.has(option) ? true : numbers.has(option) ? integerOf(option, words.shift()) : valueOf(option, words.shift()) })
  }
  if (made.length === 0) throw new SyntaxError('limits: there must be at least one, such as RATE 5/s')
  return made
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
