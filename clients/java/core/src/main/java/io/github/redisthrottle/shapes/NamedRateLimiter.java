package io.github.redisthrottle.shapes;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.Result;
import java.time.Duration;
import java.util.List;

/**
 * A limit under a name, with the methods that Guava's RateLimiter and Redisson's RRateLimiter have. All processes with
 * the same name share it.
 *
 * <table>
 *   <caption>Instead of</caption>
 *   <tr><th>instead of</th><th>write</th></tr>
 *   <tr><td>{@code RateLimiter.create(5)}</td>
 *       <td>{@code NamedRateLimiter.of(limiter, "mail", rate(5, ofSeconds(1)))}</td></tr>
 *   <tr><td>{@code limiter.trySetRate(OVERALL, 5, 1, SECONDS)}</td>
 *       <td>nothing: the rate comes with each call, so a new one holds at once</td></tr>
 *   <tr><td>{@code limiter.delete()}</td><td>{@link #reset}</td></tr>
 * </table>
 */
public final class NamedRateLimiter {
  private final Limiter limiter;
  private final String name;
  private final List<Limit> limits;

  private NamedRateLimiter(Limiter limiter, String name, List<Limit> limits) {
    this.limiter = limiter;
    this.name = name;
    this.limits = limits;
  }

  /** Returns the limiter of a name. Several limits hold together. */
  public static NamedRateLimiter of(Limiter limiter, String name, Limit... limits) {
    Call.limit(name, limits); // which checks them
    return new NamedRateLimiter(limiter, name, List.of(limits));
  }

  /** Takes one permit if it is there. */
  public boolean tryAcquire() {
    return tryAcquire(1);
  }

  /** Takes so many permits if they are there, all or none. */
  public boolean tryAcquire(long permits) {
    return limiter.ask(Call.limit(name, limits).cost(permits)).allowed();
  }

  /**
   * Takes so many permits, and waits for them for so long at most, in order of arrival. Returns false at once if they
   * will not be there in time: it does not wait in vain.
   */
  public boolean tryAcquire(long permits, Duration timeout) {
    if (timeout.isZero()) {
      return tryAcquire(permits);
    }
    return limiter.ask(waiting(permits).maxWait(timeout)).allowed();
  }

  /** Takes one permit, and waits for it as long as it takes. Returns how long that was. */
  public Duration acquire() {
    return acquire(1);
  }

  /**
   * Takes so many permits, and waits for them as long as it takes. Returns how long that was.
   *
   * @throws io.github.redisthrottle.LimitedException if there never are as many
   */
  public Duration acquire(long permits) {
    Result result = limiter.ask(waiting(permits)).orThrow();
    return result.waited();
  }

  /** Returns how many permits could be taken right now. */
  public long availablePermits() {
    return limiter.peek(name, limits.toArray(Limit[]::new)).remaining();
  }

  /** Returns so many permits, never above full. */
  public void release(long permits) {
    limiter.refund(name, permits, limits.toArray(Limit[]::new));
  }

  /** Makes it full again. */
  public void reset() {
    limiter.reset(name);
  }

  private Call waiting(long permits) {
    return Call.waitFor(name, limits.toArray(Limit[]::new)).cost(permits);
  }
}
