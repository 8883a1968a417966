package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.github.redisthrottle.micrometer.Metered;
import io.micrometer.core.instrument.simple.SimpleMeterRegistry;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;

class MeteredTest {
  private final SimpleMeterRegistry registry = new SimpleMeterRegistry();
  private final FakeLimiter fake = new FakeLimiter();
  private final Limiter limiter = Limiter.over(Metered.of(fake, registry));

  private double decisions(String outcome, String policy) {
    return registry.get("ratelimit.decisions").tags("verb", "limit", "outcome", outcome, "policy", policy, "by", "server").counter().count();
  }

  @Test
  void decisionsAreCountedByOutcomeAndByTheLimitThatDecided() {
    Limit minute = Limit.fixed(2, Duration.ofMinutes(1)).named("minute");
    Limit trial = Limit.fixed(1, Duration.ofMinutes(1)).shadow().named("trial");
    for (int i = 0; i < 3; i++) {
      limiter.limit("k", minute, trial);
    }
    assertEquals(2, decisions("allowed", "minute"));
    assertEquals(1, decisions("limited", "minute"));
    assertEquals(2, registry.get("ratelimit.shadowed").tags("policy", "trial").counter().count());
    assertEquals(3, registry.get("ratelimit.decision.duration").tags("verb", "limit", "by", "server").timer().count());
  }

  @Test
  void whatIsNotDecidedIsCountedByItsKindOfError() {
    Limit limit = Limit.rate(1, Duration.ofSeconds(1));
    for (ThrottleException error : new ThrottleException[] {new OutageException("a", null), new OverloadException("b", null), new MistakeException("c", null)}) {
      fake.fail(error);
      assertThrows(error.getClass(), () -> limiter.limit("k", limit));
    }
    fake.hang();
    CompletableFuture<Result> leaves = limiter.async().limit("k", limit).toCompletableFuture();
    leaves.cancel(true);
    for (String outcome : new String[] {"outage", "overload", "error", "cancelled"}) {
      assertEquals(1, decisions(outcome, ""), outcome);
    }
  }
}
