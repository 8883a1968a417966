// How calls reach a server: as commands of the module, as functions of the library, or as a script.
//
// Nothing is asked up front: the call itself is the question. A server that does not know what it was sent has run
// nothing, so the call goes on to the next of the three ways, and is charged once. Only an error in a reply moves it
// on: after a lost connection or a timeout nobody knows whether it was charged.
//
// Each server has a door of its own, by the name that the transport has for the master of a key.
import { createHash } from 'node:crypto'
import { isOutage, isReply, MistakeError, textOf } from '../errors.js'
import type { Logger } from '../guard/guard.js'
import { isMissing, rightOf } from './missing.js'
import { type Transport } from './transport.js'
import { type Left, within } from './within.js'

/**
 * Which commands a limiter sends: those of the module, functions in their place, or what the server has, in this order.
 */
export type Commands = 'auto' | 'module' | 'functions'

export const commandsWords = ['auto', 'module', 'functions'] as const satisfies Commands[]

interface Script {
  readonly kind: 'script'
  readonly untilMs: number
  /** How often the script was sent, and by whom it is just being sent. */
  sent: number
  sending: Promise<unknown> | undefined
  /** The server has no commands for scripts that only read. */
  plain: boolean
}

type Door = { readonly kind: 'module' } | { readonly kind: 'library'; readonly untilMs: number } | Script

/** How long a server is asked nothing about what it has: its rights, or what is loaded there, may have changed. */
const longMs = 300_000
/**
 * The same, where it will soon be otherwise: a replica may be promoted, a slot has moved, somebody else was loading a
 * library.
 */
const soonMs = 1000

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

// The version in the name makes a library of another version another name: FUNCTION LOAD then never replaces a newer
// one.
const nameOf = (version: number) => `throttle_${version}`

/** Writes a version as packages have it. */
const spelled = (version: number) => [Math.floor(version / 10_000), Math.floor(version / 100) % 100, version % 100].join('.')

const answered = (error: unknown) => isReply(error) || isMissing(error)
const messageOf = (error: unknown) => (answered(error) ? textOf(error) : '')
const noFunction = (error: unknown) => /^ERR Function not found/i.test(messageOf(error))
const noScript = (error: unknown) => messageOf(error).startsWith('NOSCRIPT')
/** Somebody else has loaded or deleted a library meanwhile. */
const changed = (error: unknown) => /^ERR ((Library|Function) .*already exists|Library not found)/i.test(messageOf(error))
const readOnly = (error: unknown) => messageOf(error).startsWith('READONLY')

/** Tells whether an error says that the server has nothing behind a door. Then nothing was run. */
function notHere(door: Door, error: unknown): boolean {
  return door.kind === 'module' ? isMissing(error) : door.kind === 'library' ? noFunction(error) || isMissing(error) : noScript(error)
}

