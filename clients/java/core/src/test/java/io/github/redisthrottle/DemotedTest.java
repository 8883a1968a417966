package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** A master that has become a replica is left at once: its address may lead to another server. */
class DemotedTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));

  @ParameterizedTest
  @EnumSource
  void itsConnectionsAreClosed(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.patient(server.port));
        Jedis jedis = server.client()) {
      limiter.limit("k", QUOTA);
      assertTrue(others(jedis) > 0);
      jedis.replicaof("127.0.0.1", 1);
      assertTrue(assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA)).getMessage().contains("READONLY"));
      Server.await("no connection is left", () -> others(jedis) == 0);
      jedis.replicaofNoOne();
      assertTrue(limiter.limit("k", QUOTA).allowed());
    }
  }

  private static long others(Jedis jedis) {
    String own = "id=" + jedis.clientId() + " ";
    return jedis.clientList().lines().filter(line -> !line.contains(own) && line.contains("flags=N")).count();
  }

  @Test
  void aKeyWithHalfOfAPairIsRefused() {
    assertThrows(IllegalArgumentException.class, () -> Call.limit("a\ud800", QUOTA));
    assertThrows(IllegalArgumentException.class, () -> Call.limit("\udc00b", QUOTA));
    assertThrows(IllegalArgumentException.class, () -> Call.release("k").id("a\ud800"));
    assertThrows(IllegalArgumentException.class, () -> Call.waitFor("k", QUOTA).group("a\ud800"));
    assertTrue(new FakeLimiter().limiter().limit("\ud83d\ude00", QUOTA).allowed());
  }
}
