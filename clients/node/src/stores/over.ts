// What the stores need so that their hosts can read that a key is over its limit. A call that is denied charges
// nothing, so an exact limit is never over. But hosts count what was denied, and recipes such as the login protection
// of their manuals go by that count.
//
// So a denied call leaves a mark: a ban on a key of its own, until the call can succeed. The mark decides nothing. A
// ban on the key itself would: it would also deny smaller calls, calls of another limit on the same key, and those that
// a refund has made room for.
import type { Duration } from '../duration.js'
import { isOutage, isOverload } from '../errors.js'
import type { Limit } from '../limit.js'
import type { Limiter } from '../limiter.js'
import type { Result } from '../result.js'

const more = 2 ** 40
/** Larger counts are no limits: nobody takes so many units, and the commands take no larger ones. */
export const greatest = Number.MAX_SAFE_INTEGER

/**
 * Returns how many hits a host is told of, whose own limit is `most`: what it takes for denied if the call was, and
 * what leaves as much as there is. A policy may have another limit than the host.
 */
export function hitsOf(result: Result, most: number): number {
  if (result.limited) return most + 1
  return result.by === 'none' ? 1 : Math.max(most - result.remaining, 1)
}

/**
 * Returns a limit that sees the same units, and those in debt, too: what was taken of a window belongs to its period,
 * whatever its count.
 */
export function counting(limit: Limit): Limit {
  return limit.with({ count: Math.min(limit.fields.count + more, greatest) })
}

/**
 * Returns all units of a key that was just banned, since hosts count from zero after a block. The ban comes first, so
 * nobody gets through in between.
 */
export async function startAnew(limiter: Limiter, key: string, limit: Limit): Promise<void> {
  await afterwards(() => limiter.refund(key, counting(limit), { cost: greatest }), 'a key that is blocked keeps what it has used, so it may stay out for longer than its block')
}

const told = new Set<string>()

/**
 * Does what comes after a decision, which holds without it. A missing permission does not go away by itself: it is told
 * once.
 */
async function afterwards(act: () => Promise<unknown>, what: string): Promise<void> {
  try {
    await act()
  } catch (error) {
    if (isOutage(error) || isOverload(error) || told.has(what)) return
    told.add(what)
    console.error(`redis-throttle: ${what}: ${error instanceof Error ? error.message : String(error)}`)
  }
}

/** The marks of a store. */
export class Marks {
  readonly #limiter: Limiter
  readonly #setting = new Map<string, Promise<void>>()

  constructor(limiter: Limiter) {
    this.#limiter = limiter
  }

  /**
   * Marks the key of a call that was denied until it can succeed. For a call that never can, the mark lasts for
   * `never`.
   */
  async set(key: string, limit: Limit, result: Result, never: Duration): Promise<void> {
    if (!result.limited || result.banned || limit.capacity === 0) return
    const mark = markOf(key, limit)
    // Many calls that are denied at a time set one mark. It is not remembered for longer: another process may lift it.
    let setting = this.#setting.get(mark)
    if (!setting) {
      setting = this.#ban(mark, result.retryAfterMs === null ? never : `${result.retryAfterMs}ms`).finally(() => this.#setting.delete(mark))
      this.#setting.set(mark, setting)
    }
    await setting
  }

  /** Returns for how many ms a key is marked. */
  async get(key: string, limit: Limit): Promise<number> {
    const { banned, resetAfterMs } = await this.#limiter.peek(markOf(key, limit), limit.with({ policy: undefined }), { cost: 0 })
    return banned ? resetAfterMs : 0
  }

  /** Removes a mark: there is room again. */
  async lift(key: string, limit: Limit): Promise<void> {
    await this.#ban(markOf(key, limit), '0')
  }

  async #ban(mark: string, duration: Duration): Promise<void> {
    await afterwards(() => this.#limiter.ban(mark, duration), 'a key that is over its limit cannot be marked, so its host does not read that it is')
  }
}

// Limits of the same key have a mark each: being over one says nothing about another.
function markOf(key: string, limit: Limit): string {
  return `${key}:over ${limit.policy}`
}
