// What servers, managed services and proxies say of a command that is not there for this client. Nothing was run then.
// spec/clients/missing.json has their answers as a table.
import { isError } from '../errors.js'

const missing = /^(ERR )?(unknown (sub)?command|unsupported command|command is not available|(handle \w+, )?command '?[\w.|]+'? (is )?not (support|allowed|available))/i
const right = /^NOPERM .* run the '([^']+)' command/i

// A proxy may begin its answer as it likes. Errors of Node.js have a code.
const answerOf = (error: unknown) => (isError(error) && typeof (error as NodeJS.ErrnoException).code !== 'string' ? error.message : '')

/** Returns the right that an error says the user lacks, as rules of ACL SETUSER have it, such as function|load. */
export function rightOf(error: unknown): string | undefined {
  return right.exec(answerOf(error))?.[1]?.toLowerCase()
}

/** Tells whether an error says that the server does not know a command, or that the user may not run it. */
export function isMissing(error: unknown): boolean {
  return missing.test(answerOf(error)) || rightOf(error) !== undefined
}
