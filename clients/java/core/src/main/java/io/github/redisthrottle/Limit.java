package io.github.redisthrottle;

import java.math.BigInteger;
import java.time.DateTimeException;
import java.time.Duration;
import java.time.ZoneId;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Objects;
import java.util.function.Consumer;

/**
 * One limit: a value, defined once and given with every call.
 *
 * <pre>{@code
 * static final Limit PER_SECOND = rate(5, Duration.ofSeconds(1)).burst(10);
 * static final Limit PER_MONTH = fixed(100_000, 1, ChronoUnit.MONTHS).zone("Europe/Berlin");
 * }</pre>
 *
 * <p>Its methods return a changed copy. Two limits with the same words are equal. A limit of any kind with a count of 0
 * lets nobody through. What cannot be is an {@link IllegalArgumentException} that names the argument.
 */
public final class Limit implements Rule, Cloneable {
  /** The algorithm of a limit. */
  public enum Kind {
    /** A steady rate with bursts: a bucket that refills evenly (GCRA). */
    RATE,
    /** Never more than the count in any interval of the period. */
    WINDOW,
    /** The count in each window of the clock or the calendar. */
    FIXED
  }

  private static final long UNSET = -1;

  private final Kind kind;
  private final long count;
  private final Length period;
  private long burst = UNSET;
  private boolean first;
  private long offsetNs;
  private String zone = "";
  private long take = UNSET;
  private long used = UNSET;
  private long spare;
  private boolean shadow;
  private String name = "";
  private String unit = "";
  private String policyName = "";
  private List<String> words = List.of();
  private Id id;

  /**
   * What tells limits of a key apart.
   *
   * @param text the kind and the windows
   * @param periodNs the period; 0 of a window of the calendar, whose number only a call that names the limit can read
   */
  record Id(String text, long periodNs) {}

  private Limit(Kind kind, long count, Length period) {
    this.kind = kind;
    this.count = count;
    this.period = period;
    if (count < 0) {
      throw wrong("the count " + count + " is negative");
    }
    if (!period.isPositive()) {
      throw wrong("the period " + period.word() + " is not positive");
    }
    long shortest = period.shortestNs();
    if (shortest < 0) {
      throw wrong("the period " + period.word() + " is longer than 292 years");
    }
    if (kind == Kind.RATE && count > shortest) {
      throw wrong(count + " units in " + period.word() + " are more than 10^9 units per second");
    }
    words = spelled();
    id = identified();
  }

  /**
   * Lets {@code count} units through per period at a steady rate, in bursts of up to {@code count} units unless
   * {@link #burst} says otherwise.
   *
   * @param count 0 or more; at most 10^9 a second
   * @param period positive, at most 292 years
   */
  public static Limit rate(long count, Duration period) {
    return new Limit(Kind.RATE, count, Length.of(period));
  }

  /** Never lets more than {@code count} units through in any interval of this length, which is positive. */
  public static Limit window(long count, Duration period) {
    return new Limit(Kind.WINDOW, count, Length.of(period));
  }

  /**
   * Lets {@code count} units through in each window of this length. Windows begin at the multiples of it since 1970, so
   * a window of a day begins at midnight UTC.
   */
  public static Limit fixed(long count, Duration period) {
    return new Limit(Kind.FIXED, count, Length.of(period));
  }

  /**
   * Lets {@code count} units through in each window of the calendar: {@code fixed(1000, 1, ChronoUnit.MONTHS)}. Weeks
   * begin on Mondays.
   */
  public static Limit fixed(long count, long number, ChronoUnit unit) {
    return new Limit(Kind.FIXED, count, Length.of(number, unit));
  }

  static Limit of(Kind kind, long count, Length period) {
    return new Limit(kind, count, period);
  }

  /** Allows bursts of up to {@code capacity} units, which is at least 1, of a rate of at least 1. */
  public Limit burst(long capacity) {
    return changed(limit -> limit.burst = atLeast(1, capacity, "the burst"));
  }

  /** Begins the window of a fixed limit with the first unit taken. It goes with neither an offset nor a zone. */
  public Limit first() {
    return changed(limit -> limit.first = true);
  }

  /** Begins each window of a fixed limit by so much later: less than a window. */
  public Limit offset(Duration offset) {
    return changed(limit -> limit.offsetNs = atLeast(0, Durations.nanos(offset, "the offset"), "the offset in ns"));
  }

  /**
   * Goes by the clocks of a zone of the IANA database, such as "Europe/Berlin": for a fixed limit of whole days, weeks
   * and so on.
   */
  public Limit zone(String zone) {
    return changed(limit -> limit.zone = Objects.requireNonNull(zone, "zone"));
  }

