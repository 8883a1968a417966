// Builds dist/: what tsc makes of src/ is CommonJS, and beside each entry point stands an ES module with the same names. So a
// process that loads the package both ways has one of each class.
import { spawnSync } from 'node:child_process'
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

process.chdir(fileURLToPath(new URL('.', import.meta.url)))
rmSync('dist', { recursive: true, force: true })
const { status } = spawnSync('node_modules/.bin/tsc', { stdio: 'inherit' })
if (status !== 0) process.exit(status ?? 1)
for (const entry of Object.values(JSON.parse(readFileSync('package.json', 'utf8')).exports)) {
  if (!entry.import) continue
  const from = entry.require.default.replace('./dist', '.')
  writeFileSync(entry.import.default, `export * from '${from}'\n`)
  writeFileSync(entry.import.types, `export * from '${from}'\n`)
}
