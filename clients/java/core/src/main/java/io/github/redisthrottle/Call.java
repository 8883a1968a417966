package io.github.redisthrottle;

import java.time.Duration;
import java.util.EnumSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * One verb on one key or several: a value, which a {@link Decider} decides. Its methods return a changed copy.
 *
 * <pre>{@code
 * Call call = Call.limit("login:" + address, rate(10, ofMinutes(1)));
 * Result result = limiter.decide(call.ban(ofHours(1)).banAfter("20/10m"));
 * }</pre>
 *
 * <p>An option that the verb does not take is an {@link IllegalArgumentException} when the call is decided.
 */
public final class Call implements Cloneable {
  /** What a call does. */
  public enum Verb {
    /** Takes units of limits, and slots. */
    LIMIT("CL.LIMIT"),
    /** Looks without charging. */
    PEEK("CL.PEEK"),
    /** Returns units. */
    REFUND("CL.REFUND"),
    /** Takes units when they are there. */
    WAIT("CL.WAIT"),
    /** Denies a key for a time. */
    BAN("CL.BAN"),
    /** Takes a slot. */
    LEASE("CL.LEASE"),
    /** Makes a slot last longer. */
    RENEW("CL.RENEW"),
    /** Frees a slot. */
    RELEASE("CL.RELEASE"),
    /** Frees slots, and charges what was used. */
    SETTLE("CL.SETTLE"),
    /** Forgets a key. */
    RESET("DEL"),
    /** Tells the server of calls that were denied without it. */
    DENIED("CL.DENIED");

    final String command;

    Verb(String command) {
      this.command = command;
    }

    String word() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  enum Option {
    LIMITS("limits", call -> call.anyKey(key -> !key.limits().isEmpty())),
    SLOTS("slots", call -> call.anyKey(key -> key.leased() || key.slots() != 0)),
    TTL("ttl", call -> call.anyKey(key -> key.ttl() != null)),
    COST("cost", call -> call.cost != 1),
    CHARGE("charge", call -> call.charge != null),
    ANY("any", call -> call.any),
    BAN("ban", call -> call.ban != null),
    BAN_AFTER("banAfter", call -> call.banAfter != null),
    MAX_WAIT("maxWait", call -> call.maxWait != null),
    GROUP("group", call -> !call.group.isEmpty()),
    WEIGHT("weight", call -> call.weight != 1),
    PRIORITY("priority", call -> call.priority != 0),
    ID("id", call -> !call.id.isEmpty()),
    EACH("each", call -> call.each);

    private static final List<Option> ALL = List.of(values());

    final String text;

    @SuppressWarnings("ImmutableEnumChecker") // no predicate keeps anything
    final Predicate<Call> isGiven;

    Option(String text, Predicate<Call> isGiven) {
      this.text = text;
      this.isGiven = isGiven;
    }
  }

  /**
   * What each verb takes of a call and of its keys, as spec/clients/calls.json. Anything else would be dropped, and is
   * refused.
   */
  static final Map<Verb, Set<Option>> TAKES =
      Map.of(
          Verb.LIMIT, EnumSet.complementOf(EnumSet.of(Option.GROUP, Option.WEIGHT, Option.PRIORITY)),
          Verb.PEEK, EnumSet.of(Option.LIMITS, Option.COST, Option.EACH),
          Verb.REFUND, EnumSet.of(Option.LIMITS, Option.COST, Option.EACH),
          Verb.WAIT, EnumSet.of(Option.LIMITS, Option.COST, Option.MAX_WAIT, Option.GROUP, Option.WEIGHT, Option.PRIORITY, Option.EACH),
          Verb.BAN, EnumSet.of(Option.BAN),
          Verb.LEASE, EnumSet.of(Option.SLOTS, Option.TTL, Option.ID, Option.MAX_WAIT, Option.GROUP, Option.WEIGHT, Option.PRIORITY),
          Verb.RENEW, EnumSet.of(Option.TTL, Option.ID),
          Verb.RELEASE, EnumSet.of(Option.ID),
          Verb.SETTLE, EnumSet.of(Option.LIMITS, Option.SLOTS, Option.TTL, Option.ID, Option.EACH),
          Verb.DENIED, EnumSet.of(Option.COST));

