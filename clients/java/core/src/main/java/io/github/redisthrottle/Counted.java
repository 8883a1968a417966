package io.github.redisthrottle;

import java.util.List;
import org.jspecify.annotations.Nullable;

/**
 * A count for the window that an instant lies in: one of the calendar, or one that begins with the first unit taken.
 */
final class Counted extends Usage {
  private final Windows.Window window;
  private final boolean corrected;
  private long used;

  private Counted(Limit limit, long now, Windows.Window window, boolean corrected, long used) {
    super(limit, now);
    this.window = window;
    this.corrected = corrected;
    this.used = used;
  }

  static Counted ofCalendar(Limit limit, long now, @Nullable Stored stored) {
    Windows.Window window = Windows.at(limit, now);
    return stored == null || stored.at() < window.index()
        ? new Counted(limit, now, window, false, 0)
        : new Counted(limit, now, window, stored.at() > window.index(), stored.more());
  }

  static Counted first(Limit limit, long now, @Nullable Stored stored) {
    long period = limit.length().shortestNs();
    if (stored == null || Saturated.minus(now, stored.at()) >= period) {
      return new Counted(limit, now, new Windows.Window(now, now, now + period), false, 0);
    }
    boolean corrected = stored.at() > now;
    long begin = corrected ? now : stored.at();
    return new Counted(limit, now, new Windows.Window(begin, begin, begin + period), corrected, stored.more());
  }

  @Override
  boolean corrected() {
    return corrected;
  }

  @Override
  long available() {
    return Math.max(limit.count() - used, 0);
  }

  @Override
  long retryAfter(long units) {
    if (units > limit.count()) {
      return NEVER;
    }
    return units <= available() ? 0 : window.end() - now;
  }

  @Override
  Standing standing() {
    long untilEnd = used > 0 ? window.end() - now : 0;
    return new Standing(limit.count(), available(), untilEnd, untilEnd);
  }

  @Override
  void charge(long units, long waitNs) {
    force(Math.min(units, available()));
  }

  @Override
  long force(long units) {
    long taken = Math.max(Math.min(units, Long.MAX_VALUE - used), 0);
    used += taken;
    return taken;
  }

  @Override
  long chargeDenied(long units, long spare) {
    return force(Math.min(units, available() - spare));
  }

  @Override
  long refund(long units) {
    long back = Math.min(units, used);
    used -= back;
    return back;
  }

  @Override
  long fullAt() {
    return used == 0 ? 0 : window.last();
  }

  @Override
  @Nullable Stored stored() {
    return used == 0 ? null : new Stored(window.index(), used, List.of());
  }
}
