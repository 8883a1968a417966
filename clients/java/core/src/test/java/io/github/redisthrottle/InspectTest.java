package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.protocol.ProtocolVersion;
import java.time.Duration;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.providers.PooledConnectionProvider;

/** What a key holds, on a server with the module and without, by each client in each protocol, and from the fake. */
class InspectTest {
  private static final Duration PATIENT = Duration.ofSeconds(30);
  private static final Duration HOUR = Duration.ofHours(1);
  private static Server plain;
  private static Server module;

  @BeforeAll
  static void start() {
    plain = Server.plain();
    module = Server.start();
  }

  @AfterAll
  static void stop() {
    plain.close();
    module.close();
  }

  /** A connection, and the client that it is over. */
  private record Opened(Connection connection, Runnable client) implements AutoCloseable {
    static Opened of(Clients client, int port, int protocol) {
      if (client == Clients.LETTUCE) {
        RedisClient lettuce = RedisClient.create();
        lettuce.setOptions(ClientOptions.builder().protocolVersion(protocol == 2 ? ProtocolVersion.RESP2 : ProtocolVersion.RESP3).build());
        return new Opened(LettuceConnection.over(lettuce, RedisURI.create("127.0.0.1", port), PATIENT), lettuce::shutdown);
      }
      DefaultJedisClientConfig config =
          DefaultJedisClientConfig.builder()
              .protocol(protocol == 2 ? RedisProtocol.RESP2 : RedisProtocol.RESP3)
              .timeoutMillis((int) PATIENT.toMillis())
              .build();
      PooledConnectionProvider provider = new PooledConnectionProvider(new HostAndPort("127.0.0.1", port), config);
      return new Opened(JedisConnection.over(provider), provider::close);
    }

    @Override
    public void close() {
      client.run();
    }
  }

  @TestFactory
  Stream<DynamicTest> aServerTellsWhatAKeyHolds() {
    return Stream.of(module, plain)
        .flatMap(
            server ->
                Stream.of(Clients.values())
                    .flatMap(
                        client ->
                            Stream.of(2, 3)
                                .map(
                                    protocol ->
                                        DynamicTest.dynamicTest(
                                            client + ", RESP" + protocol + (server == module ? ", module" : ", functions"),
                                            () -> tells(server, client, protocol)))));
  }

  private static void tells(Server server, Clients client, int protocol) {
    try (Jedis jedis = server.client();
        Opened opened = Opened.of(client, server.port, protocol);
        Limiter limiter = Limiter.over(opened.connection())) {
      jedis.flushAll();
      tells(limiter);
      jedis.set("foreign", "hello");
      MistakeException mistake = assertThrows(MistakeException.class, () -> limiter.inspect("foreign"));
      assertTrue(mistake.getMessage().startsWith("CL.INSPECT: WRONGTYPE The string"), mistake::getMessage);
      if (server == plain) { // a user may have the right to functions that only read alone
        assertTrue(jedis.info("commandstats").contains("cmdstat_fcall_ro:calls="));
      }
    }
  }

