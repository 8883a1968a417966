# Rate limiting with redis-throttle and redis-rb: Rack middleware, a retry, several keys, slots.
require "redis"
require "securerandom"

# The integers of replies, in their order. A newer server may add others after them.
FIELDS = %w[limited rule limit remaining retry_after_ms reset_after_ms next_after_ms granted wait_ms]

# Sends CL.LIMIT with its limits and options in words; returns the reply's fields.
def limit(redis, key, *words)
  send_compact(redis, FIELDS, "cl.limit", key, *words)
end

# Sends CL.MLIMIT with the limits in words of each key: { "{acme}:user:42" => %w[RATE 5/s], ... }.
# All keys are charged or none. In a cluster they need a hash tag in common, such as {acme}.
# The reply's key is the one whose limit decided.
def limit_keys(redis, limits, *options)
  words = limits.values.flat_map { |limit| ["NEXT", *limit] }.drop(1)
  reply = send_compact(redis, [*FIELDS, "shadow", "key"], "cl.mlimit", limits.size, *limits.keys, *words, *options)
  reply.merge("key" => limits.keys[reply["key"] - 1])
end

# The name is in lower case, as the server lists it: or else redis-rb 4 asks a cluster's
# nodes at random.
def send_compact(redis, names, name, *words)
  reply = redis.call(name, *words, "COMPACT")
  fields = names.zip(reply).to_h
  raise TypeError, "#{name.upcase} replied #{reply}" unless fields.values.all?(Integer)

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
    limit(@redis, key, "RATE", "#{@count}/#{@window}s")
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

# The lease has lapsed: the slot may be somebody else's.
class LeaseLost < StandardError; end

LEASE_FIELDS = %w[limited limit remaining retry_after_ms lease_ms wait_ms]

# Holds one of the slots of key while the block runs, or raises Limited. If the process dies,
# the slot is free after ttl (seconds). Work that may take longer calls what the block is
# given, to renew, every now and then, and stops when that raises.
def with_slot(redis, key, slots:, ttl:)
  lease = ["ID", SecureRandom.uuid]
  reply = send_compact(redis, LEASE_FIELDS, "cl.lease", key, *lease, "SLOTS", slots, "TTL", "#{ttl}s")
  raise Limited if reply["limited"] == 1

  begin
    yield lambda {
      reply = send_compact(redis, LEASE_FIELDS, "cl.renew", key, *lease, "TTL", "#{ttl}s")
      raise LeaseLost, key if reply["limited"] == 1
    }
  ensure
    release(redis, key, lease)
  end
end

def release(redis, key, lease)
  redis.call("cl.release", key, *lease)
rescue Redis::BaseError => error
  raise unless outage?(error)

  warn "a slot of #{key} stays taken until its TTL is over: #{error.message}"
end
