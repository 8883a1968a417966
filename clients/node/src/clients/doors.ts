// How calls reach a server: as commands of the module, as functions of the library, or as a script.
//
// Nothing is asked up front: the call itself is the question. A server that does not know what it was sent has run nothing, so the call
// goes on to the next of the three ways, and is charged once. Only an error in a reply moves it on: after a lost connection or a timeout
// nobody knows whether it was charged.
//
// Each server has a door of its own, by the name that the transport has for the master of a key.
import { createHash } from 'node:crypto'
import { inspect } from 'node:util'
import { isOutage, isReply, MistakeError } from '../errors.js'
import type { Logger } from '../guard/guard.js'
import { type Transport, within } from './transport.js'

/** Which commands a limiter sends: those of the module, functions in their place, or what the server has, in this order. */
export type Commands = 'auto' | 'module' | 'functions'

export const commandsWords = ['auto', 'module', 'functions'] as const satisfies Commands[]

type Door = { readonly kind: 'module' } | { readonly kind: 'library' } | { readonly kind: 'script'; readonly sinceMs: number; cached: boolean }

/** How long calls are sent as scripts before a server is asked again: its rights, or what is loaded there, may have changed. */
const scriptsMs = 300_000

/** The version 99.99.99. What is no number up to it is no version. */
const newest = 999_999

const most = 3 // how often a call moves on, and how often a library is put into place

interface Library {
  readonly text: string
  readonly script: string
  readonly sha: string
  readonly version: number
}

let read: Promise<Library> | undefined