const looks = new Set(['CL.PEEK', 'CL.LEASES', 'CL.INSPECT'])
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
  readonly #lacks = new Map<string, string>() // the right to run the module's command, by server
  #all: boolean // servers have the module, as far as anybody knows

  constructor(
    readonly transport: Transport,
    readonly commands: Commands,
    readonly timeout: number,
    readonly logger: Logger,
  ) {
    this.#all = commands !== 'functions'
    // A server that was started again may have anything.
    transport.onReady?.(() => {
      this.#doors.clear()
    })
  }

  /** Tells whether calls on a key are sent as commands of the module, as far as it is known. */
  module(key: string): boolean {
    return this.#all || (this.commands === 'auto' && (this.#standing(this.#nodeOf(key)) ?? commands).kind === 'module')
  }

  /** Tells whether an error says that the server of a key has no module. It is asked then what it has. */
  async without(key: string, error: unknown): Promise<boolean> {
    if (this.commands === 'module' || !isMissing(error)) return false
    this.#all = false
    const node = this.#nodeOf(key)
    const right = rightOf(error)
    if (right) this.#lacks.set(node, right)
    else this.#lacks.delete(node)
    if ((this.#doors.get(node) ?? commands).kind === 'module') await this.#ask(node, key)
    return true
  }

  /** Sends a call through the door of its server. */
  async send(words: readonly string[], key: string, left: Left): Promise<unknown> {
    const send = (some: readonly string[]) => this.transport.send(some, key, left)
    if (this.commands === 'module' || !words[0]?.startsWith('CL.')) return await send(words)
    if (words[0] === 'CL.DENIED') { // the library lacks it, and so does an older module, which says nothing of its other commands
      if (!this.module(key)) throw new MistakeError('the server has no throttle.so, which CL.DENIED needs')
      return await send(words)
    }
    for (let moves = 0; ; moves++) {
      const all = this.#all
      const node = all ? '' : this.#nodeOf(key)
      const door = all ? commands : this.#standing(node) ?? (this.commands === 'auto' ? commands : await this.#ask(node, key))
      try {
        const reply = door.kind === 'module' ? await send(words) : await through(door, words, send)
        if (door.kind === 'module' && !all) this.#found(node, key, door, 'has the module: calls are sent as its commands')
        return reply
      } catch (error) {
        // A replica may be a master when it is asked again. Where no script may be run either, other calls may have the
        // right to their command.
        if (door.kind === 'script' && (readOnly(error) || error instanceof MistakeError)) this.#doors.delete(node)
        if (!notHere(door, error)) throw error
        if (door.kind === 'module') {
          if (moves >= most) throw error
          if (words[0] === 'CL.INSPECT') await refuseOlder(send, words[1] ?? '', error)
          await this.without(key, error)
        } else if (moves >= most || door.kind === 'script') {
          // A library lacks what its version has, or the key moves to another server, which nobody can ask. A whole
          // script follows the key.
          const script = newScript(soonMs)
          if (door.kind === 'library') this.#found(node, key, script, `has a library that lacks a function (${messageOf(error)}): calls are sent as scripts, which take longer`)
          return await whole(script, words, send)
        } else if (this.#doors.get(node) === door) {
          this.#doors.delete(node) // after a failover the server may have the module, so its commands come first again
        }
      }
    }
  }

  #standing(node: string): Door | undefined {
    const door = this.#doors.get(node)
    if (!door || door.kind === 'module' || performance.now() <= door.untilMs) return door
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
    const said = `redis-throttle: ${node || (this.transport.address?.(key) ?? 'the server')}${line.startsWith(':') ? '' : ' '}${line}`
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
    const lacks = this.#lacks.get(node)
    const without = !auto ? '' : lacks === undefined ? 'has no module' : `does not let this user run ${lacks}`
    const has = !auto ? 'has' : lacks === undefined ? `${without}, and` : `${without}, and has`
    let scripts = ''
    let ms = longMs
    for (let round = 0; round < most; round++) {
      let old: number | undefined
      try {
        const version = await versionOn(send, this.transport.prefix + key, mine)
        if (version === 'foreign') {
          scripts = `${has} a function cl_version of somebody else's library, beside which ours cannot be loaded`
          break
        }
        if (version !== undefined && version >= mine.version) {
          return this.#found(node, key, newLibrary(), `${has} the function library ${spelled(version)}: calls are sent as functions`)
        }
        old = version
        if (old === undefined) await send('FUNCTION', 'LOAD', mine.text)
        else await this.#replace(key, old, mine)
        const place = old === undefined ? '' : ` in place of ${spelled(old)}`
        return this.#found(node, key, newLibrary(), `${without}: the function library ${spelled(mine.version)} was loaded${place}, and calls are sent as functions`)
      } catch (error) {
        if (!answered(error) || (isOutage(error) && !readOnly(error))) throw error
        const why = `(${messageOf(error)})`
        scripts = old === undefined ? `${without}${auto ? ' and ' : ''}refuses functions ${why}` : `${has} the function library ${spelled(old)}, which may not be replaced by ${spelled(mine.version)} ${why}`
        ms = readOnly(error) || changed(error) ? soonMs : longMs
        if (!changed(error)) break // otherwise somebody was first
      }
    }
    await refuseOld(send, this.transport.prefix + key)
    await send('EVALSHA', mine.sha, '1', this.transport.prefix + key, 'cl_version').catch((error: unknown) => {
      if (!noScript(error)) throw isMissing(error) ? noWay(error, lacks) : error
    })
    return this.#found(node, key, newScript(ms), `${scripts}: calls are sent as scripts, which take longer`)
  }

  /**
   * Puts the library into the place of an older one. Names of functions are unique on a server: if another client has
   * put a newer library there in the meantime, it has another name than what is deleted here, and the load is refused.
   * Where MULTI is refused nothing else is sent: the rest would run one by one.
   */
  async #replace(key: string, version: number, { text }: Library): Promise<void> {
    await within(this.timeout, undefined, async (left) => {
      const line = await this.transport.open(key) // MULTI needs a connection of its own
      try {
        // One that an operator loaded is called throttle. Any other library of that name is somebody else's.
        const byHand = await line.send(['FUNCTION', 'LIST', 'LIBRARYNAME', 'throttle']).then(functionsIn, (): string[] => [])
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

const newLibrary = (): Door => ({ kind: 'library', untilMs: performance.now() + longMs })
const newScript = (ms: number): Script => ({ kind: 'script', untilMs: performance.now() + ms, sent: 0, sending: undefined, plain: false })

/** Returns the names of the functions in a reply of FUNCTION LIST, which is of lists, of maps or of objects. */
function functionsIn(reply: unknown): string[] {
  const flat: unknown[] = []
  const walk = (it: unknown): void => {
    if (Array.isArray(it)) it.forEach(walk)
    else if (it instanceof Map) for (const pair of it) walk(pair)
    else if (typeof it === 'object' && it !== null && !Buffer.isBuffer(it)) walk(Object.entries(it))
    else flat.push(String(it))
  }
  walk(reply)
  return flat.flatMap((word, i) => (flat[i - 1] === 'name' ? [String(word)] : []))
}

/**
 * Returns the version of the library of a server, if it has one, or that the function of that name is of somebody
 * else's library.
 */
async function versionOn(send: (...words: string[]) => Promise<unknown>, key: string, mine: Library): Promise<number | 'foreign' | undefined> {
  const gone = (error: unknown) => {
    if (noFunction(error)) return undefined
    throw error
  }
  // A managed service may refuse calls without a key. Both ways to call a function have to be open.
  for (let asked = 0; ; asked++) {
    const answer = await send('FCALL', 'cl_version', '1', key).catch(gone)
    if (answer === undefined) return undefined
    if (typeof answer !== 'number' || !(answer >= 1 && answer <= newest)) return 'foreign'
    // It has to have our functions, too; ours misses its limits.
    const missed = await send('FCALL_RO', 'cl_peek', '1', key).then(() => true, (error: unknown) => {
      if (!answered(error) || isMissing(error)) throw error
      return !noFunction(error)
    })
    if (missed || answer < mine.version) return answer
    if (asked > 0) return 'foreign' // it is still there, and was not deleted in between
  }
}

/** Refuses a server on which the script would end in the middle of a call, after it has charged some of its keys. */
async function refuseOld(send: (...words: string[]) => Promise<unknown>, key: string): Promise<void> {
  try {
    await send('PEXPIRETIME', key)
  } catch (error) {
    if (!answered(error)) throw error
    if (isMissing(error) && rightOf(error) === undefined) throw new MistakeError(`the server has no throttle.so, and is older than Redis 7.0: it has no PEXPIRETIME, which the function library needs`, { cause: error })
  }
}

/**
 * Refuses a module that is older than a command, or a right to it that lacks: other calls are not sent otherwise for
 * that. CL.PEEK without limits, which every version refuses in other words, tells whether the module is there.
 */
async function refuseOlder(send: Send, key: string, error: unknown): Promise<void> {
  try {
    await send(['CL.PEEK', key])
  } catch (peeked) {
    if (isMissing(peeked)) return
    if (!answered(peeked) || isOutage(peeked)) throw peeked
  }
  throw rightOf(error) === undefined ? new MistakeError("CL.INSPECT: the server's throttle.so is older than this command", { cause: error }) : error
}

/**
 * Makes the error of a server that takes a call in no way. It names the right that the user lacks for the module's
 * command, if that is why.
 */
function noWay(error: unknown, lacks?: string): MistakeError {
  const why = lacks === undefined ? 'has no throttle.so' : `does not let this user run ${lacks}`
  return new MistakeError(`the server ${why}, and refuses functions and scripts: ${messageOf(error)}`, { cause: error })
}

/** Sends a call as a function or a script. */
async function through(door: Exclude<Door, { kind: 'module' }>, words: readonly string[], send: Send): Promise<unknown> {
  if (door.kind === 'script') return await byHash(door, words, send)
  const { name, keys, rest, suffix } = asFunction(words)
  return await send([`FCALL${suffix}`, name, ...keys, ...rest])
}

type Send = (words: readonly string[]) => Promise<unknown>

/**
 * Sends a call as a script that the server knows by its hash. One call sends the script where it is unknown; the others
 * wait for it.
 */
async function byHash(door: Script, words: readonly string[], send: Send): Promise<unknown> {
  const { sha } = await library()
  for (let asked = 0; ; asked++) {
    const { sent } = door
    try {
      return await evaluated('EVALSHA', sha, door, words, send)
    } catch (error) {
      if (!noScript(error) || asked >= most) throw error
    }
    if (door.sending) await door.sending.catch(() => {})
    else if (door.sent === sent) return await whole(door, words, send)
  }
}

/** Sends a call with the whole script. */
async function whole(door: Script, words: readonly string[], send: Send): Promise<unknown> {
  const sending = library().then(({ script }) => evaluated('EVAL', script, door, words, send))
  door.sending = sending // at once, so that nobody else sends it
  try {
    return await sending
  } finally {
    door.sent++
    door.sending = undefined
  }
}

async function evaluated(how: 'EVAL' | 'EVALSHA', script: string, door: Script, words: readonly string[], send: Send): Promise<unknown> {
  const { name, keys, rest, suffix } = asFunction(words)
  for (;;) {
    const command = door.plain ? how : `${how}${suffix}`
    try {
      return await send([command, script, ...keys, name, ...rest])
    } catch (error) {
      if (!isMissing(error)) throw error
      if (command === how) throw noWay(error)
      door.plain = true
    }
  }
}
