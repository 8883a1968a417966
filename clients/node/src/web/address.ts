// Which key the address of a client makes: spec/clients/addresses.json has the rules, which hold in all languages.
import { BlockList, isIPv4, isIPv6 } from 'node:net'

/** Whose address counts, and how much of it. */
export interface AddressOptions {
  /**
   * How many bits of an IPv6 address are the client's: `64`, if it is left out, since a host may use all addresses of
   * its network.
   */
  ipv6?: number
  /**
   * The proxies whose X-Forwarded-For is believed: addresses and networks, such as `10.1.0.0/24`. Trust proxies alone,
   * and no network that clients are in. If it is left out, the framework says who the client is (Express:
   * `trust proxy`), and else the peer is.
   */
  trusted?: readonly string[]
}

const ofFetch = 'a Request of fetch does not tell whom it is from; behind a proxy that sets X-Forwarded-For give trusted, which is [] where there is no further proxy'

/** What a request is here: one of node:http, Express or Fastify, or the context of Koa or Hono. */
interface Requested extends Incoming {
  ip?: unknown
  raw?: unknown // Fastify
  req?: unknown // Koa
  env?: unknown // Hono on @hono/node-server
}

interface Incoming {
  socket?: { remoteAddress?: string | undefined; server?: { address?: () => unknown } }
  headers?: Record<string, unknown>
}

/** What is known of where a request came from. */
export interface Origin {
  /** The framework's own notion of the client. */
  ip: string | undefined
  /** Undefined at a Unix socket, and of a peer that has left. */
  peer: string | undefined
  forwarded: readonly string[]
  /** Whether it came over a Unix socket. */
  local: boolean
  /** Whether it is a Request of fetch, of which nobody knows the peer. */
  fetched?: boolean
}

/**
 * Returns which client a request, or an address, is of, as a part of keys: an IPv4 address, or the network of an IPv6
 * address.
 *
 *     rateLimit({ limiter, limits, key: (req) => `login:${clientAddress(req)}` })
 *
 * A peer at a Unix socket is a proxy on this machine. All requests of which it does not say whom they are from share
 * the key `@`.
 */
export function clientAddress(from: object | string | undefined, options: AddressOptions = {}): string {
  return address(options)(from)
}

/** Returns `clientAddress` with options that are checked once. */
export function address({ ipv6 = 64, trusted, ...others }: AddressOptions): (from: object | string | undefined) => string {
  const [other] = Object.keys(others)
  if (other !== undefined) throw new TypeError(`clientAddress: there is no option ${other}; it takes ipv6 and trusted`)
  if (!Number.isInteger(ipv6) || ipv6 < 1 || ipv6 > 128) throw new RangeError(`ipv6 must be a prefix length from 1 to 128, not ${String(ipv6)}`)
  const proxies = trusted && networks('trusted', trusted)
  return (from) => {
    if (typeof from !== 'object') return keyOf(plain(from ?? ''), ipv6)
    const { ip, peer, forwarded, local, fetched } = originOf(from)
    if (fetched && !proxies) throw new TypeError(`clientAddress: ${ofFetch}`)
    // What the framework took from a header may be no address, and then its author must not choose the key.
    const told = proxies ? undefined : entry(ip ?? '')
    // A peer that has closed its connection has no address either, but nobody believes what it says.
    return keyOf(told ?? behind(proxies, plain(peer ?? ''), peer === undefined && !local ? [] : forwarded).client, ipv6)
  }
}

/**
 * Returns whether a request is of a client in a network, and whether that is certain. The framework's own notion does
 * not count: clients may have written it.
 */
export function within(option: string, inside: readonly string[], trusted: readonly string[] | undefined): (request: object) => { inside: boolean;
  certain: boolean } {
  const list = networks(option, inside)
  const proxies = networks('trusted', trusted ?? [])
  return (request) => {
    const { peer, forwarded, local, fetched } = originOf(request)
    if (fetched && !trusted) throw new TypeError(`${option}: ${ofFetch}`)
    const { client, alone } = behind(proxies, plain(peer ?? ''), peer === undefined && !local ? [] : forwarded)
    const certain = alone && client !== undefined
    return { inside: certain && list.has(client), certain }
  }
}

/** Returns where a request came from. */
export function originOf(request: object): Origin {
  const { ip, raw, req, env } = request as Requested
  const hono = (env as { incoming?: unknown } | undefined)?.incoming
  const { get } = (request as { headers?: { get?: unknown } }).headers ?? {}
  if (typeof get === 'function' && ip === undefined && !hono && !raw && !(request as Requested).socket && !(req as Incoming | undefined)?.socket) {
    // A Request of fetch, as in Next.js. Whoever made it is a proxy on this machine.
    const value = (request as Request).headers.get('x-forwarded-for')
    return { ip: undefined, peer: undefined, forwarded: value === null ? [] : [value], local: true, fetched: true }
  }
  const incoming = [hono, raw, request, req].find((part): part is Incoming => (part as Incoming | undefined)?.socket !== undefined)
  if (!incoming?.socket && typeof ip !== 'string') throw new TypeError('this request does not tell the address of its peer; give a function that returns a key, and no networks as skip')
  const { socket, headers } = incoming ?? {}
  const values = headers?.['x-forwarded-for']
  return {
    ip: typeof ip === 'string' ? ip : undefined,
    peer: socket?.remoteAddress || undefined,
    forwarded: Array.isArray(values) ? values.map(String) : typeof values === 'string' ? [values] : [],
    local: socket?.remoteAddress === '' || typeof socket?.server?.address?.() === 'string',
  }
}

