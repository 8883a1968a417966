// Tells observers of each decision: metrics, traces, logs.
import type { Call, Leave } from '../call.js'
import { asDecider, type Decider } from '../decider.js'
import { isOutage, isOverload } from '../errors.js'
import { nameOf } from '../limit.js'
import { type By, inForce, type Result } from '../result.js'

/** How a decision went. */
export type OutcomeWord = 'allowed' | 'limited' | 'outage' | 'overload' | 'cancelled' | 'error'

/** What an observer learns of a decision. */
export interface Decision {
  /** What was asked. */
  readonly call: Call
  /** How it went; undefined if there is an error. */
  readonly result: Result | undefined
  /** What was thrown; undefined if there is a result. */
  readonly error: unknown
  /** How long the caller waited for it. */
  readonly durationMs: number
  /** The outcome in a word, for the labels of metrics. */
  readonly outcome: OutcomeWord
  /** Where it was decided, and `server` for a call that failed there. */
  readonly by: By
  /**
   * The name of the limit that decided, as the RateLimit fields have it; `''` where none did: after an error, with
   * leases, of a banned key, and where no limit was asked (`by` is `policy` or `none`).
   */
  readonly policy: string
  /** The name of the limit that would have denied the call if it were enforced (`shadow`); `''` where there is none. */
  readonly shadowed: string
}

/** Learns of decisions: see `observed`. */
export type Observer = (decision: Decision) => void

/**
 * Returns a decider with observers, which are called after each decision, in their order; the caller waits for them.
 * What an observer throws is logged, and changes no decision. Put it around everything else, so that it sees what was
 * decided where. An observer sees the keys, which may hold addresses and secrets; those of this package do not pass
 * them on.
 *
 *     const limiter = new Limiter(observed(new Limiter(client), (decision) => log(decision.outcome)))
 */
export function observed(next: Decider, ...observers: Observer[]): Decider {
  asDecider(next, 'next')
  for (const observe of observers) if (typeof observe !== 'function') throw new TypeError('observed: an observer is a function')
  return {
    async decide(call: Call, options?: Leave): Promise<Result> {
      if (call.verb === 'denied') return await next.decide(call, options) // it decides nothing; whoever denied those calls was observed
      const began = performance.now()
      let result: Result | undefined
      let error: unknown
      try {
        result = await next.decide(call, options)
        return result
      } catch (failed) {
        error = failed
        throw failed
      } finally {
        const decision = decisionOf(call, result, error, performance.now() - began, options?.signal)
        for (const observe of observers) {
          try {
            observe(decision)
          } catch (thrown) {
            console.error('redis-throttle: an observer has thrown:', thrown)
          }
        }
      }
    },
  }
}

function decisionOf(call: Call, result: Result | undefined, error: unknown, durationMs: number, signal: AbortSignal | undefined): Decision {
  const named = (keyIndex: number, rule: number) => {
    const limits = inForce(call.keys, result, keyIndex)
    return rule < limits.length ? nameOf(limits, rule) : ''
  }
  return {
    call, result, error, durationMs,
    outcome: result ? (result.limited ? 'limited' : 'allowed') : isOutage(error) ? 'outage' : isOverload(error) ? 'overload' : signal?.aborted ? 'cancelled' : 'error',
    by: result?.by ?? 'server',
    policy: result && !result.banned && result.by !== 'policy' && result.by !== 'none' ? named(result.keyIndex, result.rule) : '',
    shadowed: result?.shadowed ? named(result.shadowKeyIndex, result.shadow) : '',
  }
}

/** How long decisions take, in seconds: from one in this process to an outage. */
const buckets = [50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 500e-3, 1]

/** What is needed of prom-client. */
export interface PromClient<Registry> {
  /** Its class of counters. */
  Counter: new (options: { name: string; help: string; labelNames: string[]; registers?: Registry[] }) => { inc(labels: Record<string, string>): void }
  /** Its class of histograms. */
  Histogram: new (options: { name: string; help: string; labelNames: string[]; buckets: number[]; registers?: Registry[] }) =>
    { observe(labels: Record<string, string>, value: number): void }
}

