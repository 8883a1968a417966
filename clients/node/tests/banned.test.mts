// A ban denies before any limit is asked: what a call of a banned key is charged.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { rate } from '@redis-throttle/client'
import { FakeLimiter } from '@redis-throttle/client/testing'

test('STRICT charges a banned key nothing', async () => {
  const limiter = new FakeLimiter()
  limiter.setTime(new Date('2026-01-01T00:00:00Z'))
  const limits = rate(5, '1h')
  await limiter.ban('k', '1m')
  assert.equal((await limiter.limit('k', limits, { charge: 'strict' })).limited, true)
  limiter.advance('1m')
  assert.equal((await limiter.limit('k', limits)).remaining, 4)
})
