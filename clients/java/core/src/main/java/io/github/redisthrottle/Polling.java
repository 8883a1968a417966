package io.github.redisthrottle;

import java.time.Duration;
import java.util.Objects;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;

/**
 * A call that waits where the server cannot make it wait: without the module. Units of rates are reserved on arrival,
 * in order; for everything else the server is asked again and again, and who asks at the right moment gets it.
 */
final class Polling {
  private static final long MS = 1_000_000;

  private final Remote remote;
  private final Call call;
  private final long longestNs;
  private final boolean reserves;
  private final boolean forever;
  private final long began = System.nanoTime();
  private final long waitsNs;
  private final CompletableFuture<Result> result = new CompletableFuture<>();

  private Polling(Remote remote, Call call, long longestNs) {
    this.remote = remote;
    this.call = call;
    this.longestNs = longestNs;
    this.reserves =
        call.verb() == Call.Verb.WAIT && call.keys().get(0).limits().stream().allMatch(limit -> limit.kind() == Limit.Kind.RATE);
    Duration maxWait = Objects.requireNonNull(call.maxWait());
    this.forever = maxWait.compareTo(Durations.LONGEST_WAIT) >= 0;
    this.waitsNs = forever ? Long.MAX_VALUE : Durations.nanos(maxWait, "maxWait");
  }

  /** Decides a call that waits. There are {@code longestNs} between two questions at most. */
  static CompletionStage<Result> of(Remote remote, Call call, long longestNs) {
    try {
      check(call, longestNs);
    } catch (MistakeException e) {
      return CompletableFuture.failedFuture(e);
    }
    Polling polling = new Polling(remote, call, longestNs);
    polling.ask();
    return polling.result;
  }

  private long passed() {
    return System.nanoTime() - began;
  }

  private void ask() {
    if (result.isDone()) { // nobody waits any more
      return;
    }
    long passed = passed();
    long restNs = Math.max(waitsNs - passed, 0);
    // It is not cancelled with the call: what it takes has to be given back.
    remote
        .decide(question(restNs))
        .whenComplete(
            (answer, error) -> {
              if (error != null) {
                result.completeExceptionally(Errors.unwrapped(error));
              } else if (answer.allowed()) {
                taken(answer, passed);
              } else {
                denied(answer, passed, restNs);
              }
            });
  }

  private Call question(long restNs) {
    if (call.verb() == Call.Verb.LEASE) {
      return call.atOnce();
    }
    Call limit = Call.limit(call.key(), call.keys().get(0).limits().toArray(Limit[]::new)).cost(call.cost());
    limit = call.hasEach() ? limit.each() : limit;
    return reserves && restNs >= MS ? limit.maxWait(forever ? Durations.LONGEST_WAIT : Duration.ofNanos(restNs)) : limit;
  }

  private void taken(Result answer, long passed) {
    Result taken = waited(answer, passed);
    taken.ifLost(() -> remote.giveBack(call, taken));
    if (answer.waited().isZero()) {
      Stages.complete(result, taken);
      return;
    }
    result.whenComplete(
        (value, error) -> {
          if (value != taken) {
            taken.lost();
          }
        });
    after(answer.waited().toNanos(), () -> result.complete(taken));
  }

  private void denied(Result answer, long passed, long restNs) {
    long retryNs = answer.retryAfter().map(Duration::toNanos).orElse(-1L);
    // What a rate would let through later than the end cannot be had, nor what is banned until then; slots and windows
    // may be given back before.
    if (retryNs < 0 || restNs == 0 || ((reserves || answer.banned()) && retryNs > restNs)) {
      result.complete(waited(answer, passed));
      return;
    }
    double random = ThreadLocalRandom.current().nextDouble();
    double pause = retryNs <= longestNs ? retryNs * (1 + random / 10) : longestNs * (0.5 + random / 2);
    after(Math.min(Math.max((long) pause, MS), Math.max(waitsNs - passed(), 0)), this::ask);
  }

  private static Result waited(Result answer, long passed) {
    State.Draft draft = new State.Draft(answer.state());
    draft.waitMs += passed / MS;
    return draft.done();
  }

  private static void after(long ns, Runnable action) {
    CompletableFuture.delayedExecutor(ns, TimeUnit.NANOSECONDS).execute(action);
  }

  /** Refuses what only a line on the server has. */
  private static void check(Call call, long longestNs) {
    if (longestNs == 0) {
      throw new MistakeException(call.command() + " needs the module, or the option poll: a function cannot make its caller wait", null);
    }
    if (!call.group().isEmpty() || call.weight() != 1 || call.priority() != 0) {
      throw new MistakeException(call.command() + " needs the module for a group, a weight or a priority: without it there is no line", null);
    }
  }
}