  /** As {@link #zone(String)}. */
  public Limit zone(ZoneId zone) {
    return zone(zone.getId());
  }

  /** Takes so many units of this limit, 0 or more, in place of the cost of the call. */
  public Limit take(long units) {
    return changed(limit -> limit.take = atLeast(0, units, "take"));
  }

  /**
   * Says how many units were used in the end, for {@link Limiter#settle}. {@link #take} says how many were charged
   * before.
   */
  public Limit used(long units) {
    return changed(limit -> limit.used = atLeast(0, units, "used"));
  }

  /** Keeps a reserve for callers that matter more: a call that would leave fewer units is denied. */
  public Limit spare(long units) {
    return changed(limit -> limit.spare = atLeast(0, units, "spare"));
  }

  /** Puts the limit on trial: it is charged, but it denies no call. {@link Result#shadowed} says when it would have. */
  public Limit shadow() {
    return changed(limit -> limit.shadow = true);
  }

  /** Names the limit in the RateLimit header fields, in printable ASCII. */
  public Limit named(String name) {
    return changed(limit -> limit.name = printable(name));
  }

  /**
   * Names what is counted in the RateLimit-Policy field, such as "content-bytes". Without it the units are requests.
   */
  public Limit unit(String unit) {
    return changed(limit -> limit.unit = printable(unit));
  }

  /** Returns the algorithm. */
  public Kind kind() {
    return kind;
  }

  /** Returns how many units the limit lets through per period. */
  public long count() {
    return count;
  }

  /** Returns how many units it holds when it is full. */
  public long capacity() {
    return burst == UNSET ? count : burst;
  }

  /** Returns how long the period is; of months and years, on average. */
  public Duration period() {
    BigInteger[] parts = period.meanNs().divideAndRemainder(BigInteger.valueOf(1_000_000_000));
    return Duration.ofSeconds(parts[0].longValueExact(), parts[1].longValueExact());
  }

  /** Returns how many units it keeps in reserve. */
  public long spare() {
    return spare;
  }

  /** Returns whether it is on trial. */
  public boolean isShadow() {
    return shadow;
  }

  /** Returns its name for header fields; empty without one. */
  public String name() {
    return name;
  }

  /** Returns what is counted, for header fields; empty for requests. */
  public String unit() {
    return unit;
  }

  /** Returns the name of its policy ({@link Limits#policy(String, Limit...)}); empty without one. */
  public String policyName() {
    return policyName;
  }

  /** Returns what it limits, in words, without what one call takes of it: "RATE 10/1m BURST 20". */
  public String policy() {
    return changed(
            limit -> {
              limit.take = UNSET;
              limit.used = UNSET;
              limit.spare = 0;
              limit.shadow = false;
            })
        .toString();
  }

  /** Returns it as CL.LIMIT takes it: "RATE 5/1s BURST 10". */
  @Override
  public String toString() {
    return String.join(" ", words);
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof Limit limit && words.equals(limit.words);
  }

  @Override
  public int hashCode() {
    return words.hashCode();
  }

  List<String> words() {
    return words;
  }

  Length length() {
    return period;
  }

  /** Returns what makes limits of a key one: their kind and their windows, but no count. */
  Id id() {
    return id;
  }

  private Id identified() {
    String calendar = kind == Kind.FIXED && !first ? Windows.calendarOf(this) : "";
    if (!calendar.isEmpty()) {
      return new Id("FIXED " + calendar, 0);
    }
    long ns = period.shortestNs();
    return new Id((first ? "FIRST" : kind.name()) + " " + ns, ns);
  }

  boolean isFirst() {
    return first;
  }

  long offsetNs() {
    return offsetNs;
  }

  String zone() {
    return zone;
  }

  /** Returns whether it says itself how many units are taken, or were used. */
  boolean takesOwn() {
    return take != UNSET || used != UNSET;
  }

  /** Returns how many more units were used than taken; 0 where nothing is said. */
  long usedMore() {
    return used == UNSET ? 0 : used - Math.max(take, 0);
  }

  Limit spared(long more) {
    return changed(limit -> limit.spare += more);
  }

  /** Returns it with other numbers. A burst or a period that cannot be is an IllegalArgumentException. */
  Limit resized(long otherCount, Length otherPeriod, long otherSpare) {
    Limit other = new Limit(kind, otherCount, otherPeriod);
    other.first = first;
    other.offsetNs = offsetNs;
    other.zone = zone;
    other.take = take;
    other.used = used;
    other.shadow = shadow;
    other.name = name;
    other.unit = unit;
    other.policyName = policyName;
    return other.spare(otherSpare);
  }

