package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;

/** The limits of a call on a key, and what the key holds of others. */
final class Stack {
  private static final int MOST = 8; // limits of a key whose usage is kept

  final Held held;
  final List<Row> rows;
  private final long now;
  private final List<Kept> others = new ArrayList<>();
  private boolean addsNone;

  Stack(Held held, List<Row> rows, long now) {
    this.held = held;
    this.rows = rows;
    this.now = now;
    match();
    for (Row row : rows) {
      if (!row.stored) {
        row.usage = Usage.of(row.limit, now, null);
      }
    }
  }

  /**
   * Finds out which limit has what of what the key holds: the first has the first where there are several. A rate
   * alone is the first rate.
   */
  private void match() {
    boolean lone = held.kept().size() == 1 && held.kept().get(0).isRate();
    for (Kept one : held.kept()) {
      if (give(one, lone)) {
        continue;
      }
      // The number alone has no period; what was reserved or forced has one.
      boolean number = lone && one.isNumber();
      String id = number ? Kept.UNKNOWN : one.id();
      others.add(new Kept(id, number ? 0 : one.periodNs(), one.stored(), false));
    }
    Kept number = lone ? null : others.stream().filter(one -> one.id().equals(Kept.UNKNOWN)).findFirst().orElse(null);
    if (number != null && give(number, true)) {
      others.remove(number);
    }
  }

  private boolean give(Kept one, boolean toAnyRate) {
    for (Row row : rows) {
      if (!row.stored && !row.zero && (toAnyRate ? row.isRate() : row.id.text().equals(one.id()))) {
        row.usage = Usage.of(row.limit, now, one.stored());
        row.stored = true;
        return true;
      }
    }
    return false;
  }

  boolean isChanged() {
    return rows.stream().anyMatch(row -> row.changed);
  }

  boolean isBanned() {
    return held.bannedUntil() > now;
  }

  /** Limits that the key does not hold are not to be stored. */
  void addNone() {
    addsNone = true;
  }

  /**
   * Limits that the key does not hold are stored if they were charged, with those in front that would be taken for
   * them.
   */
  void addCharged() {
    addsNone = true;
    for (int i = 0; i < rows.size(); i++) {
      Row row = rows.get(i);
      if (row.stored || row.charged <= 0) {
        continue;
      }
      for (Row before : rows.subList(0, i + 1)) {
        if (row.isRate() ? before.isRate() : before.id.equals(row.id) && !before.zero) {
          before.stored = true;
        }
      }
    }
  }

  /**
   * What became of the count of denials.
   *
   * @param last whether the call was the last of those that a ban takes
   * @param changed whether what is stored has changed
   */
  record Denial(boolean last, boolean changed) {}

  /** Counts a denied call. */
  Denial countDenial(String banAfter) {
    String[] parts = banAfter.split("/", 2);
    Limit limit = Limit.fixed(Long.parseLong(parts[0]), Durations.parse(parts[1], "banAfter")).first();
    Limit.Id id = new Limit.Id("AFTER " + limit.id().periodNs(), limit.id().periodNs());
    Kept before = others.stream().filter(one -> one.id().equals(id.text())).findFirst().orElse(null);
    others.remove(before);
    Usage counted = Usage.of(limit, now, before == null ? null : before.stored());
    counted.force(1);
    if (counted.available() == 0) {
      return new Denial(true, before != null);
    }
    others.add(0, new Kept(id.text(), id.periodNs(), counted.stored(), true));
    return new Denial(false, true);
  }

  /** Stores what the limits have become. If all are full, the key goes. */
  void store() {
    if (isBanned()) {
      storeBehind(held.bannedUntil());
      return;
    }
    long full = fullAt();
    boolean isFull = Long.compareUnsigned(full, now) <= 0;
    boolean keepsCalendar = others.stream().anyMatch(Kept::endIsUnknown);
    if (isFull && !keepsCalendar) {
      held.clear();
      return;
    }
    boolean exists = held.exists(now);
    held.store(kept(), 0);
    if (exists && !keepsCalendar) {
      held.use(full, now);
    } else {
      held.expire(isFull ? now + 1 : full, exists);
    }
  }

