// How long an attempt may take, and what that says of the server.
import { OutageError, OverloadError } from '../errors.js'
import { lateMs, unwatch, watch } from './lateness.js'

/**
 * Tells an attempt that nobody waits for it any more: as much of an AbortSignal as this package and the libraries use,
 * since a real one costs about as much as all else that a call does here.
 */
export class Left {
  aborted = false
  reason: unknown
  #listeners: (() => void)[] | undefined

  addEventListener(_: 'abort', listener: () => void): void {
    if (this.#listeners) this.#listeners.push(listener)
    else this.#listeners = [listener]
  }

  removeEventListener(_: 'abort', listener: () => void): void {
    this.#listeners = this.#listeners?.filter((other) => other !== listener)
  }

  throwIfAborted(): void {
    if (this.aborted) throw this.reason
  }

  abort(reason: unknown): void {
    this.aborted = true
    this.reason = reason
    for (const listener of this.#listeners ?? []) listener()
  }
}

/**
 * Runs an attempt, which learns by its signal that time is up or the caller has left. It keeps no listeners after it
 * has succeeded.
 *
 * Time in which this process could read nothing does not count. `alive` tells whether the server went on answering
 * since an instant: then it is there, and what is late is this process, which asks for more than it can read.
 */
export function within<T>(ms: number, signal: AbortSignal | undefined, attempt: (left: Left) => Promise<T>,
  alive?: (beganMs: number) => boolean): Promise<T> {
  if (signal?.aborted) return Promise.reject(signal.reason)
  return new Promise<T>((resolve, reject) => {
    const left = new Left()
    const began = performance.now()
    let late = watch()
    let timer: NodeJS.Timeout
    let turn: NodeJS.Immediate | undefined
    const leave = (error: unknown) => {
      end()
      left.abort(error)
      reject(error)
    }
    const aborted = () => {
      leave(signal?.reason)
    }
    const over = () => {
      const more = lateMs() - late
      late += more
      // A process that was busy finds its timers first and then what has arrived meanwhile. So it looks at that before
      // it gives up.
      if (more >= 1) timer = setTimeout(over, more)
      else turn = setImmediate(giveUp)
    }
    const giveUp = () => {
      leave(alive?.(began) ? new OverloadError(`no reply within ${ms} ms, while the server answers other calls`) : new OutageError(`no reply within ${ms} ms`))
    }
    const end = () => {
      unwatch()
      clearTimeout(timer)
      if (turn) clearImmediate(turn)
      signal?.removeEventListener('abort', aborted)
    }
    timer = setTimeout(over, ms)
    signal?.addEventListener('abort', aborted)
    attempted(attempt, left).then(
      (value) => {
        if (left.aborted) return
        end()
        resolve(value)
      },
      (error: unknown) => {
        if (left.aborted) return
        end()
        reject(error)
      },
    )
  })
}

function attempted<T>(attempt: (left: Left) => Promise<T>, left: Left): Promise<T> {
  try {
    return attempt(left)
  } catch (error) {
    return Promise.reject(error)
  }
}
