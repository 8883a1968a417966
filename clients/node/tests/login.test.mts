// The login pages of examples/, attacked: spellings of one account, bodies that are missing or odd.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { after, before, describe, test } from 'node:test'
import ts from 'typescript'
import { packageFolder, Server } from './servers.mjs'

/** The file of each page, and what begins it by itself. */
const pages: Record<string, { file: string; start: string }> = {
  express: { file: 'login-express.mjs', start: 'app.listen(3000)' },
  fastify: { file: 'login-fastify.mjs', start: 'await app.listen({ port: 3000 })' },
  nestjs: { file: 'login-nestjs.ts', start: 'await app.listen(3000)' },
}

interface Page {
  app: unknown
  client: { disconnect(): void }
}

/** Imports a page without starting it. */
async function pageOf(framework: string, url: string): Promise<Page> {
  const { file: name, start } = pages[framework] as { file: string; start: string }
  const example = readFileSync(path.join(packageFolder, 'examples', name), 'utf8')
  assert.ok(example.includes('redis://127.0.0.1:6379') && example.includes(start), name)
  const page = example.replace(start, '').replace('redis://127.0.0.1:6379', url)
  const options = { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022, experimentalDecorators: true, emitDecoratorMetadata: true }
  const file = path.join(import.meta.dirname, `login-${framework}.mjs`)
  writeFileSync(file, ts.transpileModule(`${page}\nexport { app, client }\n`, { compilerOptions: options }).outputText)
  try {
    return (await import(file)) as Page
  } finally {
    rmSync(file)
  }
}

/** Starts the page. */
async function listen({ app }: Page): Promise<{ url: string; close: () => unknown }> {
  if (typeof app === 'function') {
    const server = http.createServer(app as http.RequestListener)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/login`, close: () => { server.closeAllConnections(); server.close() } }
  }
  const listening = app as { listen(...where: unknown[]): Promise<unknown>; server?: http.Server; getHttpServer?(): http.Server; close(): Promise<void> }
  await ('getHttpServer' in listening ? listening.listen(0, '127.0.0.1') : listening.listen({ port: 0, host: '127.0.0.1' }))
  const server = (listening.getHttpServer?.() ?? listening.server) as http.Server
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/login`, close: () => { server.closeAllConnections(); return listening.close() } }
}

describe('login pages', () => {
  let server: Server
  before(async () => { server = await Server.start() })
  after(() => server.stop())
  for (const framework of Object.keys(pages)) {
    test(`${framework}: the spellings of an account are one account, and no body is a fault of the server`, async () => {
      await server.do('FLUSHALL')
      const page = await pageOf(framework, server.url)
      const { url, close } = await listen(page)
      const post = async (body: unknown, type = 'application/json') => fetch(url,
        { method: 'POST', ...(body !== undefined && { headers: { 'content-type': type }, body: typeof body === 'string' ? body : JSON.stringify(body) }) })
      try {
        const statuses = []
        for (const user of ['ann', 'Ann', 'ANN', ' ann ', '\tAnn', 'ａｎｎ', ['ann'], 'ann ']) statuses.push((await post({ user, password: 'guess' })).status)
        assert.deepEqual(statuses, [401, 401, 401, 401, 401, 429, 429, 429])
        assert.equal((await post({ user: 'ann', password: 'correct horse' })).status, 429, 'the right password tells nothing')
        const guesses = []
        for (let i = 0; i < 16; i++) guesses.push((await post({ user: 'dora', password: 'guess' })).status)
        assert.deepEqual(guesses, [...Array<number>(5).fill(401), ...Array<number>(11).fill(429)])
        const banned = await post({ user: 'dora', password: 'correct horse' })
        assert.equal(banned.status, 429)
        assert.ok(Number(banned.headers.get('retry-after')) > 15 * 60, 'the tenth denial bans for an hour')
        const other = await post({ user: 'bob', password: 'guess' })
        assert.equal(other.status, 401)
        assert.match(other.headers.get('ratelimit') ?? '', /"address";r=4.*"account";r=299/)
        assert.equal((await post({ user: 'carl', password: 'correct horse' })).status, 200)
        const odd: unknown[] = [undefined, {}, [], 'null', { user: null }, { user: {} }, { user: 5 }, { user: true, password: {} },
          { user: 'x'.repeat(50_000) }, { user: '}{' }, '{"user":']
        for (const body of odd) assert.ok((await post(body)).status < 500, `${JSON.stringify(body)?.slice(0, 50)}`)
        assert.ok((await post('user=ann', 'application/x-www-form-urlencoded')).status < 500)
        assert.ok((await post('hello', 'text/plain')).status < 500)
      } finally {
        await close()
        page.client.disconnect()
      }
    })
  }
})
