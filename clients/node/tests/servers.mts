// Real servers with the module, each on ports and in a folder of its own; and one that is made up.
import { type ChildProcess, spawn } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import net from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'

export const packageFolder = path.resolve(import.meta.dirname, '../..')
export const root = path.resolve(packageFolder, '../..')

const program = process.env['THROTTLE_SERVER'] ?? 'redis-server'
const module = process.env['THROTTLE_SO'] ?? path.join(root, 'build/throttle.so')
const patience = 30_000 // bounds a hang

/**
 * Returns a port that nobody listens on, nor on that of the cluster bus, 10,000 above. It belongs to this process until
 * it ends. Both are below the range from which outgoing connections get theirs. The sign of a claim is the UDP port of
 * the same number, which no server uses: tests in any language look at it.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(11_000, 22_000)
    if ((await claimed(port)) && (await claimed(port + 10_000))) return port
  }
}

async function claimed(port: number): Promise<boolean> {
  const claim = createSocket('udp4').bind({ port, address: '127.0.0.1', exclusive: true })
  try {
    await once(claim, 'listening')
    const listener = net.createServer().listen(port, '127.0.0.1')
    await once(listener, 'listening')
    listener.close()
    await once(listener, 'close')
    claim.unref()
    return true
  } catch {
    claim.close()
    return false
  }
}

export async function until(condition: () => boolean | Promise<boolean>, what: string): Promise<void> {
  for (const ends = performance.now() + patience; performance.now() < ends; ) {
    if (await condition()) return
    await sleep(5)
  }
  throw new Error(`${what}: not within ${patience} ms`)
}

/** A server that this test started. */
export class Server implements AsyncDisposable {
  #process: ChildProcess | undefined
  readonly #folder = mkdtempSync(path.join(tmpdir(), 'throttle-node-'))

  private constructor(
    readonly port: number,
    readonly options: string[],
  ) {}

  static start(...options: string[]): Promise<Server> {
    return Server.#somewhere((port) => new Server(port, ['--loadmodule', module, ...options]))
  }

  static withoutModule(...options: string[]): Promise<Server> {
    return Server.#somewhere((port) => new Server(port, options))
  }

