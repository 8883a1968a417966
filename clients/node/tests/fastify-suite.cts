// Preloaded into the tests of @fastify/rate-limit: where a test gives the plugin a client of ioredis, it gets our store
// over it instead.
import type { Redis } from 'ioredis'

const { Limiter } = require('@redis-throttle/client') as typeof import('@redis-throttle/client')
const { throttleStore } = require('@redis-throttle/client/fastify-rate-limit') as typeof import('@redis-throttle/client/fastify-rate-limit')
const loader = require('node:module') as { _load: (this: unknown, name: string, parent?: { filename: string }, ...rest: unknown[]) => unknown }
const load = loader._load

type Plugin = (app: unknown, options: object) => Promise<void>

function withStore(plugin: Plugin): Plugin {
  const wrapped: Plugin = (app, { redis, nameSpace, ...options }: { redis?: Redis; nameSpace?: string }) => {
    if (!redis) return plugin(app, options)
    const limiter = new Limiter(redis)
    return plugin(app, { ...options, store: throttleStore(nameSpace ? { limiter, prefix: nameSpace } : { limiter }) })
  }
  return Object.assign(wrapped, plugin) // with what fastify-plugin marks it with
}

loader._load = function (name, parent, ...rest) {
  const loaded = load.call(this, name, parent, ...rest)
  if (!parent?.filename.includes('@fastify/rate-limit/test/')) return loaded
  if (name === '../index') return withStore(loaded as Plugin)
  if (name !== 'ioredis') return loaded
  return class extends (loaded as typeof Redis) {
    constructor(options: object) {
      super({ ...options, port: Number(process.env['THROTTLE_PORT']) })
    }
  }
}
