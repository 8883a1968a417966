// One process's part of the limits of a call.
import type { Call, Key } from '../call.js'
import { word } from '../duration.js'
import type { Limit } from '../limit.js'

/**
 * Returns a call with one process's part of its limits, undefined if that is no unit. All processes together never let
 * more through than the limits do, unless `atLeastOne`.
 *
 *     RATE     the same rate, that many times as slow, exactly; the capacity divided, rounded down
 *     WINDOW   the count divided, rounded down
 *     FIXED    the count divided, rounded down
 *     slots    divided, rounded down
 *     spare    divided, rounded up
 *
 * What is said of the call, such as `cost` and `take`, is not divided.
 */
export function share(call: Call, processes: number, atLeastOne: boolean, known = new WeakMap<Limit, { part: Limit | undefined }>()): Call | undefined {
  if (processes === 1) return call
  const part = (units: number) => (Math.floor(units / processes) >= 1 ? Math.floor(units / processes) : atLeastOne && units > 0 ? 1 : 0)
  const keys: Key[] = []
  for (const key of call.keys) {
    const limits = key.limits?.map((limit) => {
      const there = known.get(limit) ?? { part: partOf(limit, processes, part) }
      known.set(limit, there)
      return there.part
    })
    const slots = key.slots === undefined ? undefined : part(key.slots)
    if (limits?.includes(undefined) || slots === 0) return undefined
    keys.push({ ...key, ...(limits && { limits: limits as Limit[] }), ...(slots !== undefined && { slots }) })
  }
  return { ...call, keys }
}

function partOf(limit: Limit, processes: number, part: (units: number) => number): Limit | undefined {
  const { kind, count, spare } = limit.fields
  if (count === 0) return limit
  const spared = spare === undefined ? {} : { spare: Math.ceil(spare / processes) }
  const own = part(kind === 'RATE' ? limit.capacity : count)
  if (own === 0) return undefined
  if (kind !== 'RATE') return limit.with({ ...spared, count: own })
  if (count % processes === 0) return limit.with({ ...spared, count: count / processes, burst: own })
  try {
    return limit.with({ ...spared, period: word(limit.periodNs * BigInt(processes)) as `${number}ms`, burst: own })
  } catch {
    return undefined // longer than any period can be
  }
}
