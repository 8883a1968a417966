// Recipes of the manual of rate-limiter-flexible: our limiter beside its own.
import assert from 'node:assert/strict'
import { after, describe, test } from 'node:test'
import { Redis } from 'ioredis'
import {
  BurstyRateLimiter, type RateLimiterAbstract, RateLimiterMemory, RateLimiterQueue, RateLimiterRedis, RateLimiterRes, RateLimiterUnion,
    RLWrapperBlackAndWhite, RLWrapperTimeouts,
} from 'rate-limiter-flexible'
import { Limiter } from '@redis-throttle/client'
import { RateLimiterThrottle } from '@redis-throttle/client/rate-limiter-flexible'
import { compare, onAServer, ownPrefix, type Recipe } from './recipes.mjs'
import { until } from './servers.mjs'

let away: Redis
let closed: Redis
let limiter: Limiter
const there = onAServer(async (client) => {
  away = new Redis({ port: 1, host: '127.0.0.1', enableOfflineQueue: false })
  away.on('error', () => {})
  closed = new Redis({ port: 1, host: '127.0.0.1', retryStrategy: () => null })
  closed.on('error', () => {})
  await until(() => closed.status === 'end', 'the client gives up')
  limiter = new Limiter(client, { timeout: '10s' })
})
after(() => {
  away.disconnect()
})

interface Options {
  points: number
  duration: number
  blockDuration?: number
  keyPrefix?: string
  insuranceLimiter?: RateLimiterAbstract
  /** Its Redis is out of reach, or its client has given up connecting. */
  away?: true | 'for ever'
}

/** Makes a limiter. Those of one recipe share what their keys begin with. */
type Make = (options: Options) => RateLimiterAbstract

function maker(make: (options: Options & { keyPrefix: string }) => RateLimiterAbstract): () => Make {
  return () => {
    const prefix = ownPrefix()
    return ({ keyPrefix = '', ...options }) => make({ ...options, keyPrefix: prefix + keyPrefix })
  }
}

const clientOf = (gone: Options['away']) => (gone === 'for ever' ? closed : gone ? away : there.client)

const theirs: Record<string, () => Make> = {
  RateLimiterRedis: maker(({ away: gone, ...options }) => new RateLimiterRedis({ storeClient: clientOf(gone), ...options })),
  RateLimiterMemory: maker((options) => new RateLimiterMemory(options)),
}
const ours = maker(({ away: gone, ...options }) => new RateLimiterThrottle({ limiter: gone ? new Limiter(clientOf(gone)) : limiter, ...options }))

interface Consumer {
  consume: (key: string, points?: number) => Promise<unknown>
}

/** Consumes points, and returns what the answer to a request would be. */
async function ask(from: Consumer, key: string, points = 1): Promise<number> {
  try {
    await from.consume(key, points)
    return 200
  } catch (error) {
    if (error instanceof Error) throw error
    return 429
  }
}

async function times(n: number, act: () => Promise<number>): Promise<number[]> {
  const statuses = []
  for (let i = 0; i < n; i++) statuses.push(await act())
  return statuses
}

async function isOver(of: RateLimiterAbstract, key: string): Promise<boolean> {
  const shown = await of.get(key)
  return shown !== null && shown.consumedPoints > of.points
}

const hour = 3600
const day = 24 * hour

/**
 * The login protection: wrong passwords count for the address, and for the account from there. A password that is right
 * forgets the latter.
 */
function logins(byAddress: RateLimiterAbstract, byBoth: RateLimiterAbstract) {
  return async (password: string, address = '203.0.113.7'): Promise<number> => {
    const both = `ann_${address}`
    if ((await isOver(byAddress, address)) || (await isOver(byBoth, both))) return 429
    if (password === 'wrong') {
      const [one, other] = await Promise.all([ask(byAddress, address), ask(byBoth, both)])
      return one === 200 && other === 200 ? 401 : 429
    }
    await byBoth.delete(both)
    return 200
  }
}

