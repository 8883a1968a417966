// Builds dist/: CommonJS, and under dist/esm the same as ES modules.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('.', import.meta.url)))
rmSync('dist', { recursive: true, force: true })
// Bundles take a module along, and no file beside it.
const library = readFileSync('../../functions/throttle.lua', 'utf8')
mkdirSync('src/functions', { recursive: true }) // all that is in it is made here
writeFileSync('src/functions/library.ts', `// Made from functions/throttle.lua by build.mjs.\n\n/** The function library, as FUNCTION LOAD takes it. */\nexport const text: string = ${JSON.stringify(library)}\n`)
for (const options of [[], ['--outDir', 'dist/esm', '--module', 'ES2022', '--moduleResolution', 'bundler']]) {
  const { status } = spawnSync('node_modules/.bin/tsc', options, { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
// Whatever a copy of dist/ is put into, each half says what it is.
writeFileSync('dist/package.json', '{ "type": "commonjs", "sideEffects": false }\n')
writeFileSync('dist/esm/package.json', '{ "type": "module", "sideEffects": false }\n')
