// The path of throttle-dev for this system.
'use strict'
module.exports = require('./find.js')('throttle-dev')
