package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Slow;
import java.net.URI;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** Many callers that wait, and many leases, are in the way of nobody. */
class ManyWaitersTest {
  private static final Pattern RENEWED = Pattern.compile("cmdstat_cl.renew:calls=([0-9]+)");

  /** Far more than a pool has connections. */
  @ParameterizedTest
  @EnumSource
  void limitsAreDecidedWhileManyWait(Clients client) {
    Limit quota = Limit.fixed(1_000_000, Duration.ofDays(1));
    Limit hourly = Limit.window(1, Duration.ofHours(1));
    try (Server server = Server.start();
        Jedis jedis = server.client();
        Limiter limiter = Limiter.over(Remote.over(client.patient(server.port)))) {
      limiter.limit("w", hourly);
      List<CompletableFuture<Result.Allowed>> waiters = new ArrayList<>();
      for (int i = 0; i < 60; i++) {
        waiters.add(limiter.async().waitFor("w", hourly).toCompletableFuture());
      }
      Server.await("all wait", () -> jedis.info("clients").contains("blocked_clients:60\r"));
      for (int i = 0; i < 100; i++) {
        assertTrue(limiter.limit("k", quota).allowed());
      }
      waiters.forEach(waiter -> waiter.cancel(true));
      Server.await("all have left", () -> jedis.info("clients").contains("blocked_clients:0\r"));
      assertTrue(limiter.limit("k", quota).allowed());
      Server.await("their connections are closed", () -> jedis.clientList().lines().count() < 20);
    }
  }

  @ParameterizedTest
  @EnumSource
  void nobodyWaitsForEverOverAConnectionThatIsLost(Clients client) throws Exception {
    Limit daily = Limit.window(1, Duration.ofDays(1));
    try (Server server = Server.start();
        Slow way = new Slow(server, 0);
        Limiter limiter = Limiter.over(Remote.over(client.patient(way.port()), Commands.AUTO, Duration.ofMillis(300)))) {
      way.lose("CL.WAIT");
      OutageException error = assertThrows(OutageException.class, () -> limiter.waitFor("k", Duration.ofMillis(100), daily));
      assertTrue(error.getMessage().contains("while the server is alive"), error.getMessage());
      assertTrue(limiter.limit("k", daily).allowed());
    }
  }

  /** One after the other would take 16 s here, and each lease lasts 6 s. */
  @Test
  void manyLeasesAreRenewedInOneRoundTrip() throws Exception {
    int leases = 400;
    Slots slots = Slots.of(leases, Duration.ofSeconds(6));
    ExecutorService threads = Executors.newFixedThreadPool(16);
    try (Server server = Server.start();
        Slow way = new Slow(server, 20);
        Limiter limiter = Limiter.over(JedisConnection.of(URI.create("redis://127.0.0.1:" + way.port()), Duration.ofSeconds(30)))) {
      List<Future<Lease>> taken = new ArrayList<>();
      for (int i = 0; i < leases; i++) {
        taken.add(threads.submit(() -> limiter.lease("jobs", slots)));
      }
      List<Lease> held = new ArrayList<>();
      for (Future<Lease> lease : taken) {
        held.add(lease.get());
      }
      Server.await("each was renewed several times", () -> renewed(server) >= 3 * leases);
      assertEquals(0, held.stream().filter(Lease::isLost).count());
    } finally {
      threads.shutdown();
    }
  }

  private static int renewed(Server server) {
    try (Jedis jedis = server.client()) {
      Matcher matcher = RENEWED.matcher(jedis.info("commandstats"));
      return matcher.find() ? Integer.parseInt(matcher.group(1)) : 0;
    }
  }
}