/**
 * Walks from the peer to the client: the first address from the right that is not trusted. Without a peer a local proxy
 * has sent the request. The client is alone if it speaks for itself: nothing is left to read but perhaps its own
 * address, which a server before this one has read.
 */
function behind(proxies: Networks | undefined, peer: string | undefined, forwarded: readonly string[]): { client: string | undefined; alone: boolean } {
  const left = forwarded.flatMap((field) => field.split(','))
  let at = peer
  for (let value = left.pop(); value !== undefined; value = left.pop()) {
    const next = entry(value)
    if (at !== undefined && !proxies?.has(at)) return { client: at, alone: left.length === 0 && next === at }
    if (next === undefined) return { client: at, alone: false } // what is no address ends the search
    at = next
  }
  return { client: at, alone: true }
}

/** Addresses and networks. */
class Networks {
  readonly #lists = { ipv4: new BlockList(), ipv6: new BlockList() } // one list would take ::/0 for all of IPv4, too

  add(first: string, length: number): void {
    this.#lists[family(first)].addSubnet(first, length, family(first))
  }

  has(at: string): boolean {
    return this.#lists[family(at)].check(at, family(at))
  }
}

function networks(option: string, texts: readonly string[]): Networks {
  if (!Array.isArray(texts)) throw new TypeError(`${option} must be a list of addresses and networks, such as ['10.1.0.0/24'], not ${typeof texts === 'string' ? `'${texts as string}'` : `a ${typeof texts}`}`)
  const list = new Networks()
  for (const text of texts as readonly unknown[]) {
    const [address = '', bits, more] = typeof text === 'string' ? text.split('/') : []
    const at = address.includes('%') ? undefined : plain(address)
    const whole = at !== undefined && isIPv4(at) ? 32 : 128
    const mapped = whole === 32 && isIPv6(address) ? 96 : 0
    const length = bits === undefined ? whole : /^(0|[1-9]\d{0,2})$/.test(bits) ? Number(bits) - mapped : NaN
    if (at === undefined || more !== undefined || !(length >= 0 && length <= whole)) {
      throw new TypeError(`${option}: '${String(text)}' is neither an address nor a network, such as 10.1.0.0/24`)
    }
    const first = firstOf(at, length)
    if (first !== at) throw new TypeError(`${option}: '${String(text)}' is neither an address nor a network: write ${first}/${length}, or the address ${at}`)
    list.add(at, length)
  }
  return list
}

const family = (at: string) => (isIPv4(at) ? 'ipv4' : 'ipv6')

/** Reads an entry of X-Forwarded-For: an address, perhaps with a port, and then with brackets if it is IPv6. */
function entry(text: string): string | undefined {
  const trimmed = text.replace(/^[ \t]+|[ \t]+$/g, '')
  const [, v6, port6, v4, port4] = /^\[([^\]]*)\](?::(\d+))?$|^([\d.]+):(\d+)$/.exec(trimmed) ?? []
  if (Number(port6 ?? port4 ?? 0) > 65_535) return undefined
  if (v6 !== undefined) return isIPv6(v6) ? plain(v6) : undefined
  return plain(v4 ?? trimmed)
}

/** Returns an address as it is compared: IPv4 in IPv6 as IPv4, IPv6 in one spelling and without a zone. */
function plain(text: string): string | undefined {
  if (isIPv4(text)) return text
  if (!isIPv6(text)) return undefined
  const at = spelled(text.replace(/%.*$/s, ''))
  const [, high, low] = /^::ffff:([0-9a-f]+):([0-9a-f]+)$/.exec(at) ?? []
  if (high === undefined || low === undefined) return at
  const bits = [parseInt(high, 16), parseInt(low, 16)]
  return bits.flatMap((word) => [word >> 8, word & 255]).join('.')
}

/** Spells an IPv6 address as RFC 5952 does. */
function spelled(at: string): string {
  return new URL(`http://[${at}]/`).hostname.slice(1, -1)
}

function keyOf(at: string | undefined, ipv6: number): string {
  if (at === undefined) return '@'
  return isIPv4(at) ? at : `${firstOf(at, ipv6)}/${ipv6}`
}

/** Returns the first address of the network in which an address is. */
function firstOf(at: string, length: number): string {
  if (isIPv4(at)) return masked(at.split('.').map(Number), 8, length).join('.')
  const [head = '', tail] = at.split('::')
  const words = (text: string | undefined) => (text ? text.split(':') : [])
  const all = [...words(head), ...Array<string>(8 - words(head).length - words(tail).length).fill('0'), ...words(tail)]
  return spelled(masked(all.map((word) => parseInt(word, 16)), 16, length).map((word) => word.toString(16)).join(':'))
}

/** Returns words of so many bits without those behind the first `length` bits of all. */
function masked(words: readonly number[], bits: number, length: number): number[] {
  return words.map((word, i) => word & ~(2 ** Math.min(bits, Math.max(0, bits * (i + 1) - length)) - 1))
}
