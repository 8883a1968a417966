package io.github.redisthrottle;

import java.time.Duration;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** Decides one call. Its limits are brought to now. */
final class Decision {
  private static final Set<Call.Verb> OF_LEASES = Set.of(Call.Verb.LEASE, Call.Verb.RENEW, Call.Verb.RELEASE);
  private static final Set<Call.Verb> WITHOUT_SPARE = Set.of(Call.Verb.REFUND, Call.Verb.SETTLE);

  final Call call;
  final long now;
  final List<Stack> stacks = new ArrayList<>(1); // one for each key
  final List<Row> rows = new ArrayList<>(1); // of all keys
  final List<KeySlots> slots = new ArrayList<>(0);
  private final Map<String, Held> keys;
  private final long maxWait;
  private Set<Row> limiting = Set.of();

  Decision(Call call, Map<String, Held> keys, long now) {
    this.call = call;
    this.keys = keys;
    this.now = now;
    Duration reserves = call.verb() == Call.Verb.LIMIT ? call.maxWait() : null;
    this.maxWait = reserves == null ? 0 : Durations.wholeMillis(reserves, "maxWait");
    if (call.keys().size() > 1 && new HashSet<>(call.keyNames()).size() < call.keys().size()) {
      throw new MistakeException(call.command() + ": each key can be given once", null);
    }
    List<Held> held = new ArrayList<>(1);
    for (Key key : call.keys()) {
      held.add(heldBy(key));
    }
    for (int i = 0; i < held.size(); i++) { // all keys whose time is over are gone by now, also where the call is refused
      requireKind(call.keys().get(i), held.get(i));
    }
    for (int i = 0; i < held.size(); i++) {
      ask(i, held.get(i));
    }
  }

  private boolean isLeased(Key key) {
    return key.leased() || OF_LEASES.contains(call.verb());
  }

  private Held heldBy(Key key) {
    Held held = keys.get(key.name());
    if (held == null || !held.exists(now)) {
      keys.remove(key.name()); // it is gone, also for a clock that is set back
      return new Held();
    }
    return held;
  }

  private void requireKind(Key key, Held held) {
    if (isLeased(key) ? held.isLimits() : held.isLeases()) {
      String message = call.command() + ": WRONGTYPE Operation against a key holding the wrong kind of value";
      throw new MistakeException(message, null);
    }
  }

  private void ask(int keyIndex, Held held) {
    Key key = call.keys().get(keyIndex);
    if (isLeased(key)) {
      slots.add(new KeySlots(held, keyIndex, key, call.id(), now));
    }
    List<Row> own = new ArrayList<>(key.limits().size());
    for (Limit limit : key.limits()) {
      own.add(new Row(keyIndex, own.size(), limit, WITHOUT_SPARE.contains(call.verb()) ? 0 : limit.spare()));
    }
    stacks.add(new Stack(held, own, now));
    rows.addAll(own);
  }

  /** Keeps what the keys hold now. */
  void keep() {
    for (int i = 0; i < stacks.size(); i++) {
      String name = call.keys().get(i).name();
      Held held = stacks.get(i).held;
      if (held.exists(now)) {
        keys.put(name, held);
      } else {
        keys.remove(name);
      }
    }
  }

  void store() {
    storeBut(null);
  }

  /** Stores what the call has changed, except for one key. */
  void storeBut(@Nullable Stack but) {
    for (Stack stack : stacks) {
      if (stack != but && stack.isChanged()) {
        stack.store();
      }
    }
    keep();
  }

  /** Returns the key that is banned for the longest time, the first of equal ones; null without one. */
  @Nullable Stack longestBan() {
    Stack banned = null;
    for (Stack stack : stacks) {
      if (stack.isBanned() && (banned == null || stack.held.bannedUntil() > banned.held.bannedUntil())) {
        banned = stack;
      }
    }
    return banned;
  }

  /** What becomes of a call, as far as its limits go. Lengths are ns. */
  record Said(boolean limited, Row rule, long retryNs, long granted, long waitNs, @Nullable Row shadow) {
    Said retriedAfter(long ns) {
      return new Said(limited, rule, ns, granted, waitNs, shadow);
    }
  }

  /** What an enforced limit makes a call wait. */
  record Wait(Row rule, long ns) {}

  /** Returns the longest of the waits for enforced limits, the first of equal ones. Never is the longest. */
  static Wait longest(List<Row> rows, long cost) {
    Wait longest = new Wait(rows.get(0), 0);
    for (Row row : rows) {
      long own = row.shadow ? 0 : row.waitFor(row.units(cost));
      if (own == Usage.NEVER) {
        return new Wait(row, own);
      }
      longest = own > longest.ns ? new Wait(row, own) : longest;
    }
    return longest;
  }