  private static final Pattern DENIALS = Pattern.compile("([1-9][0-9]{0,18})/(.+)");

  private final Verb verb;
  private final boolean several;
  private List<Key> keys;
  private long cost = 1;
  private @Nullable Charge charge;
  private boolean any;
  private @Nullable Duration ban;
  private @Nullable String banAfter;
  private @Nullable Duration maxWait;
  private String group = "";
  private int weight = 1;
  private int priority;
  private String id = "";
  private boolean each;
  private boolean isChecked; // a call passes several deciders, and each of them checks it

  private Call(Verb verb, boolean several, List<Key> keys) {
    this.verb = verb;
    this.several = several;
    this.keys = keys;
  }

  static Call one(Verb verb, Key key) {
    return new Call(verb, false, List.of(key));
  }

  static Call many(Verb verb, List<Key> keys) {
    return new Call(verb, true, keys);
  }

  /** Takes units of all limits of a key, or none (CL.LIMIT). */
  public static Call limit(String key, Limit... limits) {
    return limit(key, List.of(limits));
  }

  /** Takes units of all limits of a key, or none (CL.LIMIT). */
  public static Call limit(String key, List<Limit> limits) {
    return one(Verb.LIMIT, Key.of(key, Limits.checked(limits)));
  }

  /** Takes units of the limits of several keys, all of them or none (CL.MLIMIT). */
  public static Call limitAll(Keys keys) {
    return many(Verb.LIMIT, keys.list());
  }

  /** Takes units of one key: the first, in this order, that has room (CL.MLIMIT ANY). */
  public static Call limitAny(Keys keys) {
    return many(Verb.LIMIT, keys.list()).withAny();
  }

  /** Tells what a limit would answer, and charges nothing (CL.PEEK). */
  public static Call peek(String key, Limit... limits) {
    return one(Verb.PEEK, Key.of(key, Limits.checked(List.of(limits))));
  }

  /** Returns units to all limits, never above full (CL.REFUND). */
  public static Call refund(String key, Limit... limits) {
    return one(Verb.REFUND, Key.of(key, Limits.checked(List.of(limits))));
  }

  /**
   * Takes units when they are there, in order of arrival (CL.WAIT): as long as it takes, or at most {@link #maxWait}.
   */
  public static Call waitFor(String key, Limit... limits) {
    return one(Verb.WAIT, Key.of(key, Limits.checked(List.of(limits)))).maxWait(Durations.LONGEST_WAIT);
  }

  /** Bans a key for so long; {@link Duration#ZERO} lifts the ban (CL.BAN). */
  public static Call ban(String key, Duration duration) {
    return one(Verb.BAN, Key.of(key)).ban(duration);
  }

  /** Takes one of so many slots, under an {@link #id} (CL.LEASE): at once, or in at most {@link #maxWait}. */
  public static Call lease(String key, Slots slots) {
    return one(Verb.LEASE, new Key(key, List.of(), slots.count(), slots.ttl(), true));
  }

  /** Makes the lease of an {@link #id} last for {@code ttl} from now on (CL.RENEW). */
  public static Call renew(String key, Duration ttl) {
    return one(Verb.RENEW, new Key(key, List.of(), 0, ttl, false));
  }

  /** Ends the lease of an {@link #id} (CL.RELEASE). */
  public static Call release(String key) {
    return one(Verb.RELEASE, Key.of(key));
  }

  /** Ends an admission under its {@link #id}: frees its slots, and charges what was used (CL.SETTLE). */
  public static Call settle(Keys keys) {
    return many(Verb.SETTLE, keys.list());
  }