/**
 * Returns an observer that counts and times decisions for Prometheus, by prom-client:
 * `ratelimit_decisions_total{verb, outcome, policy, by}`, `ratelimit_shadowed_total{policy}` and
 * `ratelimit_decision_duration_seconds{verb, by}`, as from the Go client.
 *
 *     import * as prometheus from 'prom-client'
 *     const limiter = new Limiter(observed(new Limiter(client), prometheusMetrics(prometheus)))
 *
 * There is no label for keys: each would be a time series for ever. For the same reason the names of limits must come
 * from the program.
 */
export function prometheusMetrics<Registry>(client: PromClient<Registry>,
  options: { readonly register?: Registry; readonly namespace?: string } = {}): Observer {
  const { register, namespace = 'ratelimit' } = options
  const registers = register === undefined ? {} : { registers: [register] }
  const decisions = new client.Counter({ name: `${namespace}_decisions_total`, help: 'Decisions of the rate limiter, by verb, by outcome, by the limit that decided, and by where it was decided.', labelNames: ['verb', 'outcome', 'policy', 'by'], ...registers })
  const shadowed = new client.Counter({ name: `${namespace}_shadowed_total`, help: 'Decisions that a limit would have denied if it were enforced, by that limit.', labelNames: ['policy'], ...registers })
  const durations = new client.Histogram({ name: `${namespace}_decision_duration_seconds`, help: 'How long callers waited for a decision of the rate limiter, by where it was decided.', labelNames: ['verb', 'by'], buckets, ...registers })
  return (decision) => {
    const { call: { verb }, outcome, policy, by } = decision
    decisions.inc({ verb, outcome, policy, by })
    if (decision.shadowed !== '') shadowed.inc({ policy: decision.shadowed })
    durations.observe({ verb, by }, decision.durationMs / 1000)
  }
}

/** What is needed of a meter of OpenTelemetry. */
export interface Meter {
  /** Makes a counter. */
  createCounter(name: string, options: { description: string; unit: string }): { add(value: number, attributes: Record<string, string>): void }
  /** Makes a histogram. */
  createHistogram(name: string, options: { description: string; unit: string;
    advice: { explicitBucketBoundaries: number[] } }): { record(value: number, attributes: Record<string, string>): void }
}

/**
 * Returns an observer that counts and times decisions by a meter of OpenTelemetry: `ratelimit.decisions`,
 * `ratelimit.shadowed` and `ratelimit.decision.duration`, as from the Go client.
 *
 *     const limiter = new Limiter(observed(new Limiter(client), openTelemetryMetrics(metrics.getMeter('redis-throttle'))))
 */
export function openTelemetryMetrics(meter: Meter): Observer {
  const decisions = meter.createCounter('ratelimit.decisions', { description: 'Decisions of the rate limiter.', unit: '{decision}' })
  const shadowed = meter.createCounter('ratelimit.shadowed', { description: 'Decisions that a limit would have denied if it were enforced.', unit: '{decision}' })
  const durations = meter.createHistogram('ratelimit.decision.duration', { description: 'How long callers waited for a decision of the rate limiter.', unit: 's', advice: { explicitBucketBoundaries: buckets } })
  return (decision) => {
    const { call: { verb }, outcome, policy, by } = decision
    decisions.add(1, { 'ratelimit.verb': verb, 'ratelimit.outcome': outcome, 'ratelimit.policy': policy, 'ratelimit.by': by })
    if (decision.shadowed !== '') shadowed.add(1, { 'ratelimit.policy': decision.shadowed })
    durations.record(decision.durationMs / 1000, { 'ratelimit.verb': verb, 'ratelimit.by': by })
  }
}
