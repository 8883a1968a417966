// Options of constructors, checked. Nothing that somebody asked for is dropped in silence.
import { type Duration, milliseconds } from './duration.js'

/** Refuses options that are not known. */
export function refuseOthers(what: string, options: object, known: readonly string[]): void {
  for (const option of Object.keys(options)) {
    if (!known.includes(option)) throw new TypeError(`${what}: there is no option ${option}; it takes ${listed(known)}`)
  }
}

function listed(words: readonly string[]): string {
  return words.length < 2 ? words.join('') : `${words.slice(0, -1).join(', ')} and ${words.at(-1) ?? ''}`
}

/** Returns a time of a timer in ms. */
export function timerMs(value: Duration, what: string): number {
  const ms = milliseconds(value, what)
  if (ms < 1 || ms > 2 ** 31 - 1) throw new RangeError(`${what}: '${value}' must be from 1ms to 24d`)
  return ms
}

/** Returns an integer of at least `least`. */
export function wholeNumber(value: unknown, what: string, least: number): number {
  if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < least) throw new RangeError(`${what} must be an integer of at least ${least}, not ${String(value)}`)
  return value
}

/** Returns one of some words. */
export function oneOf<Word extends string>(value: unknown, what: string, words: readonly Word[], formerly: Readonly<Record<string, Word>> = {}): Word {
  if (words.includes(value as Word)) return value as Word
  const old = typeof value === 'string' && Object.hasOwn(formerly, value) ? `, which is '${formerly[value] ?? ''}' now` : ''
  throw new TypeError(`${what} must be ${words.slice(0, -1).join(', ')} or ${words.at(-1) ?? ''}, not '${String(value)}'${old}`)
}
