import type { Call, Decider } from '@redis-throttle/client'

/** A decider that notes which calls it gets, and hands them on. */
export function noting(next: Decider): Decider & { calls: Call[] } {
  const calls: Call[] = []
  return { calls, decide: (call, options) => { calls.push(call); return next.decide(call, options) } }
}