  /** Bans the key until an instant, and stores what the limits have become behind the ban. */
  void storeBehind(long until) {
    long full = fullAt();
    boolean keepsCalendar = others.stream().anyMatch(Kept::endIsUnknown);
    boolean noEarlier = keepsCalendar && held.exists(now);
    held.store(Long.compareUnsigned(full, now) > 0 || keepsCalendar ? kept() : List.of(), until);
    held.expire(Long.compareUnsigned(full, until) > 0 ? full : until, noEarlier);
  }

  private long fullAt() {
    forget();
    long full = 0;
    for (Row row : rows) {
      full = later(full, row.usage.fullAt());
    }
    for (Kept one : others) {
      full = later(full, one.fullAt());
    }
    return full;
  }

  private static long later(long a, long b) {
    return Long.compareUnsigned(a, b) > 0 ? a : b;
  }

  /**
   * Drops what does not have to be kept of limits that the call does not name: those that are full, and those without
   * room.
   */
  private void forget() {
    Kept full = null;
    for (int i = others.size() - 1; i >= 0; i--) {
      Kept one = others.get(i);
      if (one.endIsUnknown() || Long.compareUnsigned(one.fullAt(), now) > 0) {
        continue;
      }
      if (countsOn(i)) {
        others.set(i, one.withoutUsage());
        continue;
      }
      full = one.isRate() ? one.withoutUsage() : full;
      others.remove(i);
    }
    // The number alone would belong to whichever of the two a call names first.
    if (full != null && loneRate() != null) {
      others.add(full);
    }
    while (others.size() + rows.stream().filter(this::stores).count() > MOST) {
      forgetOne();
    }
  }

  /** Tells whether a limit of the same kind and windows is behind: only their order tells which is which. */
  private boolean countsOn(int index) {
    String id = others.get(index).id();
    return others.subList(index + 1, others.size()).stream().anyMatch(one -> one.id().equals(id));
  }

  private void forgetOne() {
    int soonest = others.size() - 1;
    for (int i = soonest - 1; i >= 0; i--) {
      Kept one = others.get(i);
      if (!one.named() && !countsOn(i) && one.goesBefore(others.get(soonest))) {
        soonest = i;
      }
    }
    others.remove(soonest);
  }

  private boolean stores(Row row) {
    return (!addsNone || row.stored) && !row.zero;
  }

  /** Returns the only limit that is to be stored, if it is a rate; null otherwise. */
  private @Nullable Row loneRate() {
    if (!others.isEmpty() || rows.isEmpty()) {
      return null;
    }
    if (rows.size() == 1) {
      return rows.get(0).isRate() ? rows.get(0) : null;
    }
    return addsNone || rows.stream().anyMatch(row -> row.zero) ? loneRateOfStored() : null;
  }

  /**
   * Beside a rate that is left alone, stores one of the call that stands in front of it: a later call would take the
   * number for it.
   */
  private @Nullable Row loneRateOfStored() {
    List<Row> stored = rows.stream().filter(this::stores).toList();
    if (stored.size() != 1 || !stored.get(0).isRate()) {
      return null;
    }
    Row rate = stored.get(0);
    List<Row> before = rows.subList(0, rows.indexOf(rate));
    Row other = before.stream().filter(Row::isRate).reduce((first, second) -> second).orElse(null);
    if (other != null) {
      other.stored = true;
      return null;
    }
    for (Row row : addsNone ? List.<Row>of() : before) {
      if (row.zero && row.limit.kind() == Limit.Kind.RATE && !row.id.equals(rate.id)) {
        others.add(new Kept(row.id, null));
        return null;
      }
    }
    return rate;
  }

  private List<Kept> kept() {
    Row lone = loneRate();
    Usage.Stored stored = lone == null ? null : lone.usage.stored();
    if (lone != null && stored != null) {
      return List.of(new Kept(lone.id, new Usage.Stored(stored.at(), stored.more(), List.of())));
    }
    List<Kept> all = new ArrayList<>();
    rows.stream().filter(this::stores).forEach(row -> all.add(row.kept()));
    all.addAll(others);
    return List.copyOf(all);
  }
}