  /** Returns how long the call may wait: as long as it says, or less where a limit cannot be charged for so late. */
  private long longestWait(List<Row> rows) {
    long longest = maxWait;
    for (Row row : rows) {
      longest = row.shadow ? longest : row.longestWait(longest);
    }
    return longest;
  }

  /** Returns how long the call would wait if no other limit were asked. */
  private long waitAlone(Row row) {
    return row.waitFor(call.charge() == Charge.UP_TO ? 1 : row.units(call.cost()));
  }

  /** Returns the time until a limit alone lets the call through: 0 if it does now, or never. */
  private long retryAlone(Row row) {
    return Waits.beyond(waitAlone(row), row.longestWait(maxWait));
  }

  /** Returns what the call takes. */
  private long takes(List<Row> rows) {
    long takes = call.cost();
    if (call.charge() != Charge.UP_TO) {
      return takes;
    }
    for (Row row : rows) {
      takes = row.shadow ? takes : Math.min(takes, row.left());
    }
    return Math.max(takes, Math.min(call.cost(), 1));
  }

  /** Returns what the call needs to pass: with UPTO one unit, also of a call for nothing. */
  private long needs(long takes) {
    return call.charge() == Charge.UP_TO ? Math.max(takes, 1) : takes;
  }

  /** Whether a call is limited, and how long it waits, or until it is to be tried again. */
  record Outlook(boolean limited, long ns) {}

  Outlook outlook(List<Row> rows) {
    long wait = longest(rows, needs(takes(rows))).ns;
    long late = Waits.beyond(wait, longestWait(rows));
    return late == 0 ? new Outlook(false, wait) : new Outlook(true, late);
  }

  long retryAfter(List<Row> rows) {
    Outlook outlook = outlook(rows);
    return outlook.limited ? outlook.ns : 0;
  }

  @Nullable Row firstShadow(List<Row> rows) {
    for (Row row : rows) {
      if (row.shadow && retryAlone(row) != 0) {
        return row;
      }
    }
    return null;
  }

  /** Finds out which limits alone would not let the call through. It comes before any is charged. */
  void judge() {
    if (call.hasEach()) {
      limiting = new HashSet<>(rows);
      limiting.removeIf(row -> retryAlone(row) == 0);
    }
  }

  /** Charges the limits, or none. */
  Said take(List<Row> rows) {
    long takes = takes(rows);
    Wait wait = longest(rows, needs(takes));
    if (Waits.beyond(wait.ns, longestWait(rows)) == 0) {
      return charge(rows, takes, wait.ns);
    }
    return call.charge() == Charge.FORCE ? force(rows) : deny(rows, longestWait(rows));
  }

  private Said charge(List<Row> rows, long takes, long wait) {
    Row shadow = firstShadow(rows);
    for (Row row : rows) {
      if (row.shadow) {
        chargeShadow(row, row.units(takes), wait);
      } else if (row.units(takes) > 0) {
        row.usage.charge(row.units(takes), wait);
        row.changed = true;
      }
    }
    Row rule = tightest(rows, shadow);
    return new Said(false, rule, 0, rule.shadow ? rule.charged : rule.units(takes), wait, shadow);
  }

  /** Takes units of a limit on trial, of a call that is let through, as if the limit were enforced. */
  private void chargeShadow(Row row, long units, long wait) {
    if (units == 0) {
      return;
    }
    long alone = waitAlone(row);
    if (Waits.beyond(alone, row.longestWait(maxWait)) == 0) {
      row.charged = call.charge() == Charge.UP_TO ? Math.min(row.left(), units) : units;
      if (row.charged > 0) {
        row.usage.charge(row.charged, row.longestWait(Math.max(alone, wait)));
      }
    } else if (call.charge() == Charge.FORCE) {
      row.charged = row.usage.force(units);
    } else {
      row.charged = call.charge() == Charge.STRICT ? row.usage.chargeDenied(units, row.spare) : 0;
      row.changed = row.usage.corrected();
    }
    row.changed |= row.charged > 0;
  }

  private Said force(List<Row> rows) {
    Row shadow = firstShadow(rows);
    for (Row row : rows) {
      long units = row.units(call.cost());
      row.charged = units > 0 ? row.usage.force(units) : 0;
      row.changed = row.charged > 0;
    }
    Wait wait = longest(rows, call.cost());
    return new Said(true, wait.rule, wait.ns, wait.rule.charged, 0, shadow);
  }