  /** Forgets a key: its limits are full, no ban is in force, and no lease is held (DEL). */
  public static Call reset(String key) {
    return one(Verb.RESET, Key.of(key));
  }

  /**
   * Tells the server of so many calls on a key that were denied without it, so that its CL.TOP counts them (CL.DENIED).
   * {@link Cached} and {@link Batched} do so by themselves. {@link Result#granted} is how many were counted: none while
   * CL.TOP is off.
   */
  public static Call denied(String key, long count) {
    check(count > 0, "count must be 1 or more, not " + count);
    return one(Verb.DENIED, Key.of(key)).cost(count);
  }

  /** Costs so many units, by default 1. 0 looks, and is denied by a ban alone. */
  public Call cost(long units) {
    if (units < 0) {
      throw new IllegalArgumentException("cost must be 0 or more, not " + units + ": a refund gives units back");
    }
    return changed(call -> call.cost = units);
  }

  /** Says what is charged where there is less than the cost. */
  public Call charge(Charge charge) {
    return changed(call -> call.charge = Objects.requireNonNull(charge, "charge"));
  }

  /** Bans the key of a denied call for so long. */
  public Call ban(Duration duration) {
    return changed(call -> call.ban = Objects.requireNonNull(duration, "ban"));
  }

  /** Bans only with so many denied calls within a time, from the first one on: "10/1h". */
  public Call banAfter(String denials) {
    return changed(call -> call.banAfter = denials(denials));
  }

  /**
   * Waits for so long at most. A limit reserves units of rates that come within it, and the caller holds its request
   * for {@link Result#waited}. The call of a wait and a lease is answered when its turn has come.
   */
  public Call maxWait(Duration longest) {
    check(!longest.isNegative(), "maxWait: " + longest + " is negative");
    return changed(call -> call.maxWait = longest.compareTo(Durations.LONGEST_WAIT) < 0 ? longest : Durations.LONGEST_WAIT);
  }

  /** Waits in the line of a group. Groups take turns. */
  public Call group(String group) {
    return changed(call -> call.group = Key.text(group, "group"));
  }

  /** Gives the group so many turns for one of others, by default 1. */
  public Call weight(int turns) {
    return changed(call -> call.weight = turns);
  }

  /** Comes before callers with a lower priority, by default 0, from -100 to 100. */
  public Call priority(int priority) {
    return changed(call -> call.priority = priority);
  }

  /** Names the holder of slots. */
  public Call id(String id) {
    return changed(call -> call.id = Key.text(id, "id"));
  }

  /** Asks for {@link Result#each}. */
  public Call each() {
    return changed(call -> call.each = true);
  }

  /** Returns what it does. */
  public Verb verb() {
    return verb;
  }

  /** Returns the name of its first key. */
  public String key() {
    return keys.get(0).name();
  }

  /** Returns the names of its keys, in order. */
  public List<String> keyNames() {
    return keys.stream().map(Key::name).toList();
  }

  /** Returns the limits of its keys, in order; none of a key with slots. */
  public List<List<Limit>> limits() {
    return keys.stream().map(Key::limits).toList();
  }

  /** Returns how many units it costs. */
  public long cost() {
    return cost;
  }

  /** Returns how it charges; null by default. */
  public @Nullable Charge charge() {
    return charge;
  }

  /** Returns whether the server may keep the caller waiting for its answer. */
  public boolean waits() {
    return maxWait != null && (verb == Verb.WAIT || verb == Verb.LEASE);
  }

  /** Returns it in words, without the keys. */
  @Override
  public String toString() {
    return command() + " of " + (keys.size() == 1 ? "1 key" : keys.size() + " keys");
  }

  String command() {
    return verb == Verb.LIMIT && several ? "CL.MLIMIT" : verb.command;
  }

  List<Key> keys() {
    return keys;
  }

  boolean several() {
    return several;
  }

  boolean any() {
    return any;
  }

  @Nullable Duration ban() {
    return ban;
  }

  @Nullable String banAfter() {
    return banAfter;
  }

