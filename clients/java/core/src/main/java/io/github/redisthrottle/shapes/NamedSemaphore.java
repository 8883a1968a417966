package io.github.redisthrottle.shapes;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Lease;
import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Slots;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * A semaphore that all processes with the same name share, with the methods of Redisson's RPermitExpirableSemaphore. A
 * permit is held under an id and renewed in the background, so the permit of a process that has died is free after the
 * ttl of the slots, and no other one is.
 *
 * <table>
 *   <caption>Instead of</caption>
 *   <tr><th>instead of</th><th>write</th></tr>
 *   <tr><td>{@code semaphore.trySetPermits(5)}</td><td>nothing: the number comes with each call</td></tr>
 *   <tr><td>{@code RSemaphore.acquire()}, {@code release()}</td>
 *       <td>{@code String id = semaphore.acquire()}, {@code release(id)}; or better {@code try (Lease lease = limiter.lease(...))}</td></tr>
 *   <tr><td>{@code acquire(leaseTime, unit)}</td><td>the ttl of the slots</td></tr>
 *   <tr><td>{@code release(5)} of what nobody holds</td><td>nothing: there are no more permits than slots</td></tr>
 * </table>
 */
public final class NamedSemaphore {
  private final Limiter limiter;
  private final String name;
  private final Slots slots;
  private final Map<String, Lease> held = new ConcurrentHashMap<>();

  private NamedSemaphore(Limiter limiter, String name, Slots slots) {
    this.limiter = limiter;
    this.name = name;
    this.slots = slots;
  }

  /** Returns the semaphore of a name. */
  public static NamedSemaphore of(Limiter limiter, String name, Slots slots) {
    return new NamedSemaphore(limiter, name, slots);
  }

  /** Takes a permit, and waits for it as long as it takes, in order of arrival. Returns its id. */
  public String acquire() {
    return hold(limiter.lease(Call.lease(name, slots).maxWait(Duration.ofDays(36_500))));
  }

  /** Takes a permit if there is one. Returns its id. */
  public Optional<String> tryAcquire() {
    return attempt(Call.lease(name, slots));
  }

  /** Takes a permit, and waits for it for so long at most. Returns its id. */
  public Optional<String> tryAcquire(Duration timeout) {
    return attempt(timeout.isZero() ? Call.lease(name, slots) : Call.lease(name, slots).maxWait(timeout));
  }

  /** Returns whether the permit is still this process's. */
  public boolean isHeld(String id) {
    Lease lease = held.get(id);
    return lease != null && !lease.isLost();
  }

  /**
   * Gives a permit back, also one that another process has taken, which finds it lost then. Returns whether it was held
   * till now.
   */
  public boolean release(String id) {
    Lease lease = held.remove(id);
    if (lease == null) {
      return limiter.release(name, id);
    }
    boolean mine = !lease.isLost();
    lease.release();
    return mine;
  }

  private Optional<String> attempt(Call call) {
    try {
      return Optional.of(hold(limiter.lease(call)));
    } catch (LimitedException e) {
      return Optional.empty();
    }
  }

  private String hold(Lease lease) {
    held.put(lease.id(), lease);
    return lease.id();
  }
}
