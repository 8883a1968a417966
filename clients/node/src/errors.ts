// What can go wrong, told apart as a service needs it: is Redis away, is this process too busy, or is it a mistake?
import { types } from 'node:util'

/** The codes of errors, which stay the same from version to version. */
export type ErrorCode = 'OUTAGE' | 'OVERLOAD' | 'MISTAKE' | 'LIMITED' | 'LEASE_LOST'

// Errors are told by this mark. Of the classes there may be two copies in a process, as of any package, and a minifier
// changes their names.
const mark = Symbol.for('redis-throttle.error')

/**
 * Any error of this package. Its text never holds a key, nor an argument that the server did not complain about.
 *
 *     if (error instanceof ThrottleError) console.log(error.code)
 */
export abstract class ThrottleError extends Error {
  /** The name of the class, also in a minified bundle. */
  override name = 'ThrottleError'
  /** Which error it is. It stays the same from version to version. */
  abstract readonly code: ErrorCode

  get [mark](): true {
    return true
  }

  static override [Symbol.hasInstance](error: unknown): boolean {
    if (this !== ThrottleError && !Object.hasOwn(this, 'code')) return Function.prototype[Symbol.hasInstance].call(this, error) // a class of somebody else
    const code = codeOf(error)
    return code !== undefined && (this === ThrottleError || (this as { code?: ErrorCode }).code === code)
  }
}

/** Returns the code of an error of this package, also of another copy of it. */
function codeOf(error: unknown): ErrorCode | undefined {
  return typeof error === 'object' && error !== null && mark in error ? (error as ThrottleError).code : undefined
}

/**
 * The server is out of reach, or in a state in which it does not decide (LOADING, READONLY, CLUSTERDOWN and the like).
 * It goes away by itself. Decide whether your service lets requests through meanwhile.
 *
 *     if (error instanceof OutageError) return 'let it through'
 */
export class OutageError extends ThrottleError {
  static readonly code = 'OUTAGE'
  /** The name of the class, also in a minified bundle. */
  override name = 'OutageError'
  override readonly code = 'OUTAGE'
}

/**
 * This process asks for more than its client carries: its queue is full, its pool has no connection left, 10,000 calls
 * wait for their replies, or a reply is late while the server answers other calls. The server may well be up. A service
 * that lets requests through at this error has no limit as soon as there are enough of them.
 *
 *     if (error instanceof OverloadError) return 503
 */
export class OverloadError extends ThrottleError {
  static readonly code = 'OVERLOAD'
  /** The name of the class, also in a minified bundle. */
  override name = 'OverloadError'
  override readonly code = 'OVERLOAD'
}

/**
 * The call or the set-up is wrong: a limit, a key of another type, a missing module or permission, a closed client. It
 * does not go away by itself.
 *
 *     if (error instanceof MistakeError) throw error
 */
export class MistakeError extends ThrottleError {
  static readonly code = 'MISTAKE'
  /** The name of the class, also in a minified bundle. */
  override name = 'MistakeError'
  override readonly code = 'MISTAKE'
}

/**
 * A lease could not be renewed in time, so its slot may belong to somebody else.
 *
 *     if (error instanceof LeaseLostError) await undo()
 */
export class LeaseLostError extends ThrottleError {
  static readonly code = 'LEASE_LOST'
  /** The name of the class, also in a minified bundle. */
  override name = 'LeaseLostError'
  override readonly code = 'LEASE_LOST'

  constructor(message = "the lease has lapsed: its slot may be somebody else's", options?: ErrorOptions) {
    super(message, options)
  }
}

// The first words of replies of a server that will decide the same call later, or that another server decides.
const later = new Set(['BUSY', 'CLUSTERDOWN', 'LOADING', 'MASTERDOWN', 'MISCONF', 'NOREPLICAS', 'OOM', 'READONLY', 'TRYAGAIN', 'UNBLOCKED'])

// Codes of errors of the network, which Node.js reports.
const noConnection = /^(EAI_AGAIN|ECONN|EHOST|ENET|ENOTFOUND|EPIPE|ETIMEDOUT)/

