// How late this process is: for how long it could not read what had arrived, since it was busy or had no processor. A
// call that had no reply in that time says nothing about the server.

const tickMs = 5
const leastMs = 3 // a timer is a millisecond late by itself

// Tests put other timers into the place of the global ones, by which nothing is late.
const { setTimeout: after } = globalThis

let calls = 0 // under way
let ticking = false
let last = 0 // when it ticked
let late = 0 // in ms, of all ticks

const lateness = (now: number) => (now - last >= tickMs + leastMs ? now - last - tickMs : 0)

function tick(): void {
  const now = performance.now()
  late += lateness(now)
  last = now
  if (calls > 0) after(tick, tickMs).unref()
  else ticking = false
}

/**
 * Begins to watch, until `unwatch`. Returns how late the process was so far, in ms; differences between two such
 * numbers mean something.
 */
export function watch(): number {
  calls++
  if (!ticking) {
    ticking = true
    last = performance.now()
    after(tick, tickMs).unref()
  }
  return lateMs()
}

export function unwatch(): void {
  calls--
}

/** Returns how late the process was so far, in ms, while somebody watched. */
export function lateMs(): number {
  return late + (ticking ? lateness(performance.now()) : 0)
}
