// What can go wrong, told apart as a service needs it: is Redis away, is this process too busy, or is it a mistake?
import type { Result } from './result'

/** Any error of this package. Its text never holds a key, nor an argument that the server did not complain about. */
export class ThrottleError extends Error {
  override name = 'ThrottleError'
}

/**
 * The server is out of reach, or in a state in which it does not decide (LOADING, READONLY, CLUSTERDOWN and the like).
 * It goes away by itself. Decide whether your service lets requests through meanwhile.
 */
export class OutageError extends ThrottleError {
  override name = 'OutageError'
}

/**
 * This process asks for more than its client carries: its queue is full, or its pool has no connection left. The server may
 * well be up. A service that lets requests through at this error has no limit as soon as there are enough of them.
 */
export class OverloadError extends ThrottleError {
  override name = 'OverloadError'
}

/** The call or the set-up is wrong: a limit, a key of another type, a missing module or permission, a closed client. It does not go away by itself. */
export class MistakeError extends ThrottleError {
  override name = 'MistakeError'
}

/** A call was denied. `result` says by what, and when to try again. */
export class LimitedError extends ThrottleError {
  override name = 'LimitedError'

  constructor(readonly result: Result) {
    const after = result.retryAfterMs
    super(
      after === Infinity
        ? `limited: the call costs more than the limit of ${result.limit}`
        : `limited: ${result.banned ? 'banned, ' : ''}retry after ${after / 1000} s`,
    )
  }
}

/** A lease could not be renewed in time, so its slot may belong to somebody else. */
export class LeaseLostError extends ThrottleError {
  override name = 'LeaseLostError'

  constructor(message = "the lease has lapsed: its slot may be somebody else's", options?: ErrorOptions) {
    super(message, options)
  }
}

// The first words of replies of a server that will decide the same call later, or that another server decides.
const later = new Set(['BUSY', 'CLUSTERDOWN', 'LOADING', 'MASTERDOWN', 'MISCONF', 'NOREPLICAS', 'OOM', 'READONLY', 'TRYAGAIN', 'UNBLOCKED'])

// Codes of errors of the network, which Node.js reports.
const noConnection = /^(EAI_AGAIN|ECONN|EHOST|ENET|ENOTFOUND|EPIPE|ETIMEDOUT)/

// The classes of both libraries. They are told by their names, since neither library need be installed.
const outages = new Set([
  'ClientOfflineError', 'ConnectionTimeoutError', 'DisconnectsClientError', 'MaxCommandRedirectionsError', 'ReconnectStrategyError',
  'RootNodesUnavailableError', 'SocketClosedUnexpectedlyError', 'SocketTimeoutError', 'TimeoutError', 'SocketTimeoutDuringMaintenanceError',
  'CommandTimeoutDuringMaintenanceError', 'MaxRetriesPerRequestError', 'ClusterAllFailedError',
])

// ioredis has no classes for most of these.
const outageTexts =
  /^(All sentinels are unreachable|Cluster isn't ready|Command aborted due to connection close|Command timed out|Connection is closed|None of startup nodes is available|Socket timeout|Stream isn't writeable|Too many Cluster redirections)|ETIMEDOUT/
const overloadTexts = /^(The queue is full|Timeout waiting for a client)/

function* classes(error: unknown): Generator<string> {
  for (let at: unknown = error; at instanceof Error; at = Object.getPrototypeOf(at)) yield at.constructor.name
  if (error instanceof Error) yield error.name
}

/** Tells whether error, of a client library, is a reply of the server. */
export function isReply(error: unknown): boolean {
  for (const name of classes(error)) if (name === 'ErrorReply' || name === 'ReplyError') return true
  return false
}

/** Tells whether error, of a client library or of this package, says that this process asks for more than its client carries. */
export function isOverload(error: unknown): boolean {
  if (error instanceof ThrottleError) return error instanceof OverloadError
  return error instanceof Error && !isReply(error) && overloadTexts.test(error.message)
}

/** Tells whether error, of a client library or of this package, says that the server is out of reach or does not decide now. */
export function isOutage(error: unknown): boolean {
  if (error instanceof ThrottleError) return error instanceof OutageError
  if (!(error instanceof Error) || isOverload(error)) return false
  if (isReply(error)) return later.has(error.message.split(' ', 1)[0] ?? '') || error.message.startsWith('ERR max number of clients')
  for (const name of classes(error)) if (outages.has(name)) return true
  return noConnection.test(String((error as NodeJS.ErrnoException).code)) || outageTexts.test(error.message)
}

/** Returns error as one of this package. */
export function translate(command: string, error: unknown): ThrottleError {
  if (error instanceof ThrottleError) return error
  const text = error instanceof Error ? error.message || error.name : String(error)
  // A server without the module repeats the arguments, and keys do not belong into logs.
  const message = `${command}: ${text.split(', with args beginning with', 1)[0]}`
  const Kind = isOutage(error) ? OutageError : isOverload(error) ? OverloadError : MistakeError
  return new Kind(message, { cause: error })
}