  @Nullable Duration maxWait() {
    return maxWait;
  }

  String group() {
    return group;
  }

  int weight() {
    return weight;
  }

  int priority() {
    return priority;
  }

  String id() {
    return id;
  }

  boolean hasEach() {
    return each;
  }

  /** Returns whether limits of a key have the name of a policy. It allocates nothing. */
  boolean hasPolicy() {
    return anyKey(key -> !key.policy().isEmpty());
  }

  boolean leases() {
    return anyKey(Key::leased);
  }

  private boolean anyKey(Predicate<Key> is) {
    for (int i = 0; i < keys.size(); i++) { // it allocates nothing
      if (is.test(keys.get(i))) {
        return true;
      }
    }
    return false;
  }

  /** Returns it without the wait: it is answered at once. */
  Call atOnce() {
    return changed(
        call -> {
          call.maxWait = null;
          call.group = "";
          call.weight = 1;
          call.priority = 0;
        });
  }

  Call atOnceIfItWaits() {
    return waits() ? atOnce() : this;
  }

  Call withAny() {
    return changed(call -> call.any = true);
  }

  /** Returns it with another ban, and AFTER, or none. */
  Call withBan(Duration duration, @Nullable String after) {
    return changed(
        call -> {
          call.ban = duration;
          call.banAfter = after;
        });
  }

  Call withKeys(List<Key> other) {
    return changed(call -> call.keys = List.copyOf(other));
  }

  /** Refuses what the verb does not take, and options that contradict each other. */
  Call checked() {
    if (isChecked) {
      return this;
    }
    if (keys.isEmpty()) {
      throw new IllegalArgumentException("keys: there must be at least one");
    }
    Set<Option> taken = TAKES.getOrDefault(verb, Set.of());
    for (Option option : Option.ALL) {
      if (!taken.contains(option) && option.isGiven.test(this)) {
        throw new IllegalArgumentException(verb.word() + " takes no " + option.text);
      }
    }
    check(banAfter == null || ban != null, "banAfter goes with a ban");
    check(verb != Verb.LIMIT || id.isEmpty() || leases(), "limit takes an id only if a key has slots");
    check(verb != Verb.LIMIT || !id.isEmpty() || !leases(), "keys: slots are held under an id: admit makes one");
    check(!holds() || !id.isEmpty(), () -> verb.word() + " needs an id");
    check(verb != Verb.LEASE || maxWait != null || (group.isEmpty() && priority == 0), "lease takes a group or a priority only with a maxWait");
    check(weight == 1 || !group.isEmpty(), () -> verb.word() + " takes a weight only with a group");
    check(verb == Verb.LIMIT || maxWait == null || !maxWait.isZero(), "maxWait must not be 0: leave it out for an answer at once");
    isChecked = true;
    return this;
  }

  private boolean holds() {
    return verb == Verb.LEASE || verb == Verb.RENEW || verb == Verb.RELEASE || verb == Verb.SETTLE;
  }

  private static void check(boolean holds, String otherwise) {
    check(holds, () -> otherwise);
  }

  private static void check(boolean holds, Supplier<String> otherwise) {
    if (!holds) {
      throw new IllegalArgumentException(otherwise.get());
    }
  }

  private static String denials(String text) {
    Matcher matcher = DENIALS.matcher(text);
    if (!matcher.matches()) {
      throw new IllegalArgumentException("banAfter must be a count, at least 1, and a period, such as 10/1h, not \"" + text + "\"");
    }
    long ns = Durations.nanos(Durations.parse(matcher.group(2), "banAfter: the period"), "banAfter");
    check(ns > 0, "banAfter: the period must be positive");
    return matcher.group(1) + "/" + Durations.word(ns);
  }

  private Call changed(Consumer<Call> change) {
    try {
      Call copy = (Call) clone();
      copy.isChecked = false;
      change.accept(copy);
      return copy;
    } catch (CloneNotSupportedException e) {
      throw new AssertionError(e);
    }
  }
}
