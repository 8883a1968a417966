import { defineConfig } from 'eslint/config'
import tseslint from 'typescript-eslint'

export default defineConfig(
  { ignores: ['build/', 'dist/'] },
  {
    files: ['src/**/*.ts', 'tests/**/*.mts'],
    extends: [tseslint.configs.strictTypeChecked],
    languageOptions: { parserOptions: { project: ['tsconfig.json', 'tests/tsconfig.json'], tsconfigRootDir: import.meta.dirname } },
    rules: {
      '@typescript-eslint/restrict-template-expressions': ['error', { allowNumber: true }],
      '@typescript-eslint/no-confusing-void-expression': ['error', { ignoreArrowShorthand: true }],
      '@typescript-eslint/no-empty-function': 'off',
      '@typescript-eslint/prefer-promise-reject-errors': 'off', // what a signal is aborted with is anything
    },
  },
  {
    files: ['tests/**/*.mts'],
    rules: {
      '@typescript-eslint/no-floating-promises': ['error', { allowForKnownSafeCalls: ['describe', 'test', 'before', 'after', 'beforeEach', 'afterEach'].map((name) => ({ from: 'package', name, package: 'node:test' })) }],
    },
  },
)
