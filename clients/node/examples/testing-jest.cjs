// A test with jest, in CommonJS: in the process, and on a server of throttle-dev.
const { Limiter, rate } = require('@redis-throttle/client')
const { fromUrl } = require('@redis-throttle/client/ioredis')
const { FakeLimiter, ThrottleDev } = require('@redis-throttle/client/testing')

const perMinute = rate(2, '1m')

test('an outage is told, in the process and on a server', async () => {
  const fake = new FakeLimiter()
  fake.fail()
  await expect(fake.limit('mail:ann', perMinute)).rejects.toMatchObject({ code: 'OUTAGE' })

  const server = await ThrottleDev.start()
  const limiter = await fromUrl(server.url, { breaker: false })
  expect(await limiter.limit('mail:ann', perMinute)).toMatchObject({ limited: false, remaining: 1 })
  await server.stop()
  await expect(limiter.limit('mail:ann', perMinute)).rejects.toMatchObject({ code: 'OUTAGE' })
  await expect(limiter.wait('mail:ann', perMinute)).rejects.toMatchObject({ code: 'OUTAGE' })
  await limiter.close()
})

test('who is limited is told when to try again', async () => {
  const limiter = new Limiter(new FakeLimiter())
  await limiter.limit('mail:ann', perMinute, { cost: 2 })
  expect(await limiter.limit('mail:ann', perMinute)).toMatchObject({ limited: true, retryAfterMs: 30_000 })
})
