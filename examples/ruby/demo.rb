# Six requests to a web server that allows five an hour, then jobs under limits of other kinds.
require "net/http"
require "webrick"
require_relative "rate_limit"

# A limiter must not keep requests waiting for Redis, nor charge a call twice because
# its reply got lost.
OPTIONS = { timeout: 1, reconnect_attempts: 0 }

HELLO = ->(_env) { [200, { "content-type" => "text/plain" }, ["hello\n"]] }

# A server with a Rack application.
def server(app)
  server = WEBrick::HTTPServer.new(BindAddress: "127.0.0.1", Port: 0, AccessLog: [], Logger: WEBrick::Log.new(nil, 0))
  server.mount_proc("/") do |request, response|
    response.status, headers, body = app.call(request.meta_vars)
    headers.each { |name, value| response[name] = value }
    response.body = body.join
  end
  server
end

# The response to GET / from it.
def get(app)
  server = server(app)
  thread = Thread.new { server.start }
  Net::HTTP.get_response("127.0.0.1", "/", server.config[:Port])
ensure
  server.shutdown
  thread.join
end

# A client for REDIS_URL, with REDIS_CLUSTER for the cluster that it is a node of.
def connect
  url = ENV.fetch("REDIS_URL", "redis://127.0.0.1:6379")
  ENV["REDIS_CLUSTER"] ? Redis.new(cluster: [url], **OPTIONS) : Redis.new(url: url, **OPTIONS)
end

# Serves the page until it is ended, with count requests an hour.
def serve(count)
  server = server(RateLimit.new(HELLO, redis: connect, count: count, window: 3600))
  puts "http://127.0.0.1:#{server.config[:Port]}/"
  $stdout.flush
  server.start
end

def demo
  redis = connect
  %w[http:127.0.0.1 jobs {acme} {acme}:ann {acme}:bob exports].each { |key| redis.del(key) } # so that it prints the same each time

  app = RateLimit.new(HELLO, redis: redis, count: 5, window: 3600)
  (1..6).each do |n|
    response = get(app)
    puts "request #{n}: #{response.code}"
    %w[RateLimit-Policy RateLimit Retry-After].each do |field|
      puts "  #{field}: #{response[field]}" if response[field]
    end
  end

  nowhere = Redis.new(port: 1, **OPTIONS)
  puts "request without Redis: #{get(RateLimit.new(HELLO, redis: nowhere, count: 5, window: 3600)).code}"

  (1..2).each do |n|
    attempts = 0
    retry_limited do
      attempts += 1
      limit(redis, "jobs", "RATE", "1/2s")
    end
    puts "job #{n}: done #{attempts == 1 ? "at once" : "after a wait"}"
  end

  %w[ann ann ann bob bob].each do |user|
    reply = limit_keys(redis, { "{acme}:#{user}" => %w[RATE 2/h], "{acme}" => %w[RATE 3/h] })
    puts "#{user}: #{reply["limited"] == 1 ? "limited by #{reply["key"]}" : "allowed"}"
  end

  export(redis, 1) do
    export(redis, 2) do
      export(redis, 3)
    rescue Limited
      puts "export 3: no slot is free"
    end
  end
  export(redis, 4, &:call) # renews
end

# One of two at once.
def export(redis, n)
  with_slot(redis, "exports", slots: 2, ttl: 30) do |renew|
    puts "export #{n}: begun"
    yield renew
  end
end

ARGV.first == "serve" ? serve(ARGV.fetch(1, 5)) : demo
