package io.github.redisthrottle.bench;

import io.github.bucket4j.BucketConfiguration;
import io.github.bucket4j.distributed.ExpirationAfterWriteStrategy;
import io.github.bucket4j.distributed.proxy.ProxyManager;
import io.github.bucket4j.redis.lettuce.Bucket4jLettuce;
import io.github.redisthrottle.Batched;
import io.github.redisthrottle.Cached;
import io.github.redisthrottle.Commands;
import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Guard;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Remote;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.codec.ByteArrayCodec;
import io.lettuce.core.codec.RedisCodec;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.ArrayOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import java.net.URI;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.redisson.Redisson;
import org.redisson.api.RRateLimiter;
import org.redisson.api.RateType;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.cloud.gateway.filter.ratelimit.RedisRateLimiter;
import org.springframework.cloud.gateway.support.ConfigurationService;
import org.springframework.core.io.ClassPathResource;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.data.redis.core.ReactiveStringRedisTemplate;
import org.springframework.data.redis.core.script.DefaultRedisScript;

/** What is measured. Those of this package have a window where a boundary is looked at, and a rate elsewhere. */
enum Kind {
  LETTUCE("`Limiter`, Lettuce"),
  LETTUCE_FUNCTIONS("`Limiter`, Lettuce, functions"),
  JEDIS("`Limiter`, Jedis"),
  JEDIS_FUNCTIONS("`Limiter`, Jedis, functions"),
  CACHED("`Cached`, Lettuce"),
  BATCHED("`Batched`, Lettuce"),
  REDISSON("Redisson's `RRateLimiter`"),
  BUCKET4J("bucket4j, Lettuce"),
  SPRING("Spring Cloud Gateway's `RedisRateLimiter`"),
  /** What a call over Lettuce costs at least. */
  RAW("CL.LIMIT, Lettuce alone");

  /** Longer than a busy machine is late. */
  private static final Duration TIMEOUT = Duration.ofSeconds(10);

  private static final Logger LOG = Logger.getLogger("io.github.redisthrottle"); // kept, so that its level is

  final String title;

  Kind(String title) {
    this.title = title;
  }

  /** What a limiter is to keep to. */
  record Asked(int count, Duration period, boolean exact) {
    Limit limit() {
      return exact ? Limit.window(count, period) : Limit.rate(count, period);
    }

    /** Returns it as a rate, which batches are for. */
    Asked steady() {
      return new Asked(count, period, false);
    }
  }

  /** Connects to a server, with a limit. */
  Subject open(String url, Asked asked) {
    LOG.setLevel(Level.WARNING);
    return switch (this) {
      case LETTUCE -> over(Remote.over(lettuce(url)), asked);
      case LETTUCE_FUNCTIONS -> over(Remote.over(lettuce(url), Commands.FUNCTIONS), asked);
      case JEDIS -> over(Remote.over(jedis(url)), asked);
      case JEDIS_FUNCTIONS -> over(Remote.over(jedis(url), Commands.FUNCTIONS), asked);
      case CACHED -> over(Cached.of(Remote.over(lettuce(url))), asked);
      case BATCHED -> over(Batched.of(Remote.over(lettuce(url))), asked.steady());
      case REDISSON -> redisson(url, asked);
      case BUCKET4J -> bucket4j(url, asked);
      case SPRING -> spring(url, asked);
      case RAW -> raw(url, asked);
    };
  }

  private static Connection lettuce(String url) {
    return LettuceConnection.of(RedisURI.create(url), TIMEOUT);
  }

  private static Connection jedis(String url) {
    return JedisConnection.of(URI.create(url), TIMEOUT);
  }

  private static Subject over(Decider decider, Asked asked) {
    Limiter limiter = Limiter.over(decider instanceof Remote remote ? Guard.of(remote, Guard.Policy.FAIL) : decider);
    Limit limit = asked.limit();
    return new Of(key -> limiter.limit(key, limit).allowed(), limiter::close);
  }