/** Reads the library that this package carries, when it is needed. */
function library(): Promise<Library> {
  return (read ??= import('../functions/library.js').then(({ text }) => {
    const script = text.slice(text.indexOf('\n') + 1)
    const version = Number(/\nlocal VERSION = (\d+)/.exec(text)?.[1])
    return { text: text.replace(/^#!lua name=throttle$/m, `#!lua name=${nameOf(version)}`), script, sha: createHash('sha1').update(script).digest('hex'), version }
  }))
}

// The version in the name makes a library of another version another name: FUNCTION LOAD then never replaces a newer one.
const nameOf = (version: number) => `throttle_${version}`

/** Writes a version as packages have it. */
const spelled = (version: number) => [Math.floor(version / 10_000), Math.floor(version / 100) % 100, version % 100].join('.')

const messageOf = (error: unknown) => (isReply(error) ? (error as Error).message : '')
const unknownCommand = (error: unknown) => /^ERR unknown (sub)?command/i.test(messageOf(error))
const noFunction = (error: unknown) => /^ERR Function not found/i.test(messageOf(error))
const noScript = (error: unknown) => messageOf(error).startsWith('NOSCRIPT')
const alreadyThere = (error: unknown) => /^ERR (Library|Function) .*already exists/i.test(messageOf(error))
const noScripts = (error: unknown) => unknownCommand(error) || /^NOPERM .* run the '?eval/i.test(messageOf(error))

/** Tells whether an error says that the server has nothing behind a door. Then nothing was run. */
function notHere(door: Door, error: unknown): boolean {
  return door.kind === 'module' ? unknownCommand(error) : door.kind === 'library' ? noFunction(error) : noScript(error)
}

const looks = new Set(['CL.PEEK', 'CL.LEASES'])
const several = new Set(['CL.MLIMIT', 'CL.SETTLE'])

/** What a call is as a function: its name, its keys with their number, and its words. */
function asFunction(words: readonly string[]): { name: string; keys: readonly string[]; rest: readonly string[]; suffix: string } {
  const [command = '', ...rest] = words
  const keys = several.has(command) ? rest.slice(0, Number(rest[0]) + 1) : ['1', rest[0] ?? '']
  return { name: command.toLowerCase().replace('.', '_'), keys, rest: rest.slice(several.has(command) ? keys.length : 1), suffix: looks.has(command) ? '_RO' : '' }
}

const commands: Door = { kind: 'module' }

export class Doors {
  readonly #doors = new Map<string, Door>()
  readonly #asking = new Map<string, Promise<Door>>()
  readonly #told = new Map<string, Door['kind']>()
  #all: boolean // servers have the module, as far as anybody knows

  constructor(
    readonly transport: Transport,
    readonly commands: Commands,
    readonly timeout: number,
    readonly logger: Logger,
  ) {
    this.#all = commands !== 'functions'
  }

  /** Tells whether calls on a key are sent as commands of the module, as far as it is known. */
  module(key: string): boolean {
    return this.#all || (this.commands === 'auto' && (this.#doors.get(this.#nodeOf(key)) ?? commands).kind === 'module')
  }

  /** Tells whether an error says that the server of a key has no module. It is asked then what it has. */
  async without(key: string, error: unknown): Promise<boolean> {
    if (this.commands === 'module' || !unknownCommand(error)) return false
    this.#all = false
    const node = this.#nodeOf(key)
    if ((this.#doors.get(node) ?? commands).kind === 'module') await this.#ask(node, key)
    return true
  }

  /** Sends a call through the door of its server. */
  async send(words: readonly string[], key: string, left: AbortSignal): Promise<unknown> {
    const send = (some: readonly string[]) => this.transport.send(some, key, left)
    if (this.commands === 'module' || !words[0]?.startsWith('CL.')) return await send(words)
    for (let moves = 0; ; moves++) {
      const all = this.#all
      const node = all ? '' : this.#nodeOf(key)
      const door = all ? commands : this.#standing(node) ?? (this.commands === 'auto' ? commands : await this.#ask(node, key))
      try {
        const reply = await through(door, words, send)
        if (door.kind === 'module' && !all) this.#found(node, key, door, 'has the module: calls are sent as its commands')
        return reply
      } catch (error) {
        if (moves >= most || !notHere(door, error)) throw error
        if (door.kind === 'module') {
          await this.without(key, error)
        } else if (this.#doors.get(node) === door) {
          this.#doors.delete(node) // after a failover the server may have the module, so its commands come first again
        }
      }
    }
  }

  #standing(node: string): Door | undefined {
    const door = this.#doors.get(node)
    if (door?.kind !== 'script' || Date.now() - door.sinceMs <= scriptsMs) return door
    this.#doors.delete(node)
    return undefined
  }

  #nodeOf(key: string): string {
    return this.transport.node?.(key) ?? ''
  }

  /** Remembers the door of a server, and says once that it has changed. */
  #found(node: string, key: string, door: Door, line: string): Door {
    this.#doors.set(node, door)
    const before = this.#told.get(node)
    this.#told.set(node, door.kind)
    if (before === door.kind || (before === undefined && door.kind === 'module')) return door
    const said = `throttle: ${node || (this.transport.address?.(key) ?? 'the server')}${line.startsWith(':') ? '' : ' '}${line}`
    if (door.kind !== 'script') this.logger.info(said)
    else if (this.logger.warn) this.logger.warn(said)
    else this.logger.error(said)
    return door
  }

  /** Asks a server what it has: one caller at a time. Others wait for the answer, each until its own time is over. */
  #ask(node: string, key: string): Promise<Door> {
    const asking = this.#asking.get(node) ?? this.#find(node, key).finally(() => this.#asking.delete(node))
    this.#asking.set(node, asking)
    return asking
  }

  async #find(node: string, key: string): Promise<Door> {
    const mine = await library()
    const send = (...words: string[]) => within(this.timeout, undefined, (left) => this.transport.send(words, key, left))
    const auto = this.commands === 'auto'
    const has = auto ? 'has no module, and' : 'has'
    let scripts = ''
    for (let round = 0; round < most; round++) {
      let old: number | undefined
      try {
        const version = await versionOn(send, mine)
        if (version === 'foreign') {
          scripts = `${has} a function cl_version of somebody else's library, beside which ours cannot be loaded`
          break
        }
        if (version !== undefined && version >= mine.version) {
          return this.#found(node, key, { kind: 'library' }, `${has} the function library ${spelled(version)}: calls are sent as functions`)
        }
        old = version
        if (old === undefined) await send('FUNCTION', 'LOAD', mine.text)
        else await this.#replace(key, old, mine)
        const place = old === undefined ? '' : ` in place of ${spelled(old)}`
        return this.#found(node, key, { kind: 'library' }, `${auto ? 'has no module' : ''}: the function library ${spelled(mine.version)} was loaded${place}, and calls are sent as functions`)
      } catch (error) {
        if (!isReply(error) || isOutage(error)) throw error
        const why = `(${messageOf(error)})`
        scripts = old === undefined ? `${auto ? 'has no module and ' : ''}refuses functions ${why}` : `${has} the function library ${spelled(old)}, which may not be replaced by ${spelled(mine.version)} ${why}`
        if (!alreadyThere(error)) break // otherwise somebody was first
      }
    }
    return this.#found(node, key, { kind: 'script', cached: false, sinceMs: Date.now() }, `${scripts}: calls are sent as scripts, which take longer`)
  }

  /**
   * Puts the library into the place of an older one. Names of functions are unique on a server: if another client has put a newer library
   * there in the meantime, it has another name than what is deleted here, and the load is refused. Where MULTI is refused nothing else is
   * sent: the rest would run one by one.
   */
  async #replace(key: string, version: number, { text }: Library): Promise<void> {
    await within(this.timeout, undefined, async (left) => {
      const line = await this.transport.open(key) // MULTI needs a connection of its own
      try {
        // One that an operator loaded is called throttle. Any other library of that name is somebody else's.
        const byHand = await line.send(['FUNCTION', 'LIST', 'LIBRARYNAME', 'throttle']).then((reply) => inspect(reply, { depth: null }), () => '')
        const name = byHand.includes('cl_version') ? 'throttle' : nameOf(version)
        if (left.aborted) throw left.reason
        await line.send(['MULTI'])
        left.throwIfAborted()
        const words = [['FUNCTION', 'DELETE', name], ['FUNCTION', 'LOAD', text], ['EXEC']]
        const replies = await Promise.all(words.map((some) => line.send(some)))
        const results = replies.at(-1)
        const last: unknown = Array.isArray(results) ? results.at(-1) : undefined
        if (last instanceof Error) throw last
      } finally {
        line.close()
      }
    })
  }
}

