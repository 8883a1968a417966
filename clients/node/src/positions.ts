// Code generated from spec/replies.json by go generate ./spec; DO NOT EDIT.

/** The positions of fields in replies with COMPACT. */
export const positions = {
  throttle: { limited: 0, limit: 1, remaining: 2, retryAfter: 3, resetAfter: 4 },
  limit: { limited: 0, rule: 1, limit: 2, remaining: 3, retryAfterMs: 4, resetAfterMs: 5, nextAfterMs: 6, granted: 7, waitMs: 8, shadow: 9 },
  mlimit: { limited: 0, rule: 1, limit: 2, remaining: 3, retryAfterMs: 4, resetAfterMs: 5, nextAfterMs: 6, granted: 7, waitMs: 8, shadow: 9, key: 10 },
  settle: { settled: 0, rule: 1, limit: 2, remaining: 3, retryAfterMs: 4, resetAfterMs: 5, nextAfterMs: 6, granted: 7, waitMs: 8, shadow: 9, key: 10 },
  lease: { limited: 0, limit: 1, remaining: 2, retryAfterMs: 3, leaseMs: 4, waitMs: 5 },
  each: { limited: 0, limit: 1, remaining: 2, retryAfterMs: 3, resetAfterMs: 4 },
} as const