// The libraries' other errors, by their texts: they have neither codes nor, in a minified bundle, names.
const outageTexts =
  /^(All sentinels are unreachable|All the root nodes are unavailable|Cannot find node|Cluster isn't ready|Command aborted due to connection close|Command timed out|Command timeout during maintenance|Connection is closed|Connection timeout|Disconnects client|Failed to refresh slots cache|None of startup nodes is available|Reached the max retries per request limit|Socket closed unexpectedly|Socket timeout|Stream isn't writeable|The client is offline|Too many Cluster redirections|timeout$)|ETIMEDOUT/
const overloadTexts = /^(The queue is full|Timeout waiting for a client)/

// A reply begins with a word in capitals, such as READONLY or ERR. No text of the libraries does; errors of Node.js
// have a code.
const replies = /^[A-Z][A-Z0-9_]+( |$)/

/** Tells whether something is an error, also one of another realm: in jest, those of Node.js are. */
export function isError(it: unknown): it is Error {
  return it instanceof Error || types.isNativeError(it)
}

/** Tells whether error, of a client library, is a reply of the server. */
export function isReply(error: unknown): boolean {
  return isError(error) && typeof (error as NodeJS.ErrnoException).code !== 'string' && replies.test(error.message)
}

/**
 * Tells whether error, of a client library or of this package, says that this process asks for more than its client
 * carries.
 *
 *     if (isOverload(error)) return 503
 */
export function isOverload(error: unknown): boolean {
  const code = codeOf(error)
  if (code) return code === 'OVERLOAD'
  return isError(error) && !isReply(error) && overloadTexts.test(error.message)
}

/**
 * Tells whether error, of a client library or of this package, says that the server is out of reach or does not decide
 * now.
 *
 *     if (isOutage(error)) return 'let it through'
 */
export function isOutage(error: unknown): boolean {
  const code = codeOf(error)
  if (code) return code === 'OUTAGE'
  if (!(isError(error)) || isOverload(error)) return false
  // Redis 7.0 puts ERR before what a script has met.
  if (isReply(error)) return later.has(error.message.replace(/^ERR /, '').split(' ', 1)[0] ?? '') || error.message.startsWith('ERR max number of clients')
  // node-redis: what a reconnectStrategy returned, whatever it is; and a time limit of a command, whose error has no
  // text.
  if ('socketError' in error || (error.message === '' && error.constructor !== Error)) return true
  const { code: reason, syscall } = error as NodeJS.ErrnoException
  if (reason === 'ENOENT' && syscall === 'connect') return true // the Unix socket of a server that has ended
  return noConnection.test(String(reason)) || outageTexts.test(error.message)
}

/**
 * Keeps the command that an error of ioredis holds, with its key or with a password, out of logs, which print the cause
 * of an error, too.
 */
function hideCommand(error: unknown): void {
  if (isError(error) && Object.hasOwn(error, 'command')) Object.defineProperty(error, 'command', { enumerable: false })
}

/**
 * Returns the text of an error without arguments: a server repeats those of a command that it does not know, and keys
 * do not belong into logs.
 */
export function textOf(error: unknown): string {
  const text = isError(error) ? error.message || error.name : String(error)
  return text.split(', with args', 1)[0] ?? ''
}

/** Returns what may be the cause of an error that is logged. */
function causeOf(error: unknown): unknown {
  hideCommand(error)
  return isError(error) && textOf(error) !== (error.message || error.name) ? new Error(textOf(error)) : error
}

/** Returns error as one of this package. `about` is what the client knows of an outage beside it. */
export function translate(command: string, error: unknown, about = ''): ThrottleError {
  if (error instanceof ThrottleError) {
    if ('cause' in error) error.cause = causeOf(error.cause)
    if (about !== '' && !error.message.includes(about)) error.message += about
    return error
  }
  const tags = /^(ERR )?CROSSSLOT/.test(textOf(error)) ? ': in a cluster the keys of a call need the same hash tag, such as {42}:requests and {42}:tokens' : ''
  const Kind = isOutage(error) ? OutageError : isOverload(error) ? OverloadError : MistakeError
  return new Kind(`${command}: ${textOf(error)}${tags}${about}`, { cause: causeOf(error) })
}
