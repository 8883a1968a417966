// Tells the server of calls that were denied without it, for its CL.TOP.
import type { Decider } from '../decider.js'
import { isOutage, isOverload } from '../errors.js'

/** How often reports are sent, and how many at a time: a round is at most so many calls. */
const everyMs = 1000
const perRound = 100
/** How many keys may wait to be reported, and how many characters a key may have. */
const most = 10_000
const longest = 1024
/** What CL.DENIED takes. */
const atOnce = 10_000
/** How long nothing is counted after the server said that CL.TOP is off, or was out of reach. */
const untilOnMs = 60_000
/**
 * That time after it refused the command: its module is older, it has none, or the user has no right. Each try may be
 * noted in its ACL LOG.
 */
const untilKnownMs = 3_600_000

/**
 * Counts denials by key, and tells the server in the background. Nobody waits for it, and it forgets what it cannot
 * tell.
 */
export class Reports {
  readonly #next: Decider
  readonly #counts = new Map<string, number>() // those that were denied first are reported first
  #silent = -Infinity // until when nothing is counted
  #sends = false // a round is due, or under way

  constructor(next: Decider) {
    this.#next = next
  }

  count(key: string): void {
    const n = this.#counts.get(key)
    if (n === undefined && (this.#counts.size === most || key.length > longest || performance.now() < this.#silent)) return
    this.#counts.set(key, (n ?? 0) + 1)
    if (!this.#sends) this.#due()
  }

  #due(): void {
    this.#sends = true
    setTimeout(() => void this.#send(), everyMs).unref()
  }

  /** A round. One call follows the other. */
  async #send(): Promise<void> {
    for (let sent = 0; sent < perRound; sent++) {
      const [first] = this.#counts
      if (first === undefined) {
        this.#sends = false
        return
      }
      const [name, n] = first
      const cost = Math.min(n, atOnce)
      if (cost === n) this.#counts.delete(name)
      else this.#counts.set(name, n - cost)
      try {
        const { granted } = await this.#next.decide({ verb: 'denied', keys: [{ name }], cost })
        if (granted === cost) continue
        this.#forget(untilOnMs)
      } catch (error) {
        this.#forget(isOutage(error) || isOverload(error) ? untilOnMs : untilKnownMs)
      }
      return
    }
    this.#due()
  }

  #forget(ms: number): void {
    this.#counts.clear()
    this.#sends = false
    this.#silent = performance.now() + ms
  }
}
