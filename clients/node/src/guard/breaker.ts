// A circuit breaker, with the rules of the Go client's: it leaves a server alone that fails, and lets one call try it
// after a pause.

/** What a call says about the server: nothing, if it is a mistake, or if its caller has left. */
export type Verdict = 'up' | 'down' | 'nothing'

const windowMs = 10_000 // in which failures are counted together that are not in a row

interface Counts {
  requests: number
  underWay: number
  failures: number
  inARow: number // also those of earlier windows: calls may take seconds to fail
}

export class Breaker {
  readonly #most: number
  readonly #pauseMs: number
  readonly #changed: (open: boolean) => void
  #state: 'closed' | 'open' | 'trying' = 'closed'
  #generation = 0
  #until = performance.now() + windowMs // of a window, or of a pause
  #counts: Counts = { requests: 0, underWay: 0, failures: 0, inARow: 0 }

  /** `changed` is told when the breaker opens and when it closes. */
  constructor(failures: number, pauseMs: number, changed: (open: boolean) => void) {
    this.#most = failures
    this.#pauseMs = pauseMs
    this.#changed = changed
  }

  /** Whether the server is left alone, or is just being tried again. */
  get out(): boolean {
    return this.#now() !== 'closed'
  }

  /** Until the server is tried again, in ms: once more, where that is being done. */
  get untilRetryMs(): number {
    return this.#state === 'open' ? Math.max(this.#until - performance.now(), 1) : this.#pauseMs
  }

  /** Lets a call through, and returns what `after` needs; undefined leaves the server alone. */
  before(): number | undefined {
    const state = this.#now()
    if (state === 'open' || (state === 'trying' && this.#counts.requests >= 1)) return undefined
    this.#counts.requests++
    this.#counts.underWay++
    return this.#generation
  }

  /** Counts what a call has said about the server. */
  after(generation: number, verdict: Verdict): void {
    const state = this.#now()
    if (generation !== this.#generation) return
    this.#counts.underWay--
    if (verdict === 'nothing') {
      if (state === 'trying') this.#counts.requests--
    } else if (verdict === 'up') {
      this.#counts.inARow = 0
      if (state === 'trying') this.#to('closed')
    } else if (state === 'trying') {
      this.#to('open')
    } else {
      const { requests } = this.#counts
      const failures = ++this.#counts.failures
      const inARow = ++this.#counts.inARow
      if (inARow >= this.#most || (failures >= 4 * this.#most && 2 * failures >= requests)) this.#to('open')
    }
  }

  #now(): 'closed' | 'open' | 'trying' {
    if (this.#state === 'closed' && performance.now() > this.#until) {
      this.#until = performance.now() + windowMs
      this.#counts.requests = this.#counts.underWay
      this.#counts.failures = 0
    } else if (this.#state === 'open' && performance.now() > this.#until) this.#to('trying')
    return this.#state
  }

  #to(state: 'closed' | 'open' | 'trying'): void {
    const was = this.#state
    this.#state = state
    this.#generation++
    this.#counts = { requests: 0, underWay: 0, failures: 0, inARow: 0 }
    this.#until = performance.now() + (state === 'open' ? this.#pauseMs : windowMs)
    if (was === 'closed' || state === 'closed') this.#changed(state !== 'closed')
  }
}
