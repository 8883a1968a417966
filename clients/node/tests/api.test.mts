// The interface of the package, as a text: a change of it is seen in the difference. RENEW=1 writes the text anew.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import ts from 'typescript'
import { packageFolder } from './servers.mjs'

const file = path.join(packageFolder, 'api.txt')
const { exports } = JSON.parse(readFileSync(path.join(packageFolder, 'package.json'), 'utf8')) as { exports: Record<string, { require: { types: string } } | string> }
const entries = Object.entries(exports).flatMap(([name, where]) => (typeof where === 'string' ? [] : [{ name: name.replace(/^\./,
  '@redis-throttle/client'), types: path.join(packageFolder, where.require.types) }]))

/** Returns what each entry exports, as declared, without comments and private members. */
function surface(): string {
  const program = ts.createProgram(entries.map(({ types }) => types),
    { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.Node20, skipLibCheck: true, types: ['node'] })
  const checker = program.getTypeChecker()
  const printer = ts.createPrinter({ removeComments: true })
  const seen = new Map<ts.Symbol, string>()
  const text = (declaration: ts.Declaration, name: string): string => {
    const node = ts.isVariableDeclaration(declaration) ? declaration.parent.parent : declaration
    const printed = printer.printNode(ts.EmitHint.Unspecified, node, declaration.getSourceFile())
    const own = printed.split('\n').filter((line) => !/^ {4}(private |#private)/.test(line)).join('\n')
    return `${own.replace(/^export (default )?/, '').replace(/^declare /, '')}${declaration.getSourceFile().fileName.includes('node_modules') ? ` // of a library: ${name}` : ''}`
  }
  return entries.map(({ name, types }) => {
    const source = program.getSourceFile(types)
    const module = source && checker.getSymbolAtLocation(source)
    assert.ok(module, `${types} is no module: build the package first`)
    const lines = checker.getExportsOfModule(module).map((exported) => {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      const before = seen.get(symbol)
      if (before !== undefined) return { name: exported.name, says: `${exported.name}: that of ${before}` }
      seen.set(symbol, name)
      return { name: exported.name, says: (symbol.declarations ?? []).map((declaration) => text(declaration, exported.name)).join('\n') }
    })
    return [`# ${name}`, ...lines.sort((one, other) => (one.name < other.name ? -1 : 1)).map(({ says }) => says)].join('\n\n')
  }).join('\n\n') + '\n'
}

test('the interface is the one in api.txt', () => {
  const now = surface()
  if (process.env['RENEW']) writeFileSync(file, now)
  assert.equal(now, readFileSync(file, 'utf8'), 'the interface has changed: if that is meant, run RENEW=1 scripts/test-clients node --test-name-pattern=api.txt, and look at the difference')
})
