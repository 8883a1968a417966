// What was read of the hash last: which field counts for a key, and what is said of a change.
// spec/clients/policies.json has the rules as a table.
import { isReply, textOf } from '../errors.js'
import type { Logger } from '../guard/guard.js'
import { type Field, readField, readValue, type Value } from './value.js'

/** A field that counts. It stays the same object for as long as it says the same. */
export interface Entry extends Field {
  readonly field: string
  /** The value as it stands in the hash. */
  readonly text: string
  readonly value: Value
  /** What was said of calls that it does not count for. */
  readonly told: Set<string>
}

/** The fields of one policy. */
interface Fields {
  all?: Entry
  readonly exact: Map<string, Entry>
  /** By their length: prefixes of a length are found in one step. */
  readonly prefixes: Map<number, Map<string, Entry>>
  /** The longest first. */
  lengths: number[]
}

const mostLines = 20
const wholeMs = 60_000

export class Hash {
  #entries = new Map<string, Entry>()
  #unreadable = new Map<string, string>() // what was said of a field
  #policies = new Map<string, Fields>()
  #version: string | undefined
  #wholeMs = -Infinity // when it was read whole
  #read = false
  #failing = false

  constructor(
    readonly name: string,
    readonly logger: Logger,
  ) {}

  /** The field that counts for a key, if there is one: the exact key, then the longest prefix, then the name. */
  find(name: string, key: string): Entry | undefined {
    const fields = this.#policies.get(name)
    if (!fields) return undefined
    const exact = fields.exact.get(key)
    if (exact) return exact
    for (const length of fields.lengths) {
      if (length > key.length) continue
      const entry = fields.prefixes.get(length)?.get(key.slice(0, length))
      if (entry) return entry
    }
    return fields.all
  }

  /** Tells whether nothing can be new in a hash of this version, so that it need not be read. */
  knows(version: string | undefined): boolean {
    return version !== undefined && version === this.#version && performance.now() - this.#wholeMs < wholeMs
  }

  /** Whether the hash had a version. */
  get versioned(): boolean {
    return this.#version !== undefined
  }

  /** Takes what was read; undefined if the version is the same. */
  take(read: ReadonlyMap<string, string> | undefined): void {
    if (this.#failing) this.#say('info', `${this.name} is read again`)
    this.#failing = false
    if (!read || this.knows(read.get('@version'))) return
    this.#version = read.get('@version')
    this.#wholeMs = performance.now()
    const lines = this.#change(read)
    const first = !this.#read
    this.#read = true
    // The first time all is new.
    if (first && this.#entries.size > 0) this.#say('info', `${this.name}: ${this.#entries.size} ${this.#entries.size === 1 ? 'policy' : 'policies'}`)
    const said = first ? lines.filter(({ level }) => level === 'error') : lines
    said.sort((a, b) => (a.field < b.field ? -1 : 1))
    for (const { level, line } of said.slice(0, mostLines)) this.#say(level, line)
    if (said.length > mostLines) this.#say('info', `${this.name}: ${said.length - mostLines} more changes`)
  }

  /** Keeps what was read last. */
  fail(error: unknown): void {
    if (this.#failing) return
    this.#failing = true
    const why = textOf(error)
    const right = isReply(error) && why.startsWith('NOPERM') ? `; the user needs +hgetall +hget %R~${this.name}` : ''
    this.#say('error', `${this.name} could not be read, ${this.#read ? 'what was read last counts' : 'the defaults of the code count'}: ${why}${right}`)
  }

  /** Says once why a field does not count for calls. */
  refuse(entry: Entry, why: string): void {
    if (entry.told.has(why)) return
    entry.told.add(why)
    this.#say('error', `policy ${shown(entry.field)}: ${quoted(entry.text)} ${why}: the default counts`)
  }

  #change(read: ReadonlyMap<string, string>): { field: string; level: 'info' | 'error'; line: string }[] {
    const lines: { field: string; level: 'info' | 'error'; line: string }[] = []
    const before = this.#entries
    const entries = new Map<string, Entry>()
    const unreadable = new Map<string, string>()
    const values = new Map<string, Value>() // many fields may say the same
    for (const [field, text] of read) {
      if (field.startsWith('@')) continue
      const old = before.get(field)
      if (old?.text === text) {
        entries.set(field, old)
        continue
      }
      const about = readField(field)
      let why: string
      try {
        if (!about) throw new SyntaxError('') // which is said in other words
        const id = `${about.name} ${text}`
        const value = values.get(id) ?? readValue(about.name, text)
        values.set(id, value)
        entries.set(field, { ...about, field, text, value, told: new Set() })
        lines.push({ field, level: 'info', line: `policy ${shown(field)} is ${quoted(text)} now, it was ${old ? quoted(old.text) : 'not set'}` })
        continue
      } catch (error) {
        why = textOf(error)
      }
      if (old) entries.set(field, old)
      unreadable.set(field, text)
      if (this.#unreadable.get(field) === text || (!about && this.#unreadable.has(field))) continue
      const line = about ? `policy ${shown(field)}: ${quoted(text)} cannot be read, ${old ? `${quoted(old.text)} still counts` : 'it does not count'}: ${why}` : `${quoted(field)} is not the name of a policy`
      lines.push({ field, level: 'error', line })
    }
    for (const [field, { text }] of before) {
      if (!entries.has(field)) lines.push({ field, level: 'info', line: `policy ${shown(field)} is not set any more, it was ${quoted(text)}` })
    }
    this.#entries = entries
    this.#unreadable = unreadable
    if (lines.length > 0) this.#policies = byName(entries.values())
    return lines
  }

  #say(level: 'info' | 'error', line: string): void {
    try {
      this.logger[level](`redis-throttle: ${line}`)
    } catch (thrown) {
      console.error('redis-throttle: a logger has thrown:', thrown)
    }
  }
}

function byName(entries: Iterable<Entry>): Map<string, Fields> {
  const policies = new Map<string, Fields>()
  for (const entry of entries) {
    let fields = policies.get(entry.name)
    if (!fields) policies.set(entry.name, (fields = { exact: new Map(), prefixes: new Map(), lengths: [] }))
    if (entry.key !== undefined) fields.exact.set(entry.key, entry)
    else if (entry.prefix === undefined) fields.all = entry
    else {
      const { length } = entry.prefix
      const some = fields.prefixes.get(length) ?? new Map<string, Entry>()
      fields.prefixes.set(length, some.set(entry.prefix, entry))
    }
  }
  for (const fields of policies.values()) fields.lengths = [...fields.prefixes.keys()].sort((a, b) => b - a)
  return policies
}

/** A text of the hash as one line of log. */
const quoted = (text: string) => JSON.stringify(text)
const shown = (field: string) => quoted(field).slice(1, -1)
