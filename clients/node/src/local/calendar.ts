// The windows of FIXED limits: multiples of a length since the Unix epoch, or days, weeks, months and years by the
// clocks of a zone.
import { nanoseconds } from '../duration.js'
import type { Limit } from '../limit.js'

export interface Window {
  /** The number of a window of the calendar, at least 0; the beginning of any other. */
  readonly index: bigint
  readonly end: bigint
}

interface Span extends Window {
  readonly start: bigint
}

const ms = 1_000_000n
const day = 86_400_000
const monday = -3 // 1969-12-29, in days since the epoch

export function floorDiv(a: bigint, b: bigint): bigint {
  const whole = a / b
  return a % b < 0n ? whole - 1n : whole
}

const latest = new WeakMap<Limit, Span>() // mostly it is the last one again

/** Returns the window of a FIXED limit that an instant lies in, in ns since the epoch. */
export function windowAt(limit: Limit, now: bigint): Window {
  const there = latest.get(limit)
  if (there && there.start <= now && now < there.end) return there
  const span = lookUp(limit, now)
  latest.set(limit, span)
  return span
}

function lookUp(limit: Limit, now: bigint): Span {
  const { offset } = limit.fields
  const zone = zoneOf(limit)
  const later = offset === undefined ? 0n : nanoseconds(offset, 'offset')
  const { count, unit, months } = periodOf(limit)
  if (!unit && zone === undefined) {
    const index = floorDiv(now - later, limit.periodNs)
    const start = index * limit.periodNs + later
    return { index: later > 0n ? index + 1n : index, start, end: start + limit.periodNs }
  }
  const n = Number(count || '1')
  // How the windows are numbered, and the date on which one begins, in days since the epoch.
  const [indexOf, dateOf] = months !== undefined
    ? [(date: number) => Math.floor(monthOf(date) / (months * n)), (i: number) => Date.UTC(1970, i * months * n, 1) / day]
    : unit === 'w'
      ? [(date: number) => Math.floor((date - monday) / (7 * n)), (i: number) => monday + 7 * n * i]
      : daysOf(limit)
  const begin = (i: number) => BigInt(firstShowing(dateOf(i) * day + Number(later / ms), zone)) * ms + (later % ms)
  const wall = Number((now - later) / ms)
  let index = indexOf(Math.floor((wall + offsetAt(Number(now / ms), zone)) / day))
  // Clocks that have been set back show an earlier window again. It is over.
  while (begin(index + 1) <= now) index++
  return { index: BigInt(index + firstIndex), start: begin(index), end: begin(index + 1) }
}

const firstIndex = 2 // of the window that is counted from: 1970 may lie in one before it

const zoneOf = ({ fields: { zone } }: Limit) => (zone === 'UTC' || zone === '' ? undefined : zone)

/** The number and the unit of a period in weeks, months or years, and how many months that unit has. */
function periodOf({ fields: { period } }: Limit): { count: string; unit: string; months: number | undefined } {
  const [, count = '', unit = ''] = /^(\d*)(w|mo|y)$/.exec(period) ?? []
  return { count, unit, months: { mo: 1, y: 12 }[unit] }
}

/**
 * Returns what tells the windows of a limit from others; undefined of multiples of a period since the epoch, which the
 * period tells.
 */
export function calendarIdOf(limit: Limit): string | undefined {
  const { offset } = limit.fields
  const later = offset === undefined ? 0n : nanoseconds(offset, 'offset')
  const { count, unit } = periodOf(limit)
  const zone = zoneOf(limit)
  if (!unit && zone === undefined && later === 0n) return undefined
  return `${unit ? `${count || '1'}${unit}` : limit.periodNs} ${later} ${zone ?? ''}`
}

function daysOf(limit: Limit): [(date: number) => number, (i: number) => number] {
  const n = Number(limit.periodNs / (BigInt(day) * ms))
  return [(date) => Math.floor(date / n), (i) => i * n]
}

function monthOf(date: number): number {
  const at = new Date(date * day)
  return 12 * (at.getUTCFullYear() - 1970) + at.getUTCMonth()
}

const formats = new Map<string, Intl.DateTimeFormat>()

/** Returns how far the clocks of a zone are ahead of UTC at an instant, in ms. */
function offsetAt(at: number, zone: string | undefined): number {
  if (zone === undefined) return 0
  let format = formats.get(zone)
  if (!format) {
    format = new Intl.DateTimeFormat('en-US', { timeZone: zone, hourCycle: 'h23', year: 'numeric', month: 'numeric', day: 'numeric', hour: 'numeric', minute: 'numeric', second: 'numeric' })
    formats.set(zone, format)
  }
  const parts: Record<string, number> = {}
  for (const { type, value } of format.formatToParts(at)) parts[type] = Number(value)
  const { year = 1970, month = 1, day: date = 1, hour = 0, minute = 0, second = 0 } = parts
  return Date.UTC(year, month - 1, date, hour, minute, second) - Math.floor(at / 1000) * 1000
}

/** Returns the first instant at which the clocks of a zone show a time or a later one, in ms. */
function firstShowing(wall: number, zone: string | undefined): number {
  const [early, late] = [wall - 1.5 * day, wall + 1.5 * day]
  const [before, after] = [offsetAt(early, zone), offsetAt(late, zone)]
  if (before === after) return wall - before
  let [from, to] = [early, late] // the clocks are changed in between
  while (to - from > 1) {
    const middle = Math.floor((from + to) / 2)
    if (offsetAt(middle, zone) === before) from = middle
    else to = middle
  }
  return wall - before < to ? wall - before : Math.max(to, wall - after)
}
