// What browsers need of a service at another origin: preflights that are not limited, and fields that scripts may read.
import { exposeField } from './fields.js'

type Headers = Record<string, unknown> | { get(name: string): string | null }

/** What a request is here: one of node:http, Express, Fastify or fetch, or the context of Koa or Hono. */
interface Requested {
  method?: string
  headers?: Headers
  req?: { method?: string; header?: (name: string) => string | undefined } // Hono
}

/** Returns the header field of a request. Names are in lower case. */
export function headerOf(request: object, name: string): string | undefined {
  const { headers, req } = request as Requested
  if (!headers) return req?.header?.(name)
  const value = typeof headers['get'] === 'function' ? (headers as { get(name: string): string | null }).get(name) : (headers as Record<string, unknown>)[name]
  return typeof value === 'string' ? value : undefined
}

/** Tells whether a request only asks whether a browser may send another one. */
export function isPreflight(request: object): boolean {
  const { method, req } = request as Requested
  return (method ?? req?.method) === 'OPTIONS' && headerOf(request, 'origin') !== undefined && headerOf(request, 'access-control-request-method') !== undefined
}

/** Returns header fields with the one that lets scripts of other origins read them. */
export function exposed(request: object, fields: [string, string][]): [string, string][] {
  if (fields.length === 0 || headerOf(request, 'origin') === undefined) return fields
  return [...fields, [exposeField, fields.map(([name]) => name).join(', ')]]
}
