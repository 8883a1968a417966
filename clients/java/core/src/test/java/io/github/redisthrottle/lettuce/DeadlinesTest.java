package io.github.redisthrottle.lettuce;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;

import java.util.List;
import java.util.Queue;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

class DeadlinesTest {
  private final Deadlines deadlines = new Deadlines(TimeUnit.MILLISECONDS.toNanos(20));
  private final Queue<String> ran = new ConcurrentLinkedQueue<>();

  private Deadlines.Entry added(String name) {
    Deadlines.Entry entry = new Deadlines.Entry(() -> ran.add(name));
    deadlines.add(entry);
    return entry;
  }

  private List<Deadlines.Entry> fiveOfWhichTwoStay() {
    List<Deadlines.Entry> entries = List.of(added("a"), added("b"), added("c"), added("d"), added("e"));
    for (int i = 0; i < entries.size(); i += 2) { // the first, one in the middle, and the last
      deadlines.remove(entries.get(i));
      deadlines.remove(entries.get(i));
    }
    return entries;
  }

  private void awaitOneMore() throws Exception {
    CompletableFuture<Void> over = new CompletableFuture<>();
    deadlines.add(new Deadlines.Entry(() -> over.complete(null)));
    over.get(1, TimeUnit.MINUTES);
  }

  @Test
  void whatIsNotRemovedRunsOnceInOrder() throws Exception {
    Deadlines hourly = new Deadlines(TimeUnit.HOURS.toNanos(1));
    hourly.add(new Deadlines.Entry(() -> ran.add("much later")));
    List<Deadlines.Entry> entries = Deadlines.TIMER.submit(this::fiveOfWhichTwoStay).get(); // where nothing runs meanwhile
    awaitOneMore();
    assertEquals(List.of("b", "d"), List.copyOf(ran));
    entries.forEach(deadlines::remove);
    awaitOneMore(); // also when there was none for a while
    assertEquals(List.of("b", "d"), List.copyOf(ran));
  }

  @Test
  void whatFailsKeepsNoOtherFromRunning() throws Exception {
    deadlines.add(
        new Deadlines.Entry(
            () -> {
              throw new IllegalStateException("it failed");
            }));
    added("a");
    awaitOneMore();
    assertEquals(List.of("a"), List.copyOf(ran));
    assertFalse(Deadlines.TIMER.isShutdown());
  }
}