const recipes: Record<string, Recipe<Make>> = {
  'so many points in a duration': {
    run: async (make) => {
      const six = make({ points: 6, duration: hour })
      return await times(5, () => ask(six, 'k', 2))
    },
    gets: [200, 200, 200, 429, 429],
  },
  'a call that asks for more than there is, then a smaller one': {
    run: async (make) => {
      const six = make({ points: 6, duration: hour })
      return [await ask(six, 'k', 4), await ask(six, 'k', 4), await ask(six, 'k', 2), await ask(six, 'k', 1)]
    },
    gets: [200, 429, 429, 429],
    ours: [200, 429, 200, 429],
    because: 'a call that is denied charges nothing',
  },
  'login protection: a login that succeeds forgets the failures': {
    run: async (make) => {
      const login = logins(make({ keyPrefix: 'ip', points: 100, duration: day, blockDuration: day }),
        make({ keyPrefix: 'both', points: 3, duration: day, blockDuration: hour }))
      const statuses = []
      for (const password of ['wrong', 'wrong', 'right', 'wrong', 'wrong', 'wrong', 'wrong', 'right']) statuses.push(await login(password))
      return [...statuses, await login('right', '203.0.113.8')]
    },
    gets: [401, 401, 200, 401, 401, 401, 429, 429, 200],
  },
  'login protection: an address that tries many accounts is blocked': {
    run: async (make) => {
      const login = logins(make({ keyPrefix: 'ip', points: 4, duration: day, blockDuration: day }),
        make({ keyPrefix: 'both', points: 10, duration: day, blockDuration: hour }))
      return [...(await times(6, () => login('wrong'))), await login('right'), await login('right', '203.0.113.8')]
    },
    gets: [401, 401, 401, 401, 429, 429, 429, 200],
  },
  'login protection: after a block there are all attempts again': {
    run: async (make) => {
      const byBoth = make({ keyPrefix: 'both', points: 3, duration: day, blockDuration: 1 })
      const login = logins(make({ keyPrefix: 'ip', points: 100, duration: day, blockDuration: day }), byBoth)
      const first = await times(4, () => login('wrong'))
      await until(async () => !(await isOver(byBoth, 'ann_203.0.113.7')), 'the block ends')
      return [...first, ...(await times(4, () => login('wrong')))]
    },
    gets: [401, 401, 401, 429, 401, 401, 401, 429],
  },
  'a block by hand ends, and leaves all points': {
    run: async (make) => {
      const three = make({ points: 3, duration: day })
      const first = await times(2, () => ask(three, 'k'))
      await three.block('k', 1)
      await until(async () => !(await isOver(three, 'k')), 'the block ends')
      return [...first, ...(await times(4, () => ask(three, 'k')))]
    },
    gets: [200, 200, 200, 200, 200, 429],
  },
  'dynamic block duration: each block in a row is longer': {
    run: async (make) => {
      const login = make({ keyPrefix: 'login', points: 2, duration: day })
      const blocks = make({ keyPrefix: 'blocks', points: 99_999, duration: 0 })
      const seconds = []
      for (let i = 0; i < 4; i++) {
        while ((await ask(login, 'ann')) === 200);
        const { consumedPoints } = await blocks.penalty('ann')
        seconds.push(Math.round((await login.block('ann', consumedPoints * consumedPoints * 60)).msBeforeNext / 1000))
        if (i === 2) await blocks.delete('ann')
        await login.delete('ann') // as if time had passed
      }
      return [seconds, (await blocks.get('ann'))?.msBeforeNext]
    },
    gets: [[60, 240, 540, 60], -1],
  },
  'a duration of 0: points that never come back': {
    run: async (make) => {
      const trial = make({ points: 3, duration: 0 })
      const first = await times(4, () => ask(trial, 'k'))
      await trial.reward('k', 2)
      return [...first, await ask(trial, 'k')]
    },
    gets: [200, 200, 200, 429, 200],
  },
  'limits of parts of an application do not share points': {
    run: async (make) => {
      const [api, reports] = [make({ keyPrefix: 'api', points: 5, duration: 60 }), make({ keyPrefix: 'reports', points: 2, duration: hour })]
      return [await times(6, () => ask(api, 'k')), await times(3, () => ask(reports, 'k'))]
    },
    gets: [[200, 200, 200, 200, 200, 429], [200, 200, 429]],
  },
  'several instances share their points': {
    run: async (make) => {
      const instances = [0, 1, 2].map(() => make({ points: 5, duration: hour }))
      return (await Promise.all(instances.flatMap((one) => [0, 1, 2, 3].map(() => ask(one, 'k'))))).filter((status) => status === 200).length
    },
    gets: 5,
    without: ['RateLimiterMemory'],
  },
  'a union of limiters: each is asked, and one that denies is enough': {
    run: async (make) => {
      const union = new RateLimiterUnion(make({ keyPrefix: 'a', points: 2, duration: hour }), make({ keyPrefix: 'b', points: 4, duration: hour }))
      const denied = async () => {
        try {
          return Object.keys(await union.consume('k')).length
        } catch (rejected) {
          return Object.keys(rejected as object).map((prefix) => prefix.at(-1))
        }
      }
      const all = []
      for (let i = 0; i < 5; i++) all.push(await denied())
      return all
    },
    gets: [2, 2, ['a'], ['a'], ['a', 'b']],
  },
  'a limiter with bursts': {
    run: async (make) => {
      const bursty = new BurstyRateLimiter(make({ keyPrefix: 'rate', points: 2, duration: hour }), make({ keyPrefix: 'burst', points: 3, duration: hour }))
      return await times(7, () => ask(bursty as Consumer, 'k'))
    },
    gets: [200, 200, 200, 200, 200, 429, 429],
  },
  'a queue: whoever comes when it is full is refused': {
    run: async (make) => {
      const queue = new RateLimiterQueue(make({ points: 2, duration: 2 }), { maxQueueSize: 2 })
      const all = await Promise.allSettled([1, 2, 3, 4, 5].map(() => queue.removeTokens(1)))
      return all.map(({ status }) => status)
    },
    gets: ['fulfilled', 'fulfilled', 'fulfilled', 'fulfilled', 'rejected'],
  },
  'penalties and rewards': {
    run: async (make) => {
      const five = make({ points: 5, duration: hour })
      await five.penalty('k', 3)
      const first = await times(3, () => ask(five, 'k'))
      await five.delete('k')
      await five.penalty('k', 5)
      await five.reward('k', 2)
      return [...first, ...(await times(3, () => ask(five, 'k')))]
    },
    gets: [200, 200, 429, 200, 200, 429],
  },
  'a reward of who has used nothing': {
    run: async (make) => {
      const two = make({ points: 2, duration: hour })
      await two.reward('k', 2)
      return await times(5, () => ask(two, 'k'))
    },
    gets: [200, 200, 200, 200, 429],
    ours: [200, 200, 429, 429, 429],
    because: 'no limit gets fuller than full',
  },
  'points that change while it runs': {
    run: async (make) => {
      const changed = make({ points: 2, duration: hour })
      const first = await times(3, () => ask(changed, 'k'))
      changed.points = 5
      return [...first, ...(await times(3, () => ask(changed, 'k')))]
    },
    gets: [200, 200, 429, 200, 200, 429],
    ours: [200, 200, 429, 200, 200, 200],
    because: 'a call that is denied charges nothing',
  },
  'insurance: another limiter decides while Redis is away': {
    run: async (make) => {
      const insured = make({ away: true, points: 100, duration: hour, insuranceLimiter: new RateLimiterMemory({ points: 2, duration: hour }) })
      return await times(3, () => ask(insured, 'k'))
    },
    gets: [200, 200, 429],
    without: ['RateLimiterMemory'],
  },
  'insurance: a list of keys may decide': {
    run: async (make) => {
      const listed = new RLWrapperBlackAndWhite({ limiter: new RateLimiterMemory({ points: 1, duration: hour }), whiteList: ['friend'] })
      const insured = make({ away: true, points: 100, duration: hour, insuranceLimiter: listed as unknown as RateLimiterAbstract })
      return [await times(2, () => ask(insured, 'k')), await times(2, () => ask(insured, 'friend'))]
    },
    gets: [[200, 429], [200, 200]],
    without: ['RateLimiterMemory'],
  },
  'insurance: it may be given later, and be that of a wrapper with a time limit': {
    run: async (make) => {
      const insured = make({ away: true, points: 100, duration: hour })
      ;(insured as unknown as { insuranceLimiter: RateLimiterAbstract }).insuranceLimiter = new RateLimiterMemory({ points: 1, duration: hour })
      const statuses = await times(2, () => ask(insured, 'k'))
      const slow = make({ points: 100, duration: hour, insuranceLimiter: new RateLimiterMemory({ points: 1, duration: hour }) })
      slow.consume = () => new Promise(() => {}) // as a server that hangs
      const timed = new RLWrapperTimeouts({ limiter: slow, timeoutMs: 1 })
      return [...statuses, ...(await times(2, () => ask(timed, 'k')))]
    },
    gets: [200, 429, 200, 429],
    without: ['RateLimiterMemory'],
  },
  'insurance: a client that has given up connecting': {
    run: async (make) => {
      const insured = make({ away: 'for ever', points: 100, duration: hour, insuranceLimiter: new RateLimiterMemory({ points: 1, duration: hour }) })
      return await ask(insured, 'k').catch((error: unknown) => String(error))
    },
    gets: 200,
    ours: 'MistakeError: the client is closed',
    because: 'insurance is for an outage, and a client that is never coming back is a mistake',
    without: ['RateLimiterMemory'],
  },
}

describe('what gets through with the recipes of the manual', () => {
  compare(recipes, theirs, ours)
})

test('a rolling deploy: old and new instances each keep to the limit, under the same prefix', async () => {
  const options = { keyPrefix: 'rolling', points: 3, duration: hour, blockDuration: hour }
  const old = new RateLimiterRedis({ storeClient: there.client, ...options })
  const fresh = new RateLimiterThrottle({ limiter, ...options })
  for (const expected of [200, 200, 200, 429, 429]) assert.deepEqual([await ask(old, 'k'), await ask(fresh, 'k')], [expected, expected])
  assert.equal(await fresh.delete('k'), true)
  assert.deepEqual([await ask(old, 'k'), await ask(fresh, 'k')], [429, 200])
})

test('a shorter block changes nothing while a longer one lasts', async () => {
  const flexible = new RateLimiterThrottle({ limiter, keyPrefix: 'blocked', points: 3, duration: hour })
  await flexible.block('k', day)
  assert.ok((await flexible.block('k', 60)).msBeforeNext > 60_000)
  assert.ok((await flexible.consume('k').catch((error: unknown) => error)) instanceof RateLimiterRes)
})
