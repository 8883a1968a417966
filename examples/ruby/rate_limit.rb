# Rate limiting with redis-throttle and redis-rb: Rack middleware, and a retry.
require "redis"

# The integers of a reply, in their order. A newer server may add others after them.
FIELDS = %w[limited rule limit remaining retry_after_ms reset_after_ms next_after_ms granted wait_ms]

# Sends CL.LIMIT with its limits and options in words; returns the reply's fields.
def limit(redis, key, *words)
  # In lower case, as the server lists it: or else redis-rb 4 asks a cluster's nodes at random.
  reply = redis.call("cl.limit", key, *words, "COMPACT")
  fields = FIELDS.zip(reply).to_h
  raise TypeError, "CL.LIMIT replied #{reply}" unless fields.values.all?(Integer)

  fields
end

# How replies begin of a server that will decide the same call later, or that another
# server decides in its place.
NOT_NOW = /\A(BUSY|CLUSTERDOWN|LOADING|MASTERDOWN|MISCONF|NOREPLICAS|OOM|READONLY|TRYAGAIN|ERR max number of clients) /

# Whether Redis is out of reach or in a state in which it does not decide. Anything else,
# such as a bad limit, is a mistake, which must not let everybody through.
def outage?(error)
  case error
  when Redis::InheritedError then false # the program forked, and has to connect again
  when Redis::BaseConnectionError then true
  when Redis::CommandError then NOT_NOW.match?(error.message)
  else error.class.name == "Redis::Cluster::InitialSetupError" # which only some versions have
  end
end

# Rack middleware: count requests per window (seconds) from each address, then 429.
class RateLimit
  def initialize(app, redis:, count:, window:)
    @app, @redis, @count, @window = app, redis, count, window
  end

  def call(env)
    reply = ask("http:#{env["REMOTE_ADDR"]}")
    return @app.call(env) unless reply

    fields = {
      "ratelimit-policy" => %("default";q=#{@count};w=#{@window}),
      "ratelimit" => %("default";r=#{reply["remaining"]};t=#{seconds(reply["next_after_ms"])}),
    }
    if reply["limited"] == 1
      fields["retry-after"] = seconds(reply["retry_after_ms"]).to_s
      return [429, fields.merge("content-type" => "text/plain"), ["Too many requests\n"]]
    end
    status, headers, body = @app.call(env)
    [status, headers.merge(fields), body]
  end

  private

  def ask(key)
    limit(@redis, key, "RATE", "#{@count}/#{@window}")
  rescue Redis::BaseError => error
    raise unless outage?(error) # the server answers 500

    warn "requests are not limited: #{error.message}"
    nil
  end

  def seconds(ms)
    (ms / 1000.0).ceil
  end
end

class Limited < StandardError; end

# Calls the block until its reply is not limited, and returns it. Pauses for as long as
# the reply says, plus a random time of up to base, twice base and so on, to cap
# (seconds): exponential backoff with full jitter.
def retry_limited(attempts: 10, base: 0.1, cap: 10.0)
  (1..).each do |attempt|
    reply = yield
    return reply if reply["limited"] == 0
    # -1: it never succeeds
    raise Limited if reply["retry_after_ms"] < 0 || attempt == attempts

    sleep(reply["retry_after_ms"] / 1000.0 + rand * [cap, base * 2**(attempt - 1)].min)
  end
end