  /** Returns it as one of a policy of this name, which changes nothing else. */
  Limit inPolicy(String policy) {
    return changed(limit -> limit.policyName = policy);
  }

  /**
   * Returns whether the call says something of it that no policy changes: what is taken, or used, a reserve, or a unit.
   */
  boolean hasOwn() {
    return take != UNSET || used != UNSET || spare != 0 || !unit.isEmpty();
  }

  /** Returns whether the call says the same of another one: see {@link #hasOwn}. */
  boolean hasOwnOf(Limit other) {
    return take == other.take && used == other.used && spare == other.spare && unit.equals(other.unit);
  }

  /** Returns it with what the call says of another one: see {@link #hasOwn}. */
  Limit withOwnOf(Limit other) {
    return changed(
        limit -> {
          limit.take = other.take;
          limit.used = other.used;
          limit.spare = other.spare;
          limit.unit = other.unit;
        });
  }

  /** Returns what is taken of it by a call that costs so much. */
  long takenAt(long cost) {
    return take == UNSET ? cost : take;
  }

  /** Returns it without its reserve, which a refund ignores. */
  Limit withoutSpare() {
    return spare == 0 ? this : changed(limit -> limit.spare = 0);
  }

  private Limit changed(Consumer<Limit> change) {
    Limit copy;
    try {
      copy = (Limit) clone();
    } catch (CloneNotSupportedException e) {
      throw new AssertionError(e);
    }
    change.accept(copy);
    copy.check();
    copy.words = copy.spelled();
    copy.id = copy.identified();
    return copy;
  }

  private void check() {
    if (burst != UNSET && count == 0) {
      throw wrong("a count of 0 lets nobody through, so it has no burst");
    }
    if (burst != UNSET && kind != Kind.RATE) {
      throw wrong("only a rate has a burst");
    }
    if (burst != UNSET && refillNs().bitLength() > 63) {
      throw wrong("a full bucket of " + burst + " would take more than 292 years to refill");
    }
    if (kind != Kind.FIXED && (first || offsetNs != 0 || !zone.isEmpty())) {
      throw wrong("only a fixed limit has first, an offset and a zone");
    }
    if (first && (offsetNs != 0 || !zone.isEmpty())) {
      throw wrong("first goes with neither an offset nor a zone");
    }
    if (first && !period.isEven()) {
      throw wrong("first goes with periods of one length, not with months and years");
    }
    if (offsetNs != 0 && offsetNs >= period.shortestNs()) {
      throw wrong("the offset must be shorter than the period; a month counts as 28 days, a year as 365");
    }
    if (!zone.isEmpty()) {
      checkZone();
    }
  }

  private void checkZone() {
    if (!period.isWholeDays()) {
      throw wrong("a zone goes with periods of whole days, weeks, months or years");
    }
    try {
      ZoneId.of(zone);
    } catch (DateTimeException e) {
      throw new IllegalArgumentException(
          "FIXED: the IANA database has no zone \"" + zone + "\"; its names are like Europe/Berlin", e);
    }
  }

  private BigInteger refillNs() {
    BigInteger[] parts =
        Durations.big(burst).multiply(Durations.big(period.ns())).divideAndRemainder(Durations.big(count));
    return parts[1].signum() == 0 ? parts[0] : parts[0].add(BigInteger.ONE);
  }

  private List<String> spelled() {
    List<String> spelled = new ArrayList<>(List.of(kind.name(), count + "/" + period.word()));
    add(spelled, burst != UNSET, "BURST", burst);
    if (first) {
      spelled.add("FIRST");
    }
    add(spelled, offsetNs != 0, "OFFSET", Durations.word(offsetNs));
    add(spelled, !zone.isEmpty(), "TZ", zone);
    add(spelled, take != UNSET, "TAKE", take);
    add(spelled, used != UNSET, "USED", used);
    add(spelled, spare != 0, "SPARE", spare);
    if (shadow) {
      spelled.add("SHADOW");
    }
    return List.copyOf(spelled);
  }

  private static void add(List<String> spelled, boolean there, String word, Object value) {
    if (there) {
      spelled.add(word);
      spelled.add(String.valueOf(value));
    }
  }

  private long atLeast(long least, long value, String what) {
    if (value < least) {
      throw wrong(what + ", " + value + ", must be " + least + " or more");
    }
    return value;
  }

  private String printable(String text) {
    if (!text.chars().allMatch(c -> c >= ' ' && c <= '~')) {
      throw wrong("the names and units of limits must be printable ASCII, not \"" + text + "\"");
    }
    return text;
  }

  private IllegalArgumentException wrong(String what) {
    return new IllegalArgumentException(kind.name().toUpperCase(Locale.ROOT) + ": " + what);
  }
}
