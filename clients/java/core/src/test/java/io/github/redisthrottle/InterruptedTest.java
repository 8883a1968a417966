package io.github.redisthrottle;

import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.testing.Clients;
import io.github.redisthrottle.testing.Server;
import java.time.Duration;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** A thread that is interrupted takes no slot into the grave. */
class InterruptedTest {
  private static final Slots ONE = Slots.of(1, Duration.ofMinutes(10));
  private static Server server;

  @BeforeAll
  static void start() {
    server = Server.start();
  }

  @AfterAll
  static void stop() {
    server.close();
  }

  /** It has looked whether the lease is there, and then it is. */
  @ParameterizedTest
  @EnumSource
  void aLeaseThatComesAtThisVeryMomentIsTaken(Clients client) {
    try (Limiter limiter = Limiter.over(client.patient(server.port))) {
      CompletableFuture<Lease> taken = limiter.async().lease(client + ":taken", ONE).toCompletableFuture();
      CompletableFuture<Lease> late = new Late<>(taken);
      Thread.currentThread().interrupt();
      Lease lease = Stages.await(() -> late);
      assertTrue(Thread.interrupted(), "the thread keeps its interrupted status");
      assertFalse(lease.isLost());
      lease.releaseAsync().toCompletableFuture().join();
      limiter.async().lease(client + ":taken", ONE).toCompletableFuture().join().releaseAsync().toCompletableFuture().join();
    }
  }

  /** Completes as another one does, when it is cancelled, and not before. */
  private static final class Late<T> extends CompletableFuture<T> {
    private final CompletableFuture<T> other;

    Late(CompletableFuture<T> other) {
      this.other = other;
    }

    @Override
    public boolean cancel(boolean mayInterrupt) {
      complete(other.join());
      return super.cancel(mayInterrupt);
    }
  }

  @ParameterizedTest
  @EnumSource
  void whatItDidNotGiveBackIsGivenBackLater(Clients client) {
    AtomicReference<CompletableFuture<Result>> first = new AtomicReference<>(new CompletableFuture<>());
    Remote remote = Remote.over(client.patient(server.port));
    Decider away = call -> call.verb() == Call.Verb.RELEASE || call.verb() == Call.Verb.SETTLE ? held(first, remote, call) : remote.decide(call);
    try (Limiter limiter = Limiter.over(away);
        Limiter other = Limiter.over(remote)) {
      Lease lease = limiter.lease(client + ":back", ONE);
      ends(first, lease::release);
      Server.await("the slot is free", () -> isFree(other, client + ":back"));
      Admission admission = limiter.admit(Keys.of(client + ":back", ONE));
      ends(first, admission::settle);
      Server.await("the slot is free again", () -> isFree(other, client + ":back"));
    }
  }

  /** Interrupts what gives back, and then has its server out of reach. */
  private static void ends(AtomicReference<CompletableFuture<Result>> first, Runnable act) {
    CompletableFuture<Result> reply = new CompletableFuture<>();
    first.set(reply);
    Thread.currentThread().interrupt();
    assertThrows(CallInterruptedException.class, act::run);
    assertTrue(Thread.interrupted());
    reply.completeExceptionally(new OutageException("away", null));
  }

  private static CompletionStage<Result> held(AtomicReference<CompletableFuture<Result>> first, Decider server, Call call) {
    CompletableFuture<Result> reply = first.getAndSet(null);
    return reply != null ? reply : server.decide(call);
  }

  private static boolean isFree(Limiter limiter, String key) {
    try (Lease lease = limiter.lease(key, ONE)) {
      return !lease.isLost();
    } catch (LimitedException e) {
      return false;
    }
  }
}
