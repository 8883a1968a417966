package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.management.UnixOperatingSystemMXBean;
import io.github.redisthrottle.testing.Server;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.function.ToLongFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.condition.EnabledIfSystemProperty;
import org.springframework.boot.WebApplicationType;

/** An application under load for long: SOAK=1h make soak-webflux. */
class SoakTest {
  /** What a process has of things that must not grow. */
  private record Levels(long heap, long threads, long descriptors) {
    /** Returns the levels once they have settled: connections end a while after their responses. */
    static Levels settled() throws InterruptedException {
      Levels before = read();
      for (int i = 0; i < 100; i++) {
        Thread.sleep(200);
        Levels now = read();
        if (now.threads >= before.threads && now.descriptors >= before.descriptors) {
          return now;
        }
        before = now;
      }
      return before;
    }

    private static Levels read() {
      for (int i = 0; i < 3; i++) {
        System.gc();
      }
      return new Levels(
          ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed(),
          ManagementFactory.getThreadMXBean().getThreadCount(),
          ((UnixOperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean()).getOpenFileDescriptorCount());
    }

    /** Single readings say little. */
    static Levels median(List<Levels> all) {
      return new Levels(median(all, Levels::heap), median(all, Levels::threads), median(all, Levels::descriptors));
    }

    private static long median(List<Levels> all, ToLongFunction<Levels> of) {
      return all.stream().mapToLong(of).sorted().skip(all.size() / 2).findFirst().orElseThrow();
    }
  }

  @Test
  @EnabledIfSystemProperty(named = "load.soak", matches = "PT.+")
  void memoryThreadsAndSocketsLevelOff() throws InterruptedException {
    long lasts = Duration.parse(System.getProperty("load.soak")).toNanos();
    List<Levels> readings = new ArrayList<>();
    try (Server server = Server.start();
        Application application = Application.start(WebApplicationType.REACTIVE, null, List.of(LoadTest.Controllers.class), LoadTest.with("lettuce", server))) {
      int port = LoadTest.port(application);
      int served = 0;
      for (long began = System.nanoTime(); System.nanoTime() - began < lasts || readings.size() < 8; ) {
        Flood free = Flood.send(port, "/free/work", 500, 50);
        Flood tight = Flood.send(port, "/tight/work", 2000, readings.size() % 2 == 0 ? 50 : 1000);
        assertEquals(0, free.undecided() + tight.undecided(), () -> free + "\n" + tight);
        assertEquals(500, free.count(200) + free.count(503), free::toString);
        assertEquals(2000, tight.count(200) + tight.count(429) + tight.count(503), tight::toString);
        served += tight.count(200);
        long hours = (System.nanoTime() - began) / Duration.ofHours(1).toNanos();
        assertTrue(served <= 101 + 100 * (hours + 1), served + " passed");
        readings.add(Levels.settled());
      }
    }
    int half = readings.size() / 2;
    Levels first = Levels.median(readings.subList(1, half));
    Levels last = Levels.median(readings.subList(half, readings.size()));
    System.out.printf("%d rounds, medians: first half %s, second half %s%n", readings.size(), first, last);
    assertTrue(last.heap <= first.heap * 1.2 + (1 << 20), () -> first + ", then " + last);
    assertTrue(last.threads <= first.threads + 5, () -> first + ", then " + last);
    assertTrue(last.descriptors <= first.descriptors + 5, () -> first + ", then " + last);
  }
}
