package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Slow;
import io.lettuce.core.RedisURI;
import java.io.IOException;
import java.net.URI;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A connection that takes longer than a call may wait, to a server that is alive meanwhile, or is not. */
class LateConnectionTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));
  private static final Duration TIMEOUT = Duration.ofSeconds(1);

  private static Connection connect(Clients client, Slow way) {
    URI uri = URI.create("redis://127.0.0.1:" + way.port());
    return client == Clients.LETTUCE ? LettuceConnection.of(RedisURI.create(uri), TIMEOUT) : JedisConnection.of(uri, TIMEOUT);
  }

  /** Lettuce waits for 2 s before the first call, too. */
  @ParameterizedTest
  @EnumSource
  void theFirstCallersAwaitOneWhileTheServerIsAlive(Clients client) throws IOException {
    try (Server server = Server.start();
        Slow way = new Slow(server, 0)) {
      way.holdNext(4500);
      try (Limiter limiter = Limiter.over(Remote.over(connect(client, way)))) {
        List<CompletableFuture<Result>> first = Stream.generate(() -> limiter.async().limit("k", QUOTA).toCompletableFuture()).limit(20).toList();
        first.forEach(one -> assertTrue(one.join().allowed()));
      }
    }
  }

  @ParameterizedTest
  @EnumSource
  void itIsAnOutageWhileTheServerIsSilent(Clients client) throws IOException {
    try (Server server = Server.start();
        Slow way = new Slow(server, 0)) {
      server.pause();
      try (Limiter limiter = Limiter.over(Remote.over(connect(client, way)))) {
        assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA));
      }
    }
  }
}
