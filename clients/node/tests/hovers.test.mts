// What editors show: everything that the package exports is described, and so is every option.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { test } from 'node:test'
import ts from 'typescript'
import { packageFolder } from './servers.mjs'

const { exports } = JSON.parse(readFileSync(path.join(packageFolder, 'package.json'), 'utf8')) as { exports: Record<string, { import: { types: string } } | string> }
const entries = Object.entries(exports).flatMap(([name, where]) => (typeof where === 'string' ? [] : [{ name: name.replace(/^\./,
  '@redis-throttle/client'), types: path.join(packageFolder, where.import.types) }]))
const program = ts.createProgram(entries.map(({ types }) => types),
  { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ES2022, moduleResolution: ts.ModuleResolutionKind.Bundler, skipLibCheck: true, types: ['node'] })
const checker = program.getTypeChecker()

const ours = (symbol: ts.Symbol) => 
  symbol.declarations?.some((declaration) => path.dirname(declaration.getSourceFile().fileName).startsWith(path.join(packageFolder, 'dist'))) === true
const says = (symbol: ts.Symbol) => ts.displayPartsToString(symbol.getDocumentationComment(checker)).trim()

/** Everything exported, and the members of what is exported, by name. */
function* named(): Generator<[string, ts.Symbol, 'export' | 'option' | 'member']> {
  for (const { name, types } of entries) {
    const module = checker.getSymbolAtLocation(program.getSourceFile(types) as ts.SourceFile)
    assert.ok(module, `${types} is no module: build the package first`)
    for (const exported of checker.getExportsOfModule(module)) {
      const symbol = exported.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(exported) : exported
      if (!ours(symbol)) continue
      yield [`${name}: ${exported.name}`, symbol, 'export']
      if (!(symbol.flags & (ts.SymbolFlags.Interface | ts.SymbolFlags.Class))) continue
      for (const member of symbol.members?.values() ?? []) {
        const [declaration] = member.declarations ?? []
        const named = declaration && (ts.isPropertySignature(declaration) || ts.isMethodSignature(declaration) || ts.isMethodDeclaration(declaration)
          || ts.isGetAccessorDeclaration(declaration) || ts.isPropertyDeclaration(declaration)) && ts.isIdentifier(declaration.name)
        if (named && !/\b(private|override)\b/.test(declaration.getText().split('\n')[0] ?? '')) yield [`${name}: ${exported.name}.${member.name}`, member, exported.name.endsWith('Options') ? 'option' : 'member']
      }
    }
  }
}

test('everything exported has a description, and so has every member of it', () => {
  const without = [...named()].filter(([, symbol]) => says(symbol) === '').map(([name]) => name)
  assert.deepEqual([...new Set(without)], [])
})

test('every option that may be left out says what happens then', () => {
  const without = [...named()].filter(([, symbol, kind]) => kind === 'option' && symbol.flags & ts.SymbolFlags.Optional
    && !/left out|default|[Ww]ithout it|[Ww]ithout one/.test(says(symbol).replaceAll(/\s+/g, ' ')))
  assert.deepEqual([...new Set(without.map(([name, symbol]) => `${name}: ${says(symbol)}`))], [])
})

test('every function for users has an example', () => {
  const comment = (declaration: ts.Declaration) => declaration.getSourceFile().text.slice(declaration.getFullStart(), declaration.getStart())
  const shows = (symbol: ts.Symbol) => /\n {4,}\S|```|@example/.test(symbol.declarations?.map(comment).join('\n').replaceAll(/^ *\* ?/gm, '') ?? '')
  const isFor = ts.SymbolFlags.Function | ts.SymbolFlags.Class
  const without = [...named()].filter(([, symbol, kind]) => kind === 'export' && symbol.flags & isFor && !shows(symbol))
  assert.deepEqual([...new Set(without.map(([name]) => name))], [])
})
