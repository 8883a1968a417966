// Help for tests of programs that use this package.
export { ThrottleDev, type ThrottleDevOptions } from './dev.js'
export { type Asked, type Faults, FakeLimiter } from './fake.js'
