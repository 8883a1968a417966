package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.parallel.ExecutionMode.CONCURRENT;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Slow;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** A master that has become a replica is left at once: its address may lead to another server. */
class DemotedTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));

  @ParameterizedTest
  @Execution(CONCURRENT)
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

  /** The next connection goes to where the address leads now. */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void callsGoToWhereItsAddressLeadsNow(Clients client) throws IOException {
    try (Server old = Server.start();
        Server next = Server.start();
        Slow address = new Slow(old, 0);
        Limiter limiter = Limiter.over(client.patient(address.port()));
        Jedis jedis = next.client()) {
      limiter.limit("k", QUOTA);
      address.leadTo(next);
      old.run("REPLICAOF", "127.0.0.1", "1");
      assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA));
      Server.await("the next one decides", () -> decided(limiter));
      assertTrue(jedis.exists("k"));
    }
  }

  private static boolean decided(Limiter limiter) {
    try {
      return limiter.limit("k", QUOTA).allowed();
    } catch (OutageException e) { // of the breaker, or of a connection that was closed
      return false;
    }
  }

  /**
   * What answers at the address of a master that hangs is another one by now. Not every user may ask a server which one
   * it is.
   */
  @ParameterizedTest
  @Execution(CONCURRENT)
  @CsvSource({"LETTUCE,true", "LETTUCE,false", "JEDIS,true", "JEDIS,false"})
  void aCallerWaitsForAMasterThatLivesAndForNoOther(Clients client, boolean tells) throws IOException {
    Limit soon = Limit.window(1, Duration.ofSeconds(5));
    Limit late = Limit.window(1, Duration.ofDays(1));
    try (Server old = Server.start();
        Server next = Server.start();
        Slow address = new Slow(old, 0);
        Limiter limiter = Limiter.over(Remote.over(client.patient(address.port()), Commands.AUTO, Duration.ofSeconds(1)));
        Jedis jedis = old.client()) {
      limiter.limit("soon", soon);
      limiter.limit("late", late);
      if (!tells) {
        jedis.aclSetUser("default", "-info");
      }
      CompletableFuture<Result.Allowed> hangs = limiter.async().waitFor("late", late).toCompletableFuture();
      assertTrue(limiter.waitFor("soon", soon).allowed(), "it is asked for a sign of life meanwhile");
      if (tells) {
        address.leadTo(next);
        old.pause();
        Server.await("the wait ends", hangs::isDone);
        Throwable error = Errors.unwrapped(assertThrows(CompletionException.class, hangs::join));
        assertTrue(error instanceof OutageException, String.valueOf(error));
      }
    }
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
