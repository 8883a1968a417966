// What is packed, that it works where nothing else is installed, and that the README's examples run.
import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { after, before, test } from 'node:test'
import { checkPackage, createPackageFromTarballData } from '@arethetypeswrong/core'
import { publint } from 'publint'
import ts from 'typescript'
import { packageFolder, root, Server } from './servers.mjs'

let server: Server
const folder = mkdtempSync(path.join(tmpdir(), 'throttle-package-'))
before(async () => {
  server = await Server.start()
})
after(async () => {
  await server.stop()
  rmSync(folder, { recursive: true })
})

const run = (program: string, ...words: string[]) => execFileSync(program, words, { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'inherit'] })

test('the version is that of the module, and the license that of the project', () => {
  const go = readFileSync(path.join(root, 'module/version.go'), 'utf8')
  const version = ['major', 'minor', 'patch'].map((part) => new RegExp(`${part} = (\\d+)`).exec(go)?.[1]).join('.')
  assert.equal((JSON.parse(readFileSync(path.join(packageFolder, 'package.json'), 'utf8')) as { version: string }).version, version)
  assert.equal(readFileSync(path.join(packageFolder, 'LICENSE'), 'utf8'), readFileSync(path.join(root, 'LICENSE'), 'utf8'))
})

test('the lock file of the example describes this package', () => {
  const fields = ({ version, engines, peerDependencies }: Record<string, unknown>) => ({ version, engines, peerDependencies })
  const ours = fields(JSON.parse(readFileSync(path.join(packageFolder, 'package.json'), 'utf8')) as Record<string, unknown>)
  const lock = JSON.parse(readFileSync(path.join(root, 'examples/node-redis/package-lock.json'), 'utf8')) as { packages: Record<string, Record<string, unknown>> }
  assert.deepEqual(fields(lock.packages['../../clients/node'] ?? {}), ours, 'run npm install --package-lock-only')
})

test('the packed file holds the package and nothing else, and works from an empty project, both ways', () => {
  const packed = JSON.parse(execFileSync('npm', ['pack', '--json', '--ignore-scripts', '--pack-destination', folder], { cwd: packageFolder, encoding: 'utf8' })) as
    | { filename: string; files: { path: string }[] }[]
    | Record<string, { filename: string; files: { path: string }[] }>
  const [made] = Object.values(packed)
  assert.ok(made)
  const sources = (readdirSync(path.join(packageFolder, 'src'),
    { recursive: true }) as string[]).filter((file) => file.endsWith('.ts')).map((file) => file.replace(/\.ts$/, ''))
  const expected = ['LICENSE', 'README.md', 'package.json', 'dist/package.json', 'dist/esm/package.json', ...['dist', 'dist/esm'].flatMap((folder) => sources.flatMap((name) => [`${folder}/${name}.js`, `${folder}/${name}.d.ts`]))]
  assert.deepEqual(made.files.map((file) => file.path).sort(), expected.sort())

  mkdirSync(path.join(folder, 'node_modules/@redis-throttle/client'), { recursive: true })
  run('tar', '-xzf', made.filename, '-C', 'node_modules/@redis-throttle/client', '--strip-components=1')
  // An empty project with the one library that was chosen.
  for (const name of ['redis', '@redis', 'cluster-key-slot']) symlinkSync(path.join(packageFolder, 'node_modules', name), path.join(folder, 'node_modules', name))
  const use = `
    const limiter = new Limiter(await redis.createClient({ url: '${server.url}' }).connect())
    const results = []
    for (let i = 0; i < 3; i++) results.push((await limiter.limit(process.argv[2], rate(2, '1h'))).limited)
    console.log(results.join())
    process.exit()`
  writeFileSync(path.join(folder, 'use.mjs'), `import * as redis from 'redis'\nimport { Limiter, rate } from '@redis-throttle/client'\nimport '@redis-throttle/client/express'\n${use}`)
  writeFileSync(path.join(folder, 'use.cjs'), `const redis = require('redis')\nconst { Limiter, rate } = require('@redis-throttle/client')\nrequire('@redis-throttle/client/express')\n;(async () => {${use}})()`)
  assert.equal(run(process.execPath, 'use.mjs', 'esm'), 'false,false,true\n')
  assert.equal(run(process.execPath, 'use.cjs', 'cjs'), 'false,false,true\n')
})

