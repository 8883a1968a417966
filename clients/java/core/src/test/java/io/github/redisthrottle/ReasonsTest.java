package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.connection.Connection;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.lettuce.LettuceConnection;
import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import io.lettuce.core.RedisURI;
import java.io.IOException;
import java.net.ServerSocket;
import java.net.URI;
import java.time.Duration;
import java.util.Locale;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** An error names the server and the reason, and neither a key nor a password. */
class ReasonsTest {
  private static final Limit QUOTA = Limit.fixed(1000, Duration.ofDays(1));

  private static Connection connection(Clients client, String uri) {
    Duration patient = Duration.ofSeconds(uri.startsWith("rediss") ? 1 : 10); // no error tells that TLS is the reason
    return client == Clients.LETTUCE ? LettuceConnection.of(RedisURI.create(uri), patient) : JedisConnection.of(URI.create(uri), patient);
  }

  private static ThrottleException error(Clients client, String uri) {
    try (Limiter limiter = Limiter.over(connection(client, uri))) {
      ThrottleException error = assertThrows(ThrottleException.class, () -> limiter.limit("a-secret-key", QUOTA));
      assertFalse(error.getMessage().contains("secret"), error.getMessage());
      return error;
    }
  }

  private static void assertSays(ThrottleException error, String... texts) {
    for (String text : texts) {
      assertTrue(error.getMessage().toLowerCase(Locale.ROOT).contains(text), error.getMessage());
    }
  }

  @ParameterizedTest
  @EnumSource
  void aConnectionThatIsRefused(Clients client) throws IOException {
    int port;
    try (ServerSocket socket = new ServerSocket(0)) {
      port = socket.getLocalPort();
    }
    ThrottleException error = error(client, "redis://127.0.0.1:" + port);
    assertSays(error, "127.0.0.1:" + port, "connection refused");
    assertFalse(assertInstanceOf(OutageException.class, error).sent());
  }

  @ParameterizedTest
  @EnumSource
  void aNameThatIsNotKnown(Clients client) {
    ThrottleException error = error(client, "redis://nowhere.invalid:6379");
    assertSays(error, "nowhere.invalid:6379", "not found");
    assertFalse(assertInstanceOf(OutageException.class, error).sent());
  }

  @ParameterizedTest
  @EnumSource
  void aPasswordThatIsWrong(Clients client) {
    try (Server server = Server.start()) {
      server.run("CONFIG", "SET", "requirepass", "right");
      ThrottleException error = error(client, "redis://:secret@127.0.0.1:" + server.port);
      assertSays(assertInstanceOf(MistakeException.class, error), "127.0.0.1:" + server.port, "wrongpass");
    }
  }

  @ParameterizedTest
  @EnumSource
  void aServerWithoutTls(Clients client) {
    try (Server server = Server.start()) {
      assertSays(error(client, "rediss://127.0.0.1:" + server.port), "127.0.0.1:" + server.port, "tls");
    }
  }

  @ParameterizedTest
  @EnumSource
  void aServerThatHangs(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.connect(server.port))) {
      server.pause();
      ThrottleException error = assertThrows(OutageException.class, () -> limiter.limit("a-secret-key", QUOTA));
      assertSays(error, "127.0.0.1:" + server.port, ": no ");
    }
  }
}
