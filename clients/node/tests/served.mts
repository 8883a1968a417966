// A server for the tests of a file, and a client of it: node runs each file in a process of its own.
import { after } from 'node:test'
import { Redis } from 'ioredis'
import { Server } from './servers.mjs'

export const server = await Server.start()
export const client = new Redis(server.port)
after(async () => {
  client.disconnect()
  await server.stop()
})
