// What the stores need so that their hosts can read that a key is over its limit. A call that is denied charges nothing, so an exact
// limit is never over. But hosts count what was denied, and recipes such as the login protection of their manuals go by that count.
import type { Duration } from './duration'
import { isOutage, isOverload } from './errors'
import type { Limit } from './limit'
import type { Limiter } from './limiter'
import type { Result } from './result'

const more = 2 ** 40
let told = false

/** Returns a limit that sees the same units, and those in debt, too: what was taken of a window belongs to its period, whatever its count. */
export function counting(limit: Limit): Limit {
  return limit.with({ count: limit.fields.count + more })
}

/**
 * Bans the key of a call that was denied until it can succeed. Nobody could have come in before. For a call that never can, the ban
 * lasts for `never`.
 */
export async function hold(limiter: Limiter, key: string, result: Result, never?: Duration): Promise<void> {
  const duration = result.retryAfterMs === null ? never : `${result.retryAfterMs}ms`
  if (!result.limited || result.banned || result.limit === 0 || duration === undefined) return
  try {
    await limiter.ban(key, duration)
  } catch (error) {
    // It is denied all the same, and the next call tries again. A missing permission does not go away by itself.
    if (isOutage(error) || isOverload(error) || told) return
    told = true
    console.error(`redis-throttle: a key that is over its limit cannot be marked, so its host does not read that it is: ${error instanceof Error ? error.message : String(error)}`)
  }
}
