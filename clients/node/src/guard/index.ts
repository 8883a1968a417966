// Protects a service from an outage of Redis.
import type { Decider } from '../decider.js'
import { Guard, type GuardOptions } from './guard.js'
import { Local } from './local.js'

/**
 * Returns a decider that leaves a server alone after a few failures in a row, so that it costs no time, and decides by
 * a policy until the server is back.
 *
 *     const limiter = new Limiter(guard(new Limiter(client), { policy: 'local', processes: 8 }))
 *
 * Only outages count (`isOutage`). A mistake and an overload are thrown with every policy, and do not open the breaker.
 * Neither does a caller that leaves. The policy decides what is new: limits, peeks, waits, leases and admissions.
 * Nobody stands in line meanwhile: with `local` a wait is limited where a limit would be. What is about the state on
 * the server fails: refunds, bans, and leases that the server granted. A lease that `local` granted is renewed,
 * released and settled in this process, also when the server is back; the server knows nothing of it, and grants all of
 * its slots beside it until it ends.
 *
 * When the pause is over, one call tries the server; never one that waits.
 *
 * A limiter on a client has a breaker of its own, with the policy `fail`. The guard takes its place. Put `cached` or
 * `batched` before the guard, not behind it.
 */
export function guard(next: Decider, options: GuardOptions = {}): Guard {
  return new Guard(next, options, (processes, atLeastOne, keys) => new Local(processes, atLeastOne, keys))
}
