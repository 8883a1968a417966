// throttle-dev for tests over a socket: started, stopped, and its time moved.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createRequire } from 'node:module'
import { connect, type Socket } from 'node:net'
import path from 'node:path'
import { createInterface } from 'node:readline'
import type { Duration, Period } from '../duration.js'

/** Options of `ThrottleDev.start`. */
export interface ThrottleDevOptions {
  /**
   * The program. If it is left out: what `THROTTLE_DEV` in the environment says, else that of the package
   * @redis-throttle/dev, else `throttle-dev` in the `PATH`.
   */
  readonly program?: string
}

/** Returns the program of @redis-throttle/dev, if the project that is tested has that package. */
function installed(): string | undefined {
  const require = createRequire(path.join(process.cwd(), 'package.json'))
  let entry
  try {
    entry = require.resolve('@redis-throttle/dev')
  } catch {
    return undefined
  }
  return require(entry) as string // which throws if it has none for this system
}

/**
 * A server for tests that this process has started: one for each test file. It ends with `stop`, with its `await using`
 * block, or with this process.
 *
 *     const server = await ThrottleDev.start()
 *     const client = await createClient({ url: server.url }).connect()
 *     await server.advance('1mo')
 *     await server.stop()
 */
export class ThrottleDev implements AsyncDisposable {
  readonly #process: ChildProcess
  readonly #socket: Socket
  #replies: ((reply: string | Error) => void)[] = []

  private constructor(
    process: ChildProcess,
    socket: Socket,
    /** On which it listens, at 127.0.0.1. */
    readonly port: number,
  ) {
    this.#process = process
    this.#socket = socket
    const lines = createInterface({ input: socket })
    let length = -1
    lines.on('line', (line) => {
      // Our commands reply with a status, an integer, an error or one text.
      if (length < 0 && line.startsWith('$')) {
        length = Number(line.slice(1))
        return
      }
      length = -1
      this.#replies.shift()?.(line.startsWith('-') ? new Error(line.slice(1)) : line.replace(/^[+:]/, ''))
    })
    socket.on('error', () => {})
    socket.on('close', () => {
      for (const reply of this.#replies) reply(new Error('throttle-dev has ended'))
      this.#replies = []
    })
    socket.unref()
  }

  /** Starts the server on a free port of 127.0.0.1, and waits until it serves. */
  static async start(options: ThrottleDevOptions = {}): Promise<ThrottleDev> {
    const program = options.program ?? process.env['THROTTLE_DEV'] ?? installed() ?? 'throttle-dev'
    const child = spawn(program, ['--port', '0'], { stdio: ['ignore', 'pipe', 'pipe'] })
    const end = () => child.kill('SIGKILL')
    process.once('exit', end)
    child.once('exit', () => process.off('exit', end))
    const port = await new Promise<number>((resolve, reject) => {
      let said = ''
      const read = (data: Buffer) => {
        said += data.toString()
        const [, found] = /127\.0\.0\.1:(\d+)|\bport (\d+)/.exec(said) ?? []
        if (found !== undefined) resolve(Number(found))
      }
      child.stdout.on('data', read)
      child.stderr.on('data', read)
      child.once('error', (error) => { reject(new Error(`${program} cannot be started: ${error.message}. Install the package @redis-throttle/dev, or build it with go build ./cmd/throttle-dev, and put it into the PATH or name it in THROTTLE_DEV`)) })
      child.once('exit', () => { reject(new Error(`${program} has ended: ${said}`)) })
    })
    child.stdout.resume()
    child.stderr.resume()
    child.unref()
    for (const stream of [child.stdout, child.stderr]) (stream as unknown as Socket).unref()
    const socket = connect(port, '127.0.0.1')
    await once(socket, 'connect')
    return new ThrottleDev(child, socket, port)
  }

  /** Its address for a client. */
  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  /** Sends a command, and resolves with its reply as a text. */
  async command(...words: [string, ...string[]]): Promise<string> {
    const reply = new Promise<string | Error>((resolve) => this.#replies.push(resolve))
    if (this.#socket.destroyed) throw new Error('throttle-dev has ended')
    this.#socket.ref()
    this.#socket.write(`*${words.length}\r\n${words.map((word) => `$${Buffer.byteLength(word)}\r\n${word}\r\n`).join('')}`)
    const answer = await reply
    if (this.#replies.length === 0) this.#socket.unref()
    if (answer instanceof Error) throw answer
    return answer
  }

  /** Lets time pass at once: `500ms`, `1.5h`, `2w`, `1mo`. Callers that wait have their turns on the way. */
  async advance(duration: Duration | Period): Promise<Date> {
    return new Date(await this.command('CL.DEV.ADVANCE', duration))
  }

  /** Sets the clock, which then stands still, or with `run` goes on from there. */
  async setTime(time: Date, options: { readonly run?: boolean } = {}): Promise<Date> {
    return new Date(await this.command('CL.DEV.TIME', time.toISOString(), options.run ? 'RUN' : 'STOP'))
  }

  /** Deletes all keys. */
  async flush(): Promise<void> {
    await this.command('FLUSHALL')
  }

  /** Ends the server. */
  async stop(): Promise<void> {
    this.#socket.destroy()
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const ended = once(this.#process, 'exit')
    this.#process.ref()
    this.#process.kill('SIGTERM')
    await ended
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}
