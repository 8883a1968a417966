// Transcripts as in spec/: their calls as those of this package, and results as the server replies them.
import { type Call, type Duration, type Inspection, Limit, parseLimits, type Result, type Verb } from '@redis-throttle/client'

/** Why a line, and what comes after it in its example, is not for this process. */
export class NotHere extends Error {}

const verbs: Record<string, Verb> = {
  'CL.LIMIT': 'limit', 'CL.MLIMIT': 'limit', 'CL.PEEK': 'peek', 'CL.REFUND': 'refund', 'CL.BAN': 'ban',
  'CL.LEASE': 'lease', 'CL.RENEW': 'renew', 'CL.RELEASE': 'release', 'CL.SETTLE': 'settle', DEL: 'reset',
}

const flags: Record<string, object> = { UPTO: { charge: 'up_to' }, STRICT: { charge: 'strict' }, FORCE: { charge: 'force' }, ANY: { any: true },
  EACH: { each: true }, COMPACT: {} }
const valued: Record<string, (value: string) => object> = {
  COST: (value) => ({ cost: Number(value) }),
  BAN: (value) => ({ ban: value as Duration }),
  AFTER: (value) => ({ banAfter: value }),
  MAXWAIT: (value) => ({ maxWait: value as Duration }),
  ID: (value) => ({ id: value }),
}

/** Reads a command as a call. */
export function callOf(words: string[]): Call {
  const [command = '', ...rest] = words
  const verb = verbs[command]
  if (verb === undefined) throw new NotHere(command)
  const several = command === 'CL.MLIMIT' || command === 'CL.SETTLE'
  const n = several ? Number(rest.shift()) : 1
  const names = rest.splice(0, n)
  if (verb === 'reset') return { verb, keys: [{ name: names[0] ?? '' }] }
  if (verb === 'ban') return { verb, keys: [{ name: names[0] ?? '', }], ban: rest[0] as Duration }
  if (verb === 'lease' || verb === 'renew' || verb === 'release') {
    const of = (word: string) => (rest.includes(word) ? rest[rest.indexOf(word) + 1] : undefined)
    for (const word of rest) if (['TIMEOUT', 'GROUP', 'PRIORITY'].includes(word)) throw new NotHere(word)
    if (verb === 'release' && rest.length > 2) throw new NotHere('several ids, which clients do not send')
    const [slots, ttl, id] = [of('SLOTS'), of('TTL'), of('ID')]
    return { verb, keys: [{ name: names[0] ?? '', ...(verb === 'lease' && { leased: true }), ...(slots !== undefined && { slots: Number(slots) }),
      ...(ttl !== undefined && { ttl: ttl as Duration }) }], id: id ?? '' }
  }
  let options = {}
  const groups: string[][] = [[]]
  while (rest.length > 0) {
    const word = rest.shift() ?? ''
    const value = valued[word]
    if (word === 'NEXT') groups.push([])
    else if (flags[word]) options = { ...options, ...flags[word] }
    else if (value) options = { ...options, ...value(rest.shift() ?? '') }
    else groups.at(-1)?.push(word)
  }
  const keys = names.map((name, i) => {
    const group = groups[i] ?? groups[0] ?? []
    if (group[0] !== 'SLOTS') return { name, limits: limitsOf(group) }
    return { name, leased: true, ...(group[1] !== undefined && { slots: Number(group[1]) }), ...(group[3] !== undefined && { ttl: group[3] as Duration }) }
  })
  return { verb, keys, ...(several && { several }), ...options }
}

/** Limits in words, with USED, which configuration files do not have. */
function limitsOf(words: string[]): Limit[] {
  const used: (number | undefined)[] = []
  const others: string[] = []
  for (let i = 0; i < words.length; i++) {
    if (/^(RATE|WINDOW|FIXED)$/.test(words[i] ?? '')) used.push(undefined)
    if (words[i] === 'USED') used[used.length - 1] = Number(words[++i])
    else others.push(words[i] ?? '')
  }
  return parseLimits(others.join(' ')).map((limit, i) => (used[i] === undefined ? limit : limit.with({ used: used[i] })))
}

const rules = (call: Call, keyIndex: number) => call.keys.slice(0, keyIndex).reduce((n, { limits }) => n + Math.max(limits?.length ?? 0, 1), 0)

/** A result as the server replies it. */
export function replyOf(call: Call, result: Result): Record<string, number> {
  const none = call.verb === 'settle' && call.keys.every(({ limits }) => !limits) // a settlement of slots alone has no rule
  return {
    limited: Number(result.limited),
    settled: Number(!result.limited),
    rule: result.banned || none ? 0 : rules(call, result.keyIndex) + result.rule + 1,
    limit: result.limit,
    remaining: result.remaining,
    retry_after_ms: result.limited ? (result.retryAfterMs ?? -1) : -1,
    reset_after_ms: result.resetAfterMs,
    next_after_ms: result.nextAfterMs,
    granted: result.granted,
    wait_ms: result.waitMs,
    shadow: result.shadowed ? rules(call, result.shadowKeyIndex) + result.shadow + 1 : 0,
    key: none ? 0 : result.keyIndex + 1,
    lease_ms: result.lastsMs,
  }
}

export const order = ['limited', 'rule', 'limit', 'remaining', 'retry_after_ms', 'reset_after_ms', 'next_after_ms', 'granted', 'wait_ms', 'shadow', 'key']

/** Each of a call, as the server replies it. */
export const eachOf = (result: Result) => result.each.map((each) => [Number(each.limited), each.limit, each.remaining,
  each.limited ? (each.retryAfterMs ?? -1) : -1, each.resetAfterMs])

/** What a key holds, as the server replies it. */
export function inspectionOf(it: Inspection): Record<string, string> {
  const at = (instant: Date | null, otherwise: number) => instant?.getTime() ?? otherwise
  const limits = it.limits.map(({ kind, periodMs, used, entries, nextAt, resetAt, queueMs }) => {
    const unknown = used === 0 ? 0 : -1
    return `kind=${kind} period_ms=${periodMs ?? -1} used=${used ?? -1} entries=${entries} next_at_ms=${at(nextAt, unknown)} reset_at_ms=${at(resetAt, unknown)} queue_ms=${queueMs}`
  })
  return {
    kind: it.kind, now_ms: String(it.now.getTime()), expires_at_ms: String(at(it.expiresAt, it.kind === 'none' ? 0 : -1)),
      banned_until_ms: String(at(it.bannedUntil, 0)),
    held: String(it.held), lapses_at_ms: String(at(it.lapsesAt, 0)), waiting: String(it.waiting), limits: `[${limits.join(' ')}]`,
  }
}
