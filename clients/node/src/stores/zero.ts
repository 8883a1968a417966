// Limits of 0 let nobody through. The server does not take them yet, so what stands over a limiter decides them here.
import type { Call } from '../call.js'
import type { Decider } from '../decider.js'
import { makeResult, type Result } from '../result.js'

/** Decides a call whose limits may be 0. Then nothing is charged, and it makes no difference whether the server is there. */
export async function decide(limiter: Decider, call: Call): Promise<Result> {
  const zero = call.keys.some(({ limits }) => limits?.some(({ fields }) => fields.count === 0))
  if (!zero) return await limiter.decide(call)
  for (const [keyIndex, { name, limits = [] }] of call.keys.entries()) {
    const rule = limits.findIndex(({ fields }) => fields.count === 0 && !fields.shadow)
    if (rule >= 0) return makeResult({ limited: true, key: name, keyIndex, rule, retryAfterMs: null })
  }
  // A shadow would always deny: as one does that leaves no unit.
  const keys = call.keys.map((key) => ({ ...key, limits: (key.limits ?? []).map((limit) => (limit.fields.count === 0 ? limit.with({ count: 1, spare: limit.fields.burst ?? 1 }) : limit)) }))
  return await limiter.decide({ ...call, keys })
}