test('in a release of a project with a home, the README leads there', () => {
  const script = '. scripts/lib.sh; absolute_links https://example.org/project v1.2.3 clients/node <clients/node/README.md'
  const text = execFileSync('bash', ['-c', script, path.join(root, 'scripts/x')], { cwd: root, encoding: 'utf8' })
  const links = [...text.matchAll(/\]\(([^)]*)\)/g)].map(([, to = '']) => to).filter((to) => !to.startsWith('#') && !/^https?:/.test(to))
  assert.deepEqual(links, [])
  assert.match(text, /\]\(https:\/\/example\.org\/project\/blob\/v1\.2\.3\/docs\/testing\.md#nodejs\)/)
  assert.match(text, /\]\(https:\/\/example\.org\/project\/blob\/v1\.2\.3\/clients\/node\/api\.txt\)/)
})

/**
 * What publint and attw find in a packed file. Node.js before exports and old module resolutions of TypeScript are none
 * of ours.
 */
async function faults(file: string): Promise<string[]> {
  const packed = new Uint8Array(readFileSync(file))
  const { messages } = await publint({ pack: { tarball: packed.buffer }, level: 'warning', strict: true })
  const checked = await checkPackage(createPackageFromTarballData(packed))
  const problems = checked.types === false ? [{ kind: 'no types' }] : checked.problems.filter((problem) => !('resolutionKind' in problem && problem.resolutionKind === 'node10'))
  return [...messages.map((message) => JSON.stringify(message)), ...problems.map((problem) => JSON.stringify(problem))]
}

test('every export of the packed file has its types, both ways', async () => {
  const [file] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
  assert.ok(file, 'the test before has packed it')
  assert.deepEqual(await faults(path.join(folder, file)), [])

  // The checks can fail: without the declarations of one export, one way.
  for (const gone of ['dist/web/koa.d.ts', 'dist/esm/testing/index.d.ts', 'dist/esm/package.json']) {
    const broken = mkdtempSync(path.join(folder, 'broken-'))
    run('tar', '-xzf', file, '-C', broken)
    rmSync(path.join(broken, 'package', gone))
    run('tar', '-czf', path.join(broken, 'broken.tgz'), '-C', broken, 'package')
    assert.notDeepEqual(await faults(path.join(broken, 'broken.tgz')), [], gone)
  }
})

const examples = [...readFileSync(path.join(packageFolder, 'README.md'), 'utf8').matchAll(/```(js|ts)\n(.*?)```/gs)].map(([, language, code = '']) => ({ code, typed: language === 'ts' }))

for (const [i, { code, typed }] of examples.entries()) {
  test(`example ${i + 1} of the README runs`, () => {
    const file = path.join(packageFolder, `build/example-${i + 1}.mjs`)
    const script = typed ? ts.transpileModule(code,
      { compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022, experimentalDecorators: true } }).outputText : code
    // The machine of a test may be busy for longer than a limiter waits by itself.
    const patient = script.replaceAll('new Limiter(client)', "new Limiter(client, { timeout: '30s' })").replaceAll("timeout: '1s' })", "timeout: '30s' })").replaceAll(":6379')\n", ":6379', { timeout: '30s' })\n").replaceAll("new Redis('redis://127.0.0.1:6379', { timeout: '30s' })", "new Redis('redis://127.0.0.1:6379')")
    writeFileSync(file, patient.replaceAll('127.0.0.1:6379', `127.0.0.1:${server.port}`))
    const printed = execFileSync(process.execPath, [file], { encoding: 'utf8' })
    if (i === 0) assert.equal(printed, 'go ahead; 9 left\n')
  })
}
