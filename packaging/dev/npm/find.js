// The path of a program for this system. npm installs the one of the optional dependencies whose "os" and "cpu" fit,
// and it has all programs.
'use strict'
const path = require('node:path')

const name = `@redis-throttle/dev-${process.platform}-${process.arch}`

module.exports = function find(program) {
  let folder
  try {
    folder = path.dirname(require.resolve(`${name}/package.json`))
  } catch {
    throw new Error(`@redis-throttle/dev has no package ${name}: there is none for this system, or it was installed without optional dependencies`)
  }
  return path.join(folder, 'bin', process.platform === 'win32' ? `${program}.exe` : program)
}
