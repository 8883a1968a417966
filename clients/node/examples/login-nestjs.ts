// A login page with NestJS, as a guard. docs/choosing.md ("Login protection") says why it has these limits.
import 'reflect-metadata'
import { type CanActivate, Controller, type ExecutionContext, HttpCode, HttpException, Injectable, Module, Post, Req, UnauthorizedException, UseGuards } from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { Redis } from 'ioredis'
import { clientAddress, headerFields, Limiter, problemDocument, rate } from '@redis-throttle/client'

interface Attempt {
  body?: { user?: unknown; password?: unknown }
  res: { setHeader(name: string, value: string): void }
}

const client = new Redis('redis://127.0.0.1:6379')
await client.ping() // it is connected
const limiter = new Limiter(client)
const account = ({ body }: Attempt) => String(body?.user ?? '').normalize('NFKC').trim().toLowerCase().slice(0, 200)
const pair = (request: Attempt) => `{nest-login:${account(request)}}:${clientAddress(request)}`
const attempts = (request: Attempt) => ({
  [pair(request)]: rate(5, '15m', { name: 'address' }),
  [`{nest-login:${account(request)}}`]: rate(300, '1d', { name: 'account' }),
})

@Injectable()
class LoginGuard implements CanActivate {
  async canActivate(context: ExecutionContext) {
    const request: Attempt = context.switchToHttp().getRequest()
    const limits = attempts(request)
    const result = await limiter.limitAll(limits, { ban: '1h', banAfter: '10/1h', each: true })
    for (const [name, value] of headerFields(limits, result)) request.res.setHeader(name, value)
    if (result.limited) throw new HttpException(problemDocument(limits, result), 429)
    return true
  }
}

@Controller()
class AuthController {
  @Post('login')
  @HttpCode(200)
  @UseGuards(LoginGuard)
  async login(@Req() request: Attempt) {
    if (request.body?.password !== 'correct horse') throw new UnauthorizedException()
    await limiter.reset(pair(request))
    return 'welcome'
  }
}

@Module({ controllers: [AuthController] })
class AppModule {}

const app = await NestFactory.create(AppModule, { logger: false })

await app.listen(3000)
