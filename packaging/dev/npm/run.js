// Runs a program for this system, and ends as it does.
'use strict'
const { spawn } = require('node:child_process')
const find = require('./find.js')

module.exports = function run(program) {
  const child = spawn(find(program), process.argv.slice(2), { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => {
    console.error(`${program} does not start: ${error.message}`)
    process.exitCode = 1
  })
  child.on('exit', (code, signal) => {
    process.exitCode = code ?? (signal === 'SIGINT' ? 130 : 143)
  })
}
