// The tests that @fastify/rate-limit has for its store for Redis, with ours in its place. The other libraries have no
// tests for stores of others.
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { test } from 'node:test'
import { packageFolder, Server } from './servers.mjs'

// What our store does otherwise, and the reason.
const otherwise: Record<string, string> = {
  'With redis store and exponential backoff': 'the store refuses exponentialBackoff',
  'Route-specific exponential backoff with redis store': 'the store refuses exponentialBackoff',
  'Throw on redis error': 'the text of the error says which command failed',
  'With { increment: false } it throws on redis error': 'the text of the error says which command failed',
  'Redis with continueExceeding should not always return the timeWindow as ttl': 'an exact window is empty a whole timeWindow after the last unit, not after the first',
}

test('the tests of @fastify/rate-limit for Redis pass with our store', async () => {
  await using server = await Server.start()
  const suite = path.join(packageFolder, 'node_modules/@fastify/rate-limit/test/redis-rate-limit.test.js')
  const preload = path.join(packageFolder, 'build/tests/fastify-suite.cjs')
  // A test that fails leaves connections open, which keep a process from ending. A test that is told that it is run by
  // another one does not print what we read.
  const { stdout } = spawnSync(process.execPath, ['--require', preload, '--test-reporter=tap', '--test-force-exit', suite], {
    encoding: 'utf8',
    env: { ...process.env, NODE_TEST_CONTEXT: undefined, THROTTLE_PORT: String(server.port) },
    timeout: 120_000,
  })
  const ended = [...stdout.matchAll(/^ {4}(not )?ok \d+ - (.*)$/gm)].map(([, not, name = '']) => ({ name: name.replace(/\\/g, ''), passed: not === undefined }))
  assert.ok(ended.length > 10, stdout)
  for (const { name, passed } of ended) assert.equal(passed, !(name in otherwise), `${name}\n${stdout}`)
})