  private static Subject redisson(String url, Asked asked) {
    Config config = new Config();
    config.useSingleServer().setAddress(url).setTimeout((int) TIMEOUT.toMillis());
    RedissonClient client = Redisson.create(config);
    Map<String, RRateLimiter> limiters = new ConcurrentHashMap<>();
    return new Of(
        key ->
            limiters
                .computeIfAbsent(
                    key,
                    name -> {
                      RRateLimiter limiter = client.getRateLimiter("redisson:" + name);
                      limiter.trySetRate(RateType.OVERALL, asked.count(), asked.period());
                      return limiter;
                    })
                .tryAcquire(),
        client::shutdown);
  }

  private static Subject bucket4j(String url, Asked asked) {
    RedisClient client = RedisClient.create(url);
    StatefulRedisConnection<String, byte[]> connection = client.connect(RedisCodec.of(StringCodec.UTF8, ByteArrayCodec.INSTANCE));
    ProxyManager<String> buckets =
        Bucket4jLettuce.casBasedBuilder(connection)
            .expirationAfterWrite(ExpirationAfterWriteStrategy.basedOnTimeForRefillingBucketUpToMax(Duration.ofSeconds(10)))
            .build();
    BucketConfiguration bucket =
        BucketConfiguration.builder().addLimit(limit -> limit.capacity(asked.count()).refillGreedy(asked.count(), asked.period())).build();
    return new Of(key -> buckets.getProxy("bucket4j:" + key, () -> bucket).tryConsume(1), client::shutdown);
  }

  private static Subject spring(String url, Asked asked) {
    URI uri = URI.create(url);
    LettuceConnectionFactory factory = new LettuceConnectionFactory(uri.getHost(), uri.getPort());
    factory.afterPropertiesSet();
    factory.start();
    DefaultRedisScript<List<Long>> script = new DefaultRedisScript<>();
    script.setLocation(new ClassPathResource("META-INF/scripts/request_rate_limiter.lua"));
    @SuppressWarnings({"unchecked", "rawtypes"}) // as Spring's own configuration has it
    Class<List<Long>> type = (Class) List.class;
    script.setResultType(type);
    RedisRateLimiter limiter =
        new RedisRateLimiter(new ReactiveStringRedisTemplate(factory), script,
            new ConfigurationService(new DefaultListableBeanFactory(), () -> null, () -> null));
    // A rate is whole units in a second.
    int rate = (int) Math.max(1, asked.count() / asked.period().toSeconds());
    limiter.getConfig().put("route", new RedisRateLimiter.Config().setReplenishRate(rate).setBurstCapacity(asked.count()));
    return new Of(key -> limiter.isAllowed("route", key).block().isAllowed(), factory::destroy);
  }

  private static Subject raw(String url, Asked asked) {
    RedisClient client = RedisClient.create(url);
    StatefulRedisConnection<String, String> connection = client.connect();
    List<String> words = List.of(asked.limit().toString().split(" ", -1));
    return new Of(
        key -> {
          CommandArgs<String, String> args = new CommandArgs<>(StringCodec.UTF8).addKey(key);
          words.forEach(args::add);
          List<Object> reply = connection.sync().dispatch(Name.LIMIT, new ArrayOutput<>(StringCodec.UTF8), args.add("COMPACT"));
          return reply.get(0).equals(0L);
        },
        client::shutdown);
  }

  private enum Name implements ProtocolKeyword {
    LIMIT;

    @Override
    public byte[] getBytes() {
      return "CL.LIMIT".getBytes(StandardCharsets.US_ASCII);
    }
  }

  /** A function of a key, and what closes it. */
  private record Of(Predicate<String> asks, Runnable closes) implements Subject {
    @Override
    public boolean allows(String key) {
      return asks.test(key);
    }

    @Override
    public void close() {
      closes.run();
    }
  }
}
