// Lengths of time, as the commands take them: a number with a unit.

type Unit = 'ms' | 's' | 'm' | 'h' | 'd'

/**
 * A length of time: a number with a unit, such as `500ms`, `1.5s`, `30m`, `1h` or `1d`. `0` needs none. A text from a
 * configuration file is one after `duration(text)`.
 */
export type Duration = `${number}${Unit}` | Unit | '0'

/**
 * The period of a limit: a `Duration`, or of a `fixed` limit so many weeks, months or years, such as `1w`, `1mo` or
 * `1y`.
 */
export type Period = Exclude<Duration, '0'> | `${number}${'w' | 'mo' | 'y'}` | 'w' | 'mo' | 'y'

/** A timeout that is never over. */
export const forever = 'forever'

/**
 * Returns a text as a `Duration`, or throws if it is none.
 *
 *     const limit = rate(5, duration(process.env.PERIOD ?? '1s'))
 */
export function duration(text: string): Duration {
  nanoseconds(text, 'duration')
  return text as Duration
}

const ns: Record<string, bigint> = { d: 86_400_000_000_000n, h: 3_600_000_000_000n, m: 60_000_000_000n, s: 1_000_000_000n, ms: 1_000_000n }
const milli = 1_000_000n
const longest = 2n ** 63n - 1n
const form = /^(0|[1-9]\d{0,37})?(?:\.(\d{1,38}))?([a-z]+)$/

/** The mean length of the units of calendar windows, in seconds. */
export const calendar: Record<string, number> = { w: 7 * 86_400, mo: (146_097 * 86_400) / 4800, y: (146_097 * 86_400) / 400 }

/** Returns a length of time in nanoseconds. `what` is the argument that an error is about. */
export function nanoseconds(value: unknown, what: string, units = 'ms, s, m, h or d'): bigint {
  if (value === '0') return 0n
  if (typeof value === 'number') throw new TypeError(`${what}: ${value} needs a unit, such as '${value}ms' or '${value}s'`)
  if (typeof value !== 'string') throw new TypeError(`${what} must be a number with a unit, such as '500ms' or '30s'`)
  const [, whole, decimals = '', unit = ''] = form.exec(value) ?? []
  const size = Object.hasOwn(ns, unit) ? ns[unit] : undefined
  if (size === undefined || (whole === undefined && decimals !== '')) throw new RangeError(`${what}: '${value}' needs a unit: ${units}`)
  const scale = 10n ** BigInt(decimals.length)
  const scaled = BigInt((whole ?? '1') + decimals) * size
  if (scaled % scale !== 0n || scaled / scale > longest) {
    throw new RangeError(`${what}: '${value}' is not a whole number of nanoseconds of at most 292 years`)
  }
  return scaled / scale
}

/**
 * Returns a period in weeks, months or years as the commands take it, and its mean length; undefined if value is not
 * one.
 */
export function calendarPeriod(value: unknown): { word: string; seconds: number } | undefined {
  const [, whole = '1', decimals, unit = ''] = (typeof value === 'string' && form.exec(value)) || []
  const size = Object.hasOwn(calendar, unit) ? calendar[unit] : undefined
  if (size === undefined) return undefined
  if (decimals !== undefined || BigInt(whole) === 0n) throw new RangeError(`the period '${String(value)}': weeks, months and years are whole and positive`)
  return { word: `${BigInt(whole)}${unit}`, seconds: Number(whole) * size }
}

/** Writes a length of time as the commands take it, exactly, in the largest unit that gives a whole number. */
export function word(length: bigint): string {
  for (const [unit, size] of Object.entries(ns)) {
    if (length % size === 0n && (length !== 0n || unit === 'ms')) return `${length / size}${unit}`
  }
  const decimals = String(length % milli).padStart(6, '0').replace(/0+$/, '')
  return `${length / milli}.${decimals}ms`
}

/**
 * Returns a length of time in whole milliseconds, as servers are told of waits, bans and leases, in nanoseconds. It
 * never turns into 0, which means something else.
 */
export function wholeMilliseconds(value: unknown, what: string): bigint {
  const length = nanoseconds(value, what)
  return length > 0n && length < milli ? milli : length - (length % milli)
}

/** Returns a length of time in milliseconds. */
export function milliseconds(value: unknown, what: string): number {
  return Number(nanoseconds(value, what)) / 1e6
}