  /** Denies the call, which waits for so long at most. With STRICT it is charged all the same. */
  Said deny(List<Row> rows, long longestWait) {
    Row shadow = firstShadow(rows);
    long needs = needs(takes(rows));
    if (rows.stream().anyMatch(row -> row.units(call.cost()) > 0)) {
      for (Row row : rows) {
        boolean strict = call.charge() == Charge.STRICT;
        long charged = strict ? row.usage.chargeDenied(row.units(call.cost()), row.spare) : 0;
        row.changed = charged > 0 || row.usage.corrected();
      }
    }
    Wait wait = longest(rows, needs);
    return new Said(true, wait.rule, wait.ns > longestWait ? wait.ns - longestWait : wait.ns, 0, 0, shadow);
  }

  /**
   * Returns the limit with the fewest units left. Where all are shadows, it is the one that would have denied, if
   * there is one.
   */
  static Row tightest(List<Row> rows, @Nullable Row shadow) {
    List<Row> enforced = rows.stream().filter(row -> !row.shadow).toList();
    if (enforced.isEmpty() && shadow != null) {
      return shadow;
    }
    List<Row> asked = enforced.isEmpty() ? rows : enforced;
    Row tight = asked.get(0);
    for (Row row : asked) {
      tight = row.left() < tight.left() ? row : tight;
    }
    return tight;
  }

  State.Draft describe(Said said) {
    State.Draft draft = placed(said.rule.keyIndex, said.rule.rule, said.rule.standing());
    draft.limited = said.limited;
    draft.retryAfterMs = said.limited ? Waits.retryMs(said.retryNs) : 0;
    draft.granted = said.granted;
    draft.waitMs = Waits.ms(said.waitNs);
    return finish(draft, said.shadow);
  }

  State.Draft describeSlots(KeySlots slots, @Nullable Row shadow) {
    Usage.Standing standing = new Usage.Standing(slots.slots, slots.remaining, slots.allNs(), slots.nextNs());
    State.Draft draft = placed(slots.keyIndex, 0, standing);
    draft.limited = slots.limited;
    draft.retryAfterMs = slots.limited ? Waits.retryMs(slots.retryNs) : 0;
    draft.granted = slots.limited ? 0 : 1;
    return finish(draft, shadow);
  }

  /** A caller that came back when only the ban is over would be limited again, and perhaps banned anew. */
  State.Draft describeBan(Stack stack, long limitsNs, long granted) {
    long rest = stack.held.bannedUntil() - now;
    long capacity = stack.rows.isEmpty() ? 0 : stack.rows.get(0).usage.capacity();
    State.Draft draft = placed(stacks.indexOf(stack), 0, new Usage.Standing(capacity, 0, rest, rest));
    draft.limited = draft.banned = true;
    draft.retryAfterMs = Waits.retryMs(Waits.longer(rest, limitsNs));
    draft.granted = granted;
    return finish(draft, null);
  }

  private State.Draft finish(State.Draft draft, @Nullable Row shadow) {
    if (shadow != null) {
      draft.shadow = new Result.Place(call.keys().get(shadow.keyIndex).name(), shadow.keyIndex, shadow.rule);
    }
    if (call.hasEach()) {
      each(draft, slots.stream().map(one -> each(one, draft.limited)).toList());
    }
    return draft;
  }

  /** Says what each limit says by itself, and each group of slots. */
  void each(State.Draft draft, List<Result> ofSlots) {
    List<Result> each = new ArrayList<>(ofSlots);
    for (Row row : rows) {
      each.add(one(row.keyIndex, row.rule, row.standing(), limiting.contains(row), retryAlone(row)));
    }
    each.sort((a, b) -> a.keyIndex() != b.keyIndex() ? a.keyIndex() - b.keyIndex() : a.rule() - b.rule());
    draft.each = List.copyOf(each);
  }

  private Result each(KeySlots slots, boolean denied) {
    long available = denied ? slots.free() : slots.remaining;
    Usage.Standing standing = new Usage.Standing(slots.slots, available, slots.allNs(), 0);
    return one(slots.keyIndex, 0, standing, slots.limited, slots.retryNs);
  }

  /** Returns one of each. A limit that denied the call, and would let it through now that it was charged, can never. */
  Result one(int keyIndex, int rule, Usage.Standing standing, boolean limited, long retryNs) {
    State.Draft one = placed(keyIndex, rule, standing);
    one.nextAfterMs = 0;
    one.limited = limited;
    one.retryAfterMs = limited ? Waits.retryMs(retryNs == 0 ? Usage.NEVER : retryNs) : 0;
    return one.done();
  }

  State.Draft placed(int keyIndex, int rule, Usage.Standing standing) {
    State.Draft draft = State.of(call.keys().get(keyIndex).name());
    draft.keyIndex = keyIndex;
    draft.rule = rule;
    draft.limit = standing.capacity();
    draft.remaining = standing.available();
    draft.resetAfterMs = Waits.ms(standing.resetNs());
    draft.nextAfterMs = Waits.ms(standing.nextNs());
    return draft;
  }
}
