// A test with vitest: in the process, and on a server of throttle-dev.
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { rate } from '@redis-throttle/client'
import { fromUrl } from '@redis-throttle/client/redis'
import { FakeLimiter, ThrottleDev } from '@redis-throttle/client/testing'

// What is tested: two messages a minute for each user.
const send = async (limiter, user) => ((await limiter.limit(`mail:${user}`, rate(2, '1m'))).limited ? 'try later' : 'sent')

let server, limiter
beforeAll(async () => {
  server = await ThrottleDev.start()
  limiter = await fromUrl(server.url)
})
beforeEach(() => server.flush())
afterAll(async () => {
  await limiter.close()
  await server.stop()
})

test('the third message of a minute is refused, in the process and on a server', async () => {
  await server.setTime(new Date('2026-01-31T12:00:00Z'))
  for (const [each, clock] of [[new FakeLimiter()], [limiter, server]]) {
    for (const expected of ['sent', 'sent', 'try later']) expect(await send(each, 'ann')).toBe(expected)
    await (clock ?? each).advance('1m')
    expect(await send(each, 'ann')).toBe('sent')
  }
})