  /** Starts a server on a free port, and on another one if somebody else was faster. */
  static async #somewhere(make: (port: number) => Server, file?: string): Promise<Server> {
    for (;;) {
      const server = make(await freePort())
      try {
        await server.start(file)
        return server
      } catch (error) {
        const taken = server.log.includes('Address already in use')
        await server.stop()
        if (!taken) throw error
      }
    }
  }

  /** A program of the server with a configuration file of its own, such as a Sentinel. */
  static configured(configuration: (port: number) => string, ...options: string[]): Promise<Server> {
    return Server.#somewhere((port) => {
      const server = new Server(port, options)
      writeFileSync(path.join(server.#folder, 'conf'), configuration(port))
      return server
    }, 'conf')
  }

  get url(): string {
    return `redis://127.0.0.1:${this.port}`
  }

  get log(): string {
    return readFileSync(path.join(this.#folder, 'log'), 'utf8')
  }

  async start(file?: string): Promise<void> {
    const log = openSync(path.join(this.#folder, 'log'), 'a')
    const common = file ? [file] : ['--port', String(this.port), '--bind', '127.0.0.1', '--save', '', '--enable-debug-command', 'yes']
    this.#process = spawn(program, [...common, ...this.options], { cwd: this.#folder, stdio: ['ignore', log, log] })
    closeSync(log)
    await until(() => this.#answers(), 'the server starts')
  }

  async #answers(): Promise<boolean> {
    if (this.#process?.exitCode !== null) throw new Error(`the server has ended: ${this.log}`)
    try {
      return String(await this.do('INFO', 'server')).includes(`process_id:${this.#process.pid}\r\n`) // it is no other that has this port
    } catch {
      return false
    }
  }

  async do(...words: [string, ...(string | number)[]]): Promise<unknown> {
    const client = new Redis(this.port, { lazyConnect: true, retryStrategy: () => null, protocol: 2 } as object)
    client.on('error', () => {})
    try {
      await client.connect()
      return await client.call(...words)
    } finally {
      client.disconnect()
    }
  }

  /** Notes what the server is sent, until it is told to stop. */
  async watch(): Promise<{ stop: () => Promise<string[]> }> {
    // By hand: ioredis fails if another client's command comes before the answer to its own.
    const socket = net.connect(this.port, '127.0.0.1').setEncoding('latin1')
    let heard = ''
    socket.on('data', (more: string) => { heard += more }).on('error', () => {}).write('MONITOR\r\n')
    await until(() => heard.startsWith('+OK\r\n'), 'it is told what the server is sent')
    const lines = () => heard.split('\r\n').slice(1, -1).filter((line) => !line.includes(' lua] ')).map((line) => line.replace(/^\S+ \[[^\]]*\] /, ''))
    return {
      stop: async () => {
        await this.do('ECHO', 'the end')
        await until(() => lines().some((line) => line.includes('the end')), 'all was noted')
        socket.destroy()
        return lines().filter((line) => !line.includes('the end'))
      },
    }
  }

  async info(field: string): Promise<number> {
    const info = String(await this.do('INFO', 'everything'))
    return Number(new RegExp(`^${field}:(\\d+)`, 'm').exec(info)?.[1])
  }

  /** Stops the process without its noticing, like a host that hangs. It answers nobody any more when this returns. */
  pause(): void {
    const pid = this.#process?.pid
    if (pid === undefined) throw new Error('the server does not run')
    process.kill(pid, 'SIGSTOP')
    const ends = Date.now() + 30_000
    while (!readFileSync(`/proc/${pid}/stat`, 'latin1').split(') ').at(-1)?.startsWith('T')) {
      if (Date.now() > ends) throw new Error('the server does not stand still')
    }
  }

  resume(): void {
    this.#process?.kill('SIGCONT')
  }

  async kill(): Promise<void> {
    if (!this.#process || this.#process.exitCode !== null || this.#process.signalCode !== null) return
    const ended = once(this.#process, 'exit')
    this.#process.kill('SIGKILL')
    await ended
  }

  async stop(): Promise<void> {
    await this.kill()
    const log = this.log
    rmSync(this.#folder, { recursive: true, force: true })
    if (log.includes('BUG REPORT')) throw new Error(log)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop()
  }
}

/** Three masters that share the slots. */
export class Cluster implements AsyncDisposable {
  private constructor(readonly nodes: Server[]) {}

  static async start(make = (...options: string[]) => Server.start(...options)): Promise<Cluster> {
    const nodes = []
    for (let i = 0; i < 3; i++) nodes.push(await make('--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'))
    const cluster = new Cluster(nodes)
    const share = Math.floor(16384 / 3) + 1
    for (const [i, node] of nodes.entries()) {
      await node.do('CLUSTER', 'ADDSLOTSRANGE', i * share, Math.min((i + 1) * share, 16384) - 1)
      await node.do('CLUSTER', 'SET-CONFIG-EPOCH', i + 1)
      await node.do('CLUSTER', 'MEET', '127.0.0.1', cluster.first.port)
    }
    for (const node of nodes) await until(() => Cluster.#whole(node), 'the cluster agrees')
    return cluster
  }

  static async #whole(node: Server): Promise<boolean> {
    const info = String(await node.do('CLUSTER', 'INFO'))
    return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3')
  }

  /** Adds a replica of a node, which is promoted when the node dies. */
  async addReplica(node: Server): Promise<Server> {
    const replica = await Server.start('--cluster-enabled', 'yes', '--cluster-node-timeout', '2000', '--cluster-replica-validity-factor', '0')
    this.nodes.push(replica)
    await replica.do('CLUSTER', 'MEET', '127.0.0.1', node.port)
    const id = String(await node.do('CLUSTER', 'MYID'))
    await until(async () => {
      try {
        return (await replica.do('CLUSTER', 'REPLICATE', id)) === 'OK'
      } catch {
        return false // it does not know the node yet
      }
    }, 'the replica follows')
    await until(async () => String(await replica.do('INFO', 'replication')).includes('master_link_status:up'), 'the replica has its data')
    for (const other of this.nodes) await until(async () => String(await other.do('CLUSTER', 'NODES')).includes('slave'), 'every node knows the replica')
    return replica
  }

  get first(): Server {
    return this.nodes[0] as Server
  }

  async owner(key: string): Promise<Server> {
    const slot = Number(await this.first.do('CLUSTER', 'KEYSLOT', key))
    return this.nodes[Math.floor(slot / (Math.floor(16384 / 3) + 1))] as Server
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const node of this.nodes) await node.stop()
  }
}

/** A master, its replica, and a Sentinel that promotes the replica. */
export class Watched implements AsyncDisposable {
  private constructor(
    readonly master: Server,
    readonly replica: Server,
    readonly sentinel: Server,
  ) {}

  static async start(): Promise<Watched> {
    const master = await Server.start('--repl-diskless-sync-delay', '0')
    const replica = await Server.start('--replicaof', '127.0.0.1', String(master.port))
    const sentinel = await Server.configured(
      (port) => [`port ${port}`, 'bind 127.0.0.1', `sentinel monitor mymaster 127.0.0.1 ${master.port} 1`, 'sentinel down-after-milliseconds mymaster 2000', 'sentinel failover-timeout mymaster 10000', ''].join('\n'),
      '--sentinel',
    )
    await until(async () => (await replica.do('INFO', 'replication'))?.toString().includes('master_link_status:up') ?? false, 'the replica follows')
    await until(async () => ((await sentinel.do('SENTINEL', 'REPLICAS', 'mymaster')) as unknown[]).length === 1, 'the Sentinel knows the replica')
    return new Watched(master, replica, sentinel)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of [this.sentinel, this.replica, this.master]) await server.stop()
  }
}

export type Reply = number | string | { error: string } | { closes: true } | { afterEnd: Reply } | Reply[]

export interface Exchange {
  sends: string[]
  reply: Reply
}

const hello = '%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.0\r\n+proto\r\n:3\r\n'

/**
 * A server that expects words and answers with replies, one exchange after the other. It knows nothing else of the
 * protocol.
 */
export class MadeUp implements AsyncDisposable {
  readonly problems: string[] = []
  readonly #sockets = new Set<net.Socket>()
  readonly #server: net.Server
  readonly #late = new Map<net.Socket, string>()

  private constructor(readonly exchanges: Exchange[]) {
    this.#server = net.createServer({ allowHalfOpen: true }, (socket) => {
      socket.on('error', () => {})
      if (!this.#server.listening) socket.destroy() // of a client that connected again after the test
      this.#sockets.add(socket)
      let read = ''
      socket.on('data', (data) => {
        read += data.toString('latin1')
        for (let words = take(); words; words = take()) {
          const answer = this.#answer(words, socket)
          if (answer === undefined) socket.destroy()
          else socket.write(answer)
        }
      })
      socket.on('end', () => socket.end(this.#late.get(socket) ?? ''))
      const take = (): string[] | undefined => {
        const parts = read.split('\r\n')
        const n = Number(parts[0]?.slice(1))
        if (parts.length < 2 * n + 2 || parts[0] === '') return undefined
        read = parts.slice(2 * n + 1).join('\r\n')
        return Array.from({ length: n }, (_, i) => Buffer.from(parts[2 * i + 2] ?? '', 'latin1').toString())
      }
    })
  }

  static async start(exchanges: Exchange[]): Promise<MadeUp> {
    const made = new MadeUp([...exchanges])
    made.#server.listen(0, '127.0.0.1')
    await once(made.#server, 'listening')
    return made
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port
  }

  #answer(words: string[], socket: net.Socket): string | undefined {
    const [name = ''] = words
    if (!name.startsWith('CL.')) {
      return { HELLO: hello, PING: '+PONG\r\n', INFO: '$17\r\nredis_version:7.0\r\n' }[name.toUpperCase()] ?? '+OK\r\n'
    }
    const exchange = this.exchanges.shift()
    if (!exchange) {
      this.problems.push(`nothing more was expected, and ${words.join(' ')} came`)
      return '-ERR unexpected\r\n'
    }
    if (exchange.sends.join('\n') !== words.join('\n')) this.problems.push(`expected ${exchange.sends.join(' ')}, and ${words.join(' ')} came`)
    const { reply } = exchange
    if (typeof reply !== 'object' || !('afterEnd' in reply)) return encode(reply)
    this.#late.set(socket, encode(reply.afterEnd) ?? '')
    return ''
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    return new Promise((resolve) => {
      this.#server.close(() => {
        resolve()
      })
    })
  }
}

function encode(reply: Reply): string | undefined {
  if (typeof reply === 'number') return `:${reply}\r\n`
  if (typeof reply === 'string') return `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`
  if (Array.isArray(reply)) return `*${reply.length}\r\n${reply.map(encode).join('')}`
  return 'error' in reply ? `-${reply.error}\r\n` : undefined
}
