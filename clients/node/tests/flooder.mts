// Callers that flood a site, in a process of their own: node flooder.mjs PORT CALLERS REQUESTS. Prints how often each
// status came, and how long each request took in ms.
import http from 'node:http'

const [port, callers, requests] = process.argv.slice(2).map(Number) as [number, number, number]
const agent = new http.Agent({ keepAlive: true, maxSockets: callers })
const statuses: Record<string, number> = {}
const tookMs: number[] = []
let left = requests

function ask(): Promise<string> {
  return new Promise((resolve) => {
    const request = http.get({ port, host: '127.0.0.1', path: '/', agent }, (response) => {
      response.resume().on('end', () => { resolve(String(response.statusCode)) })
    })
    request.on('error', (error) => { resolve(error.message) })
  })
}

async function caller(): Promise<void> {
  while (left-- > 0) {
    const began = performance.now()
    const status = await ask()
    tookMs.push(performance.now() - began)
    statuses[status] = (statuses[status] ?? 0) + 1
  }
}

await Promise.all(Array.from({ length: callers }, caller))
agent.destroy()
console.log(JSON.stringify({ statuses, tookMs }))
