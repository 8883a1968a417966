package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.parallel.ExecutionMode.CONCURRENT;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.github.redisthrottle.testing.Tls;
import io.lettuce.core.ClientOptions;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisURI;
import io.lettuce.core.SslOptions;
import java.net.URI;
import java.nio.file.Path;
import java.security.NoSuchAlgorithmException;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.regex.Pattern;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLParameters;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.parallel.Execution;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisClientConfig;
import redis.clients.jedis.providers.PooledConnectionProvider;

/**
 * Connections by TLS: of callers that wait, when the certificate is replaced, and to a server that is somebody else.
 */
class TlsTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));
  private static final Duration PATIENCE = Duration.ofSeconds(1);
  private static final Pattern REASON = Pattern.compile("ertificat|subject alternative|trust anchors");

  /** A connection that trusts the certificates of a file, and the client that it is over. */
  private record Opened(Connection connection, Runnable client) implements AutoCloseable {
    static Opened of(Clients client, int port, Path trusted) {
      return of(client, port, trusted, Duration.ofSeconds(20));
    }

    static Opened of(Clients client, int port, Path trusted, Duration timeout) {
      if (client == Clients.LETTUCE) {
        RedisClient lettuce = RedisClient.create();
        SslOptions tls = SslOptions.builder().jdkSslProvider().trustManager(trusted.toFile()).build();
        lettuce.setOptions(ClientOptions.builder().sslOptions(tls).build());
        RedisURI uri = RedisURI.builder().withHost("127.0.0.1").withPort(port).withSsl(true).build();
        return new Opened(LettuceConnection.over(lettuce, uri, timeout), lettuce::shutdown);
      }
      SSLParameters verified = new SSLParameters();
      verified.setEndpointIdentificationAlgorithm("HTTPS");
      JedisClientConfig config =
          DefaultJedisClientConfig.builder()
              .timeoutMillis((int) timeout.toMillis())
              .ssl(true)
              .sslSocketFactory(Tls.trusting(trusted).getSocketFactory())
              .sslParameters(verified)
              .build();
      PooledConnectionProvider provider = new PooledConnectionProvider(new HostAndPort("127.0.0.1", port), config);
      return new Opened(JedisConnection.over(provider), provider::close);
    }

    @Override
    public void close() {
      client.run();
    }
  }

  private static Server start(Tls tls, int port) {
    return Server.start(tls.options(port).toArray(String[]::new));
  }

  private static void awaitWaiting(Server server) {
    try (Jedis jedis = server.client()) {
      Server.await("it waits", () -> jedis.info("clients").contains("blocked_clients:1\r"));
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aCallerKeepsItsPlaceWhileTheCertificateIsReplaced(Clients client) {
    Limit soon = Limit.window(1, Duration.ofSeconds(6));
    int port = Server.freePort();
    try (Tls first = new Tls();
        Tls second = new Tls();
        Server server = start(first, port);
        Opened opened = Opened.of(client, port, Tls.both(first, second));
        Limiter limiter = Limiter.over(Remote.over(opened.connection(), Commands.AUTO, PATIENCE))) {
      limiter.limit("soon", soon);
      CompletableFuture<Result.Allowed> waits = limiter.async().waitFor("soon", soon).toCompletableFuture();
      awaitWaiting(server);
      second.replace(server);
      assertTrue(limiter.limit("k", QUOTA).allowed(), "by the connection that is there");
      assertTrue(waits.join().allowed(), "the server is asked for a sign of life several times meanwhile");

      server.run("CLIENT", "KILL", "TYPE", "normal");
      Server.await("a new connection, which is shown the new certificate", () -> decides(limiter));
    }
  }

  private static boolean decides(Limiter limiter) {
    try {
      return limiter.limit("k", QUOTA).allowed();
    } catch (OutageException e) { // of a connection that was closed
      return false;
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aCallerLeavesAServerThatHangs(Clients client) {
    Limit hourly = Limit.window(1, Duration.ofHours(1));
    int port = Server.freePort();
    try (Tls tls = new Tls();
        Server server = start(tls, port);
        Opened opened = Opened.of(client, port, tls.certificate(), Duration.ofSeconds(4)); // which a handshake may take where nobody answers
        Limiter limiter = Limiter.over(Remote.over(opened.connection(), Commands.AUTO, PATIENCE))) {
      Server.await("the limit is spent", () -> isSpent(limiter, hourly));
      CompletableFuture<Result.Allowed> waits = limiter.async().waitFor("w", hourly).toCompletableFuture();
      awaitWaiting(server);
      server.pause();
      Server.await("the wait ends", waits::isDone);
      Throwable error = Errors.unwrapped(assertThrows(CompletionException.class, waits::join));
      assertTrue(error instanceof OutageException, String.valueOf(error));
    }
  }

  private static boolean isSpent(Limiter limiter, Limit limit) {
    try {
      return limiter.limit("w", limit).limited();
    } catch (OutageException | OverloadException e) { // of a machine that is busy
      return false;
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aServerWithTheCertificateOfAnotherOneIsToldNothing(Clients client) {
    int port = Server.freePort();
    try (Tls another = new Tls("DNS:elsewhere.invalid");
        Server server = start(another, port);
        Opened opened = Opened.of(client, port, another.certificate());
        Limiter limiter = Limiter.over(opened.connection())) {
      assertRefused(limiter, server, port);
    }
  }

  @ParameterizedTest
  @Execution(CONCURRENT)
  @EnumSource
  void aCertificateThatNobodyTrustsIsRefused(Clients client) {
    int port = Server.freePort();
    try (Tls trusted = new Tls();
        Tls shown = new Tls();
        Server server = start(shown, port);
        Opened opened = Opened.of(client, port, trusted.certificate());
        Limiter limiter = Limiter.over(opened.connection())) {
      assertRefused(limiter, server, port);
    }
  }

  private static void assertRefused(Limiter limiter, Server server, int port) {
    ThrottleException refused = assertThrows(ThrottleException.class, () -> limiter.limit("a-secret-key", QUOTA));
    assertFalse(refused instanceof OverloadException, refused::toString);
    assertTrue(refused.getMessage().contains("127.0.0.1:" + port), refused::toString);
    assertTrue(REASON.matcher(refused.getMessage()).find(), refused::toString);
    assertFalse(refused.getMessage().contains("secret"), refused::toString);
    try (Jedis jedis = server.client()) {
      assertEquals(0, jedis.dbSize());
    }
  }

  /** By itself Jedis trusts a certificate whatever name it has. */
  @Test
  void jedisVerifiesTheNameOfAServer() throws NoSuchAlgorithmException {
    SSLContext before = SSLContext.getDefault();
    for (String names : new String[] {"IP:127.0.0.1", "DNS:elsewhere.invalid"}) {
      int port = Server.freePort();
      try (Tls tls = new Tls(names);
          Server server = start(tls, port)) {
        SSLContext.setDefault(Tls.trusting(tls.certificate()));
        try (Limiter limiter = Limiter.over(JedisConnection.of(URI.create("rediss://127.0.0.1:" + port), Duration.ofSeconds(20)))) {
          if (names.startsWith("IP")) {
            assertTrue(limiter.limit("k", QUOTA).allowed());
          } else {
            assertRefused(limiter, server, port);
          }
        }
      } finally {
        SSLContext.setDefault(before);
      }
    }
  }
}
