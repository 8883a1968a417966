package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.connection.Command;
import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.Jedis;

/** What a server has may change, and many may ask for it at once. */
class DiscoveryTest {
  private static final Limit QUOTA = Limit.fixed(5000, Duration.ofDays(1));
  private static final String[] NO_FUNCTIONS = {"--rename-command", "FCALL", "", "--rename-command", "FCALL_RO", "", "--rename-command", "FUNCTION", ""};

  private static Limiter over(Connection connection) {
    return Limiter.over(Remote.over(connection));
  }

  /** How often a command was run, whatever it answered. */
  private static int calls(Server server, String command) {
    try (Jedis jedis = server.client()) {
      Matcher found = Pattern.compile("cmdstat_" + Pattern.quote(command) + ":calls=(\\d+)").matcher(jedis.info("commandstats"));
      return found.find() ? Integer.parseInt(found.group(1)) : 0;
    }
  }

  @ParameterizedTest
  @EnumSource(Clients.class)
  void aThousandFirstCallsSendTheScriptOnce(Clients client) throws InterruptedException {
    try (Server server = Server.plain(NO_FUNCTIONS);
        Limiter limiter = over(client.patient(server.port))) {
      for (int round = 1; round <= 2; round++) {
        ExecutorService threads = Executors.newFixedThreadPool(16);
        for (int i = 0; i < 1000; i++) {
          threads.execute(() -> limiter.limit("k", QUOTA));
        }
        threads.shutdown();
        assertTrue(threads.awaitTermination(60, TimeUnit.SECONDS));
        assertEquals(round, calls(server, "eval"));
        assertEquals(5000 - 1000 * round, limiter.peek("k", QUOTA).remaining());
        server.run("SCRIPT", "FLUSH");
      }
    }
  }

  @ParameterizedTest
  @EnumSource(Clients.class)
  void aServerOlderThanRedis7IsRefusedBeforeAnythingIsCharged(Clients client) {
    String[] options = {"--rename-command", "PEXPIRETIME", "", "--rename-command", "EXPIRETIME", "", "--rename-command", "EVALSHA_RO", ""};
    try (Server server = Server.plain(both(NO_FUNCTIONS, options));
        Limiter limiter = over(client.patient(server.port));
        Jedis jedis = server.client()) {
      for (int i = 0; i < 2; i++) {
        MistakeException refused = assertThrows(MistakeException.class, () -> limiter.limitAll(Keys.of("{k}y", QUOTA).and("{k}z", QUOTA)));
        assertTrue(refused.getMessage().contains("older than Redis 7.0"), refused::getMessage);
      }
      assertEquals(0, jedis.dbSize());
    }
  }

  /** Envoy's proxy, for one. */
  @ParameterizedTest
  @EnumSource(Clients.class)
  void aLookIsSentAsAScriptThatMayWriteWhereThereIsNoOther(Clients client) {
    try (Server server = Server.plain(both(NO_FUNCTIONS, new String[] {"--rename-command", "EVALSHA_RO", "", "--rename-command", "EVAL_RO", ""}));
        Limiter limiter = over(client.patient(server.port))) {
      for (int i = 0; i < 2; i++) {
        assertEquals(5000, limiter.peek("k", QUOTA).remaining());
      }
      assertEquals(4999, limiter.limit("k", QUOTA).remaining());
      assertEquals(3, calls(server, "evalsha"));
    }
  }

  @Test
  void aFlushBetweenTwoQuestionsMeansNoScripts() {
    try (Server server = Server.plain()) {
      AtomicBoolean flushed = new AtomicBoolean();
      Connection flushing =
          new Passing(Clients.JEDIS.patient(server.port)) {
            @Override
            public CompletionStage<Object> send(Command command) {
              boolean second = command.words().get(0).equals("FCALL_RO");
              if (second && flushed.compareAndSet(false, true)) {
                server.run("FUNCTION", "FLUSH");
              }
              return super.send(command);
            }
          };
      try (Limiter first = over(Clients.JEDIS.patient(server.port));
          Limiter limiter = over(flushing)) {
        first.limit("k", QUOTA); // loads the library
        assertEquals(4998, limiter.limit("k", QUOTA).remaining());
        assertTrue(flushed.get());
        assertEquals(0, calls(server, "evalsha"));
      }
    }
  }

  @ParameterizedTest
  @EnumSource(Clients.class)
  void aReplicaThatIsPromotedIsNoticed(Clients client) {
    try (Server master = Server.plain("--repl-diskless-sync-delay", "0");
        Server replica = Server.plain("--replicaof", "127.0.0.1", String.valueOf(master.port));
        Jedis admin = replica.client();
        Limiter limiter = over(client.patient(replica.port))) {
      Server.await("the replica has its master", () -> admin.info("replication").contains("master_link_status:up"));
      assertEquals(5000, limiter.peek("k", QUOTA).remaining()); // by a script that only reads
      OutageException outage = assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA));
      assertTrue(outage.getMessage().contains("READONLY"), outage::getMessage);
      admin.replicaofNoOne();
      assertEquals(4999, limiter.limit("k", QUOTA).remaining());
      assertTrue(calls(replica, "fcall") >= 1);
    }
  }

  @ParameterizedTest
  @EnumSource(Clients.class)
  void aModuleThatAppearsInARestartIsNoticed(Clients client) {
    try (Server server = Server.plain();
        Limiter limiter = over(client.patient(server.port))) {
      assertEquals(4999, limiter.limit("k", QUOTA).remaining());
      server.run("SAVE"); // the library is there after the restart, too
      server.kill();
      assertThrows(OutageException.class, () -> limiter.limit("k", QUOTA));
      server.launch("--loadmodule", Server.module());
      Server.await("the limiter is back", () -> isBack(limiter));
      assertTrue(calls(server, "cl.limit") >= 1);
    }
  }

  /** A client that connects again by itself tells nobody. */
  @Test
  void aModuleThatAppearsIsNoticedAlsoWithoutAnOutage() {
    Duration before = Doors.doorsLast;
    try (Server server = Server.plain("--enable-module-command", "yes");
        Limiter limiter = over(Clients.LETTUCE.patient(server.port))) {
      Doors.doorsLast = Duration.ZERO;
      assertEquals(4999, limiter.limit("k", QUOTA).remaining());
      server.run("MODULE", "LOAD", Server.module());
      assertEquals(4998, limiter.limit("k", QUOTA).remaining());
      assertEquals(1, calls(server, "cl.limit"));
    } finally {
      Doors.doorsLast = before;
    }
  }

  private static boolean isBack(Limiter limiter) {
    try {
      return limiter.limit("k", QUOTA).allowed();
    } catch (OutageException e) {
      return false;
    }
  }

  private static String[] both(String[] some, String[] more) {
    return Stream.of(some, more).flatMap(Arrays::stream).toArray(String[]::new);
  }

  /** Hands everything on. */
  private static class Passing implements Connection {
    private final Connection next;

    Passing(Connection next) {
      this.next = next;
    }

    @Override
    public CompletionStage<Object> send(Command command) {
      return next.send(command);
    }

    @Override
    public CompletionStage<Object> sendWaiting(Command command, CompletionStage<Void> left) {
      return next.sendWaiting(command, left);
    }

    @Override
    public CompletionStage<Object> sendAtomically(List<Command> commands) {
      return next.sendAtomically(commands);
    }

    @Override
    public void close() {
      next.close();
    }
  }
}
