// Where a URL leads: a server, a cluster or the master of a Sentinel. No error text holds the URL, since there may be a
// password in it.

export interface Host {
  readonly host: string
  readonly port: number
}

export interface Place {
  readonly form: 'server' | 'cluster' | 'sentinel'
  readonly tls: boolean
  readonly hosts: readonly [Host, ...Host[]]
  /** A Unix socket in place of a host. */
  readonly path: string | undefined
  readonly username: string | undefined
  readonly password: string | undefined
  readonly database: number | undefined
  /** The name of the master that Sentinels know. */
  readonly master: string | undefined
}

const schemes = [
  'redis', 'rediss', 'redis+unix', 'redis+cluster', 'rediss+cluster', 'redis+sentinel',
  'valkey', 'valkeys', 'valkey+unix', 'valkey+cluster', 'valkeys+cluster', 'valkey+sentinel',
]
const structure = /^([a-z]+)(?:\+([a-z]+))?:\/\/(?:([^/?#]*)@)?([^/?#]*)(\/[^?#]*)?(.*)$/s
const address = /^(\[[\da-f:.]+\]|[^:[\]\s]*)(?::(\d{1,5}))?$/i

/** Returns where a URL leads. */
export function placeOf(url: unknown): Place {
  if (typeof url !== 'string') throw new TypeError(`url must be a string, such as 'redis://127.0.0.1:6379', not ${url === null ? 'null' : `a ${typeof url}`}`)
  const [, base = '', form, user = '', at = '', path = '', rest = ''] = structure.exec(url.trim()) ?? []
  if (!schemes.includes(form === undefined ? base : `${base}+${form}`)) throw new TypeError(`url must begin with ${schemes.slice(0, -1).join('://, ')}:// or ${schemes.at(-1) ?? ''}://`)
  if (path.includes('@') || rest.includes('@')) fail('url: / ? # and @ in a password are written as %2F %3F %23 and %40')
  const [username, password] = credentials(user)
  const common = { tls: base === 'rediss' || base === 'valkeys', username, password }
  const local = { host: 'localhost', port: 6379 }
  if (form === 'unix') {
    const [, db] = /^(?:\?db=(\d+))?$/.exec(rest) ?? (rest === '' ? [] : fail('url: after the path of a Unix socket comes nothing but ?db=NUMBER; give all else as options'))
    if (at !== '' || path.length < 2) fail('url: a Unix socket has a path and no host, such as redis+unix:///run/redis.sock')
    return { ...common, form: 'server', tls: false, hosts: [local], path: decoded(path), database: db === undefined ? undefined : Number(db), master: undefined }
  }
  if (rest !== '') fail('url: it takes no query: give what it says as options')
  const hosts = (at === '' ? [] : at.split(',')).map((part) => hostOf(part, form === 'sentinel' ? 26379 : 6379))
  const [first = local, ...others] = hosts
  const all: Place['hosts'] = [first, ...others]
  const words = path.replace(/^\/|\/$/g, '')
  if (form === 'sentinel') {
    const [master = '', db] = words.split('/')
    if (master === '') fail('url: the name of the master is missing, such as redis+sentinel://host:26379/mymaster')
    return { ...common, form: 'sentinel', hosts: all, path: undefined, database: databaseOf(db), master: decoded(master) }
  }
  if (form === 'cluster') {
    if (words !== '' && words !== '0') fail('url: a cluster has only database 0')
    return { ...common, form: 'cluster', hosts: all, path: undefined, database: undefined, master: undefined }
  }
  if (hosts.length > 1) fail('url: several hosts go with redis+cluster:// or redis+sentinel://')
  return { ...common, form: 'server', hosts: all, path: undefined, database: databaseOf(words === '' ? undefined : words), master: undefined }
}

/** Names the servers of a place, and that they are asked by TLS, for people. */
export function spelled({ hosts, path, tls }: Place): string {
  return (path ?? hosts.map(({ host, port }) => `${host.includes(':') ? `[${host}]` : host}:${port}`).join(' or ')) + (tls ? ', by TLS' : '')
}

function fail(message: string): never {
  throw new TypeError(message)
}

function hostOf(part: string, standard: number): Host {
  const [, host, port = String(standard)] = address.exec(part) ?? fail('url: an address is HOST or HOST:PORT')
  if (Number(port) < 1 || Number(port) > 65_535) fail('url: a port is from 1 to 65535')
  return { host: host ? host.replace(/^\[|\]$/g, '') : 'localhost', port: Number(port) }
}

function credentials(user: string): [string | undefined, string | undefined] {
  const colon = user.indexOf(':')
  const [name, password] = colon < 0 ? [user, ''] : [user.slice(0, colon), user.slice(colon + 1)]
  return [name === '' ? undefined : decoded(name), password === '' ? undefined : decoded(password)]
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return fail('url: a % begins a character such as %2F; a % itself is %25')
  }
}

function databaseOf(word: string | undefined): number | undefined {
  if (word === undefined) return undefined
  if (!/^\d{1,9}$/.test(word)) fail('url: the path is the number of a database, such as /0')
  return Number(word)
}
