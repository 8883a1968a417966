#!/usr/bin/env node
// Runs throttle-dev, and ends as it does.
'use strict'
const { spawn } = require('node:child_process')

const child = spawn(require('../index.js'), process.argv.slice(2), { stdio: 'inherit' })
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
child.on('error', (error) => {
  console.error(`throttle-dev does not start: ${error.message}`)
  process.exitCode = 1
})
child.on('exit', (code, signal) => {
  process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 143)
})
