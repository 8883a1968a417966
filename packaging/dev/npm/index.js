// The path of throttle-dev, of the package for this system. npm installs the one of its optional dependencies whose "os" and "cpu" fit.
'use strict'
const path = require('node:path')

const name = `redis-throttle-dev-${process.platform}-${process.arch}`
const file = process.platform === 'win32' ? 'throttle-dev.exe' : 'throttle-dev'
let folder
try {
  folder = path.dirname(require.resolve(`${name}/package.json`))
} catch {
  throw new Error(`redis-throttle-dev has no package ${name}: there is none for this system, or it was installed without optional dependencies`)
}

module.exports = path.join(folder, 'bin', file)