  private static void tells(Limiter limiter) {
    Inspection none = limiter.inspect("nobody");
    assertEquals(Inspection.Kind.NONE, none.kind());
    assertEquals(List.of(Optional.empty(), Optional.empty(), List.of(), false), List.of(none.expiresAt(), none.bannedUntil(), none.limits(), none.banned()));

    limiter.limit("lone", 3, Limit.rate(60, HOUR).burst(10));
    Inspection lone = limiter.inspect("lone");
    HeldLimit bucket = lone.limits().get(0);
    assertEquals(Inspection.Kind.RATE, lone.kind());
    Duration full = Duration.between(lone.now(), bucket.resetAt().orElseThrow());
    assertEquals(new HeldLimit(HeldLimit.Kind.RATE, Optional.empty(), OptionalLong.empty(), 0, Optional.empty(), bucket.resetAt(), Duration.ZERO), bucket);
    assertTrue(full.compareTo(Duration.ofMinutes(2)) > 0 && full.compareTo(Duration.ofMillis(180_001)) <= 0, full::toString);

    limiter.ban("lone", Duration.ofMinutes(1));
    Inspection banned = limiter.async().inspect("lone").toCompletableFuture().join();
    assertTrue(banned.banned());
    assertEquals(lone.limits(), banned.limits());

    Limit[] three = {Limit.window(100, HOUR), Limit.fixed(1000, 1, ChronoUnit.MONTHS), Limit.fixed(50, Duration.ofMinutes(10)).first()};
    limiter.limit("three", 2, three);
    Inspection several = limiter.inspect("three");
    assertEquals(Inspection.Kind.LIMITS, several.kind());
    assertEquals(List.of(HeldLimit.Kind.WINDOW, HeldLimit.Kind.FIXED, HeldLimit.Kind.FIRST), several.limits().stream().map(HeldLimit::kind).toList());
    assertEquals(
        List.of(Optional.of(HOUR), Optional.empty(), Optional.of(Duration.ofMinutes(10))), several.limits().stream().map(HeldLimit::period).toList());
    assertEquals(List.of(2L, 2L, 2L), several.limits().stream().map(one -> one.used().orElseThrow()).toList());
    assertEquals(List.of(1L, 0L, 0L), several.limits().stream().map(HeldLimit::entries).toList());
    assertEquals(List.of(true, false, true), several.limits().stream().map(one -> one.resetAt().isPresent()).toList());

    try (Lease lease = limiter.lease("jobs", Slots.of(2, Duration.ofMinutes(1)))) {
      lease.check();
      Inspection jobs = limiter.inspect("jobs");
      assertEquals(List.of(Inspection.Kind.LEASES, 1L, 0L), List.of(jobs.kind(), jobs.held(), jobs.waiting()));
      assertEquals(jobs.expiresAt(), jobs.lapsesAt());
    }
  }

  @Test
  void theFakeTellsWhatAServerTells() {
    tells(new FakeLimiter().limiter());
  }

  @Test
  void theFakeFailsAsItIsTold() {
    FakeLimiter fake = new FakeLimiter();
    fake.next(1).fail();
    assertThrows(OutageException.class, () -> fake.limiter().inspect("k"));
    fake.next(1).loseReplies();
    assertThrows(OutageException.class, () -> fake.limiter().inspect("k"));
    fake.hang();
    CompletableFuture<Inspection> told = fake.inspect("k").toCompletableFuture();
    assertFalse(told.isDone());
    fake.heal();
    assertEquals(Inspection.Kind.NONE, told.join().kind());
    assertEquals(List.of(), fake.asked());
  }

  @Test
  void theFakeCountsCallersInLine() {
    FakeLimiter fake = new FakeLimiter();
    Limit one = Limit.window(1, Duration.ofSeconds(10));
    fake.limiter().limit("k", one);
    var waits = fake.limiter().async().waitFor("k", one);
    assertEquals(1, fake.limiter().inspect("k").waiting());
    fake.advance(Duration.ofSeconds(10));
    assertTrue(waits.toCompletableFuture().isDone());
    assertEquals(0, fake.limiter().inspect("k").waiting());
  }

  @Test
  void whatStandsInFrontOfAServerKeepsNoKeys() {
    FakeLimiter fake = new FakeLimiter();
    assertEquals(Inspection.Kind.NONE, Limiter.over(fake.limiter()).inspect("k").kind());
    Limiter guarded = Limiter.over(Guard.of(fake, Guard.Policy.OPEN));
    Throwable refused = assertThrows(MistakeException.class, () -> guarded.inspect("k"));
    assertTrue(refused.getMessage().contains("inspect needs a limiter over a connection"), refused::getMessage);
    assertThrows(NullPointerException.class, () -> fake.limiter().inspect(null));
  }

  @Test
  void anOddReplyIsAMistake() {
    for (Object reply : new Object[] {"OK", 7L, List.of(), List.of("kind"), List.of("kind", "none"), List.of("kind", "none", "limits", List.of()), List.of(List.of("kind"))}) {
      Throwable odd = assertThrows(MistakeException.class, () -> InspectionReply.read(reply));
      assertTrue(odd.getMessage().contains("not what a key holds"), odd::getMessage);
    }
    assertInstanceOf(MistakeException.class, assertThrows(RuntimeException.class, () -> InspectionReply.read(null)));
  }
}
