package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Decider;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Remote;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.jedis.JedisConnection;
import io.github.redisthrottle.testing.Server;
import java.net.URI;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class OffEventLoopsTest {
  @Test
  void aUnitThatComesAsItsCallerLeavesIsGivenBack() {
    Limit daily = Limit.fixed(1, Duration.ofDays(1));
    CompletableFuture<Void> granted = new CompletableFuture<>();
    CompletableFuture<Void> left = new CompletableFuture<>();
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(Remote.over(JedisConnection.of(URI.create(server.url()), Duration.ofSeconds(30))));
        OffEventLoops threads = new OffEventLoops()) {
      Decider late =
          call -> {
            CompletableFuture<Result> result = limiter.decide(call).toCompletableFuture();
            result.thenRun(() -> granted.complete(null)).join();
            left.join();
            return result;
          };
      CompletableFuture<Result> waiting = threads.customize(late).decide(Call.waitFor("w", daily)).toCompletableFuture();
      granted.join();
      assertTrue(waiting.cancel(true));
      left.complete(null);
      Server.await("the unit is there again", () -> limiter.peek("w", daily).remaining() == 1);
    }
  }
}