/** Returns the version of the library of a server, if it has one, or that the function of that name is of somebody else's library. */
async function versionOn(send: (...words: string[]) => Promise<unknown>, mine: Library): Promise<number | 'foreign' | undefined> {
  const gone = (error: unknown) => {
    if (noFunction(error)) return undefined
    throw error
  }
  const answer = await send('FCALL_RO', 'cl_version', '0').catch(gone)
  if (answer === undefined) return undefined
  if (typeof answer !== 'number' || !(answer >= 1 && answer <= newest)) return 'foreign'
  if (answer < mine.version) return answer
  // It has to have our functions, too; ours misses its key.
  const missed = await send('FCALL_RO', 'cl_peek', '0').then(() => false, (error: unknown) => {
    if (!isReply(error)) throw error
    return !noFunction(error)
  })
  return missed ? answer : 'foreign'
}

/** Sends a call through a door. */
async function through(door: Door, words: readonly string[], send: (words: readonly string[]) => Promise<unknown>): Promise<unknown> {
  if (door.kind === 'module') return await send(words)
  const { name, keys, rest, suffix } = asFunction(words)
  if (door.kind === 'library') return await send([`FCALL${suffix}`, name, ...keys, ...rest])
  const { sha, script } = await library()
  const said = [...keys, name, ...rest]
  try {
    try {
      return await send([`EVALSHA${suffix}`, sha, ...said])
    } catch (error) {
      if (!noScript(error) || door.cached) throw error
    }
    const reply = await send([`EVAL${suffix}`, script, ...said])
    door.cached = true
    return reply
  } catch (error) {
    if (!noScripts(error)) throw error
    throw new MistakeError(`the server has no throttle.so, and refuses functions and scripts: ${messageOf(error)}`, { cause: error })
  }
}
