// What ends leases goes on in the background when it meets an outage: what they hold would be held for their ttl
// otherwise.
import type { Call } from './call.js'
import { OutageError, OverloadError } from './errors.js'
import type { Result } from './result.js'

interface Ending {
  stopped: boolean
  attempt: Promise<Result> | undefined
}

const most = 1000
const firstPause = 50
const longestPause = 5000

const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms).unref())

export const passes = (error: unknown): error is OutageError | OverloadError => error instanceof OutageError || error instanceof OverloadError

/** Calls that end leases, and that are repeated in the background. */
export class Endings {
  readonly #send: (call: Call) => Promise<Result>
  readonly #endings = new Map<string, Ending>()

  constructor(send: (call: Call) => Promise<Result>) {
    this.#send = send
  }

  get size(): number {
    return this.#endings.size
  }

  /** Repeats a call until a lease was ended, `nones` replies say that there is none, or `ms` are over. */
  begin(call: Call, ms: number, nones: number): void {
    const names = namesOf(call)
    if (this.#endings.size + names.length > most) return // what they hold is free after its ttl
    const ending: Ending = { stopped: false, attempt: undefined }
    for (const name of names) this.#endings.set(name, ending)
    void this.#run(call, ending, performance.now() + ms, nones).finally(() => {
      for (const name of names) if (this.#endings.get(name) === ending) this.#endings.delete(name)
    })
  }

  async #run(call: Call, ending: Ending, ends: number, nones: number): Promise<void> {
    let left = nones
    for (let pause = firstPause; left > 0; pause = Math.min(pause * 2, longestPause)) {
      await sleep(Math.min(pause, Math.max(ends - performance.now(), 0)))
      if (ending.stopped || performance.now() >= ends) return
      try {
        ending.attempt = this.#send(call)
        const { limited, granted } = await ending.attempt
        left = (call.verb === 'settle' ? !limited : granted !== 0) ? 0 : left - 1
      } catch (error) {
        if (!passes(error)) return
      }
    }
  }

  /** Stops what would end the lease that a call takes or renews. */
  async stop(call: Call): Promise<void> {
    for (const name of namesOf(call)) {
      const ending = this.#endings.get(name)
      if (!ending) continue
      ending.stopped = true
      await ending.attempt?.catch(() => {})
    }
  }
}

/** Returns what the leases of a call are called: an id is that of a lease of one key. */
function namesOf(call: Call): string[] {
  return call.keys.map(({ name }) => `${name}\0${call.id ?? ''}`)
}
