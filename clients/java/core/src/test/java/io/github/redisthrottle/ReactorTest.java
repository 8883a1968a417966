package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import reactor.core.Disposable;
import reactor.core.publisher.Mono;
import redis.clients.jedis.Jedis;

/**
 * What README says for Reactor: a Mono from the stage of a call asks on subscription, has our errors, and leaves the
 * line when it is cancelled.
 */
class ReactorTest {
  private static final Limit MINUTE = Limit.window(1, Duration.ofMinutes(1));

  private final FakeLimiter fake = new FakeLimiter();

  @Test
  void everySubscriptionAsks() {
    Mono<Result> limited = Mono.fromCompletionStage(() -> fake.decide(Call.limit("k", MINUTE)));
    assertEquals(0, fake.asked().size());
    assertTrue(limited.block().allowed());
    assertTrue(limited.block().limited());
    fake.fail();
    assertThrows(OutageException.class, limited::block);
  }

  @Test
  void oneThatIsCancelledLeavesTheLineAndTakesNothing() {
    Mono<Result.Allowed> waits = Mono.fromCompletionStage(() -> fake.limiter().async().waitFor("k", MINUTE));
    waits.block();
    List<String> came = new ArrayList<>();
    Disposable first = waits.subscribe(result -> came.add("first"));
    waits.subscribe(result -> came.add("second"));
    first.dispose();
    assertEquals(1, fake.blocked());
    fake.advance(Duration.ofMinutes(1));
    assertEquals(List.of("second"), came);
  }

  @ParameterizedTest
  @EnumSource
  void oneThatIsCancelledLeavesTheLineOfTheServer(Clients client) {
    try (Server server = Server.start();
        Limiter limiter = Limiter.over(client.patient(server.port));
        Jedis jedis = server.client()) {
      Mono<Result.Allowed> waits = Mono.fromCompletionStage(() -> limiter.async().waitFor("k", MINUTE));
      waits.block();
      Disposable waiting = waits.subscribe();
      Server.await("the caller waits", () -> jedis.info("clients").contains("blocked_clients:1"));
      waiting.dispose();
      Server.await("the caller has left", () -> jedis.info("clients").contains("blocked_clients:0"));
    }
  }
}
