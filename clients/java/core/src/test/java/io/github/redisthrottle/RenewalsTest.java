package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.github.redisthrottle.testing.Server;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class RenewalsTest {
  /** In the order of their times, whatever comes first, and whatever is cancelled in between. */
  @Test
  void eachIsRenewedUnlessItWasCancelled() {
    Queue<String> renewed = new ConcurrentLinkedQueue<>();
    try (Background background = Background.own()) {
      CountDownLatch all = new CountDownLatch(1);
      background.scheduler().execute(() -> await(all)); // nothing is renewed before the one is cancelled, on a machine that is busy
      Renewals renewals = new Renewals(background.scheduler());
      renewals.after(TimeUnit.MILLISECONDS.toNanos(400), () -> renewed.add("last"));
      Renewals.Renewal second = renewals.after(TimeUnit.MILLISECONDS.toNanos(200), () -> renewed.add("cancelled"));
      renewals.after(TimeUnit.MILLISECONDS.toNanos(300), () -> renewed.add("next"));
      renewals.after(0, () -> renewed.add("first"));
      renewals.cancel(second);
      all.countDown();
      Server.await("all are renewed", () -> renewed.size() == 3);
      assertEquals(List.of("first", "next", "last"), List.copyOf(renewed));
    }
  }

  private static void await(CountDownLatch latch) {
    try {
      latch.await();
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }
}
