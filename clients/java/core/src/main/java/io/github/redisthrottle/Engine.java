package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;

/**
 * Decides calls in this process by the rules of the server: in an outage, and for tests. The transcripts of spec/ hold it to them. Nobody waits
 * here: a call that would is denied. Instants are ns since 1970. It is not safe for use by several threads.
 */
final class Engine {
  private static final long NEVER = Usage.NEVER;
  private static final int MOST = 8; // limits of a key whose usage is kept

  private final Map<String, Kept> keys;

  /** What is kept of a key. */
  static final class Kept {
    final Map<String, Usage> usages = new HashMap<>();
    final Map<String, Long> leases = new HashMap<>(); // until when, by id
    long bannedUntil;
  }

  /** What a call asks of one key by one of its rules, and how long it would have to wait for it. */
  private abstract static sealed class Asked {
    final int keyIndex;
    final int rule;
    long wait;

    Asked(int keyIndex, int rule) {
      this.keyIndex = keyIndex;
      this.rule = rule;
    }

    abstract Usage.Standing standing(long now);
  }

  /** Units of a limit. */
  private static final class Units extends Asked {
    final long units;
    final long spare;
    final boolean shadow;
    final String name; // in Kept.usages
    final Usage usage;
    long charged;

    Units(int keyIndex, int rule, long units, long spare, String name, Usage usage) {
      super(keyIndex, rule);
      this.units = units;
      this.spare = spare;
      this.shadow = usage.limit.isShadow();
      this.name = name;
      this.usage = usage;
    }

    /** Returns the time until there are units and, unless they are 0, those to spare. */
    long waitFor(long units, long now) {
      return units == 0 ? 0 : usage.retryAfter(now, Saturated.plus(units, spare));
    }

    /** Returns by how much its wait is longer than a caller who accepts {@code maxWait} may wait for this limit. */
    long late(long maxWait) {
      return Engine.late(wait, Math.min(maxWait, usage.longestWait()));
    }

    long left(long now) {
      return Math.max(usage.available(now) - spare, 0);
    }

    @Override
    Usage.Standing standing(long now) {
      Usage.Standing all = usage.standing(now);
      return new Usage.Standing(all.capacity(), Math.max(all.available() - spare, 0), all.resetNs(), all.nextNs());
    }
  }

  /** A slot of a key. */
  private static final class Slot extends Asked {
    final Key key;
    final Kept kept;
    final String id;
    final long slots;
    private final long now;

    Slot(Key key, int keyIndex, Kept kept, Call call, long now) {
      super(keyIndex, 0);
      this.key = key;
      this.kept = kept;
      this.id = call.id();
      this.now = now;
      this.slots = call.verb() == Call.Verb.RENEW ? kept.leases.size() : key.slots();
      this.wait = slots == 0 ? NEVER : held() || kept.leases.size() < slots ? 0 : standing(now).nextNs();
    }

    boolean held() {
      return kept.leases.containsKey(id);
    }

    void take() {
      kept.leases.put(id, Saturated.plus(now, Durations.wholeMillis(key.ttl(), "ttl")));
    }

    @Override
    Usage.Standing standing(long at) {
      long[] lapses = kept.leases.values().stream().mapToLong(until -> until - now).sorted().toArray();
      long last = lapses.length == 0 ? 0 : lapses[lapses.length - 1];
      return new Usage.Standing(slots, Math.max(slots - lapses.length, 0), last, lapses.length == 0 ? 0 : lapses[0]);
    }
  }

  Engine(Map<String, Kept> keys) {
    this.keys = keys;
  }

  /** Decides a call at an instant. */
  Result decide(Call call, long now) {
    State.Draft draft = State.of(call.key());
    switch (call.verb()) {
      case LIMIT, WAIT -> draft = call.any() ? any(call, now) : take(call, all(call), now);
      case PEEK -> draft = peek(call, now);
      case REFUND -> draft = refund(call, now);
      case SETTLE -> draft = settle(call, now);
      case BAN -> draft.lastsMs = ban(call.key(), Durations.wholeMillis(call.ban(), "ban"), now);
      case RESET -> draft.granted = isThere(call.key(), now) ? -1 : 0;
      case LEASE, RENEW, RELEASE -> lease(draft, call, now);
    }
    if (call.verb() == Call.Verb.RESET) {
      keys.remove(call.key());
    }
    return draft.done();
  }

  private static List<Integer> all(Call call) {
    if (call.keyNames().stream().distinct().count() < call.keys().size()) {
      throw new MistakeException(call.command() + ": each key can be given once", null);
    }
    return java.util.stream.IntStream.range(0, call.keys().size()).boxed().toList();
  }

  private boolean isThere(String name, long now) {
    Kept kept = keys.get(name);
    if (kept == null) {
      return false;
    }
    kept.leases.values().removeIf(until -> until <= now);
    clean(name, kept, now, Set.of());
    return keys.containsKey(name);
  }

  private Kept kept(String name, long now) {
    Kept kept = keys.getOrDefault(name, new Kept());
    kept.leases.values().removeIf(until -> until <= now);
    return kept;
  }

  /** Stores what a key holds, without what is over. Limits that the call names stay. */
  private void clean(String name, Kept kept, long now, Set<String> named) {
    kept.usages.values().removeIf(usage -> usage.fullAt() <= now);
    while (kept.usages.size() > MOST) {
      String soonest =
          kept.usages.keySet().stream()
              .filter(id -> !named.contains(id))
              .min(Comparator.comparingLong((String id) -> kept.usages.get(id).fullAt()).thenComparing(Comparator.naturalOrder()))
              .orElse(null);
      if (soonest == null) {
        break;
      }
      // Of limits of the same kind and period, the last one goes first.
      String same = soonest.substring(0, soonest.lastIndexOf(' ') + 1);
      kept.usages.remove(kept.usages.keySet().stream().filter(id -> id.startsWith(same) && !named.contains(id)).max(Comparator.naturalOrder()).orElse(soonest));
    }
    if (kept.usages.isEmpty() && kept.leases.isEmpty() && kept.bannedUntil <= now) {
      keys.remove(name);
    } else {
      keys.put(name, kept);
    }
  }

  private long ban(String name, long ns, long now) {
    Kept kept = kept(name, now);
    kept.bannedUntil = ns == 0 ? 0 : Math.max(kept.bannedUntil, Saturated.plus(now, ns));
    clean(name, kept, now, Set.of());
    return ms(Math.max(kept.bannedUntil - now, 0));
  }

  /** Returns the limits of keys with copies of what is used of them, brought to now. */
  private static List<Units> unitsOf(Call call, Map<Integer, Kept> kept, long now) {
    List<Units> all = new ArrayList<>();
    kept.forEach(
        (keyIndex, each) -> {
          List<Limit> limits = call.keys().get(keyIndex).limits();
          if (call.verb() != Call.Verb.PEEK) { // what a clock left behind that was set back is corrected for good, also by a denied call
            each.usages.values().forEach(usage -> usage.bringTo(now));
          }
          Map<String, Integer> seen = new HashMap<>();
          // A lone rate is a number, which any other rate reads, unless the call names the one that it is.
          String lone = each.usages.size() == 1 ? each.usages.keySet().iterator().next() : "";
          boolean free = lone.startsWith("RATE ") && limits.stream().noneMatch(limit -> lone.equals(limit.identity() + " 0"));
          for (int rule = 0; rule < limits.size(); rule++) {
            Limit limit = limits.get(rule);
            String name = limit.identity() + " " + (seen.merge(limit.identity(), 1, Integer::sum) - 1);
            Usage there = each.usages.get(name);
            if (free && limit.kind() == Limit.Kind.RATE) {
              there = each.usages.get(lone);
              free = false;
            }
            Usage usage = limit.count() == 0 || there == null ? Usage.none(limit) : there.copy();
            usage.limit = limit;
            usage.bringTo(now);
            long spare = call.verb() == Call.Verb.REFUND ? 0 : limit.spare();
            all.add(new Units(keyIndex, rule, limit.takenAt(call.cost()), spare, name, usage));
          }
        });
    return all;
  }

  /** Keeps what was used. With {@code addsNone} a limit that was not charged is not kept anew. */
  private void store(Call call, List<Units> units, Map<Integer, Kept> kept, long now, boolean addsNone) {
    kept.forEach(
        (keyIndex, each) -> {
          List<Units> mine = units.stream().filter(one -> one.keyIndex == keyIndex && !(one.usage instanceof Usage.Zero)).toList();
          Set<String> named = new HashSet<>();
          mine.forEach(one -> named.add(one.name));
          String lone = each.usages.size() == 1 ? each.usages.keySet().iterator().next() : "";
          if (lone.startsWith("RATE ") && !named.contains(lone) && mine.stream().anyMatch(one -> one.usage instanceof Usage.Rate)) {
            Usage moved = each.usages.remove(lone); // another rate has read it, and is it from now on
            mine.stream().filter(one -> one.usage instanceof Usage.Rate).findFirst().ifPresent(one -> each.usages.put(one.name, moved));
          }
          for (Units one : mine) {
            if (!addsNone || one.charged > 0 || each.usages.containsKey(one.name)) {
              each.usages.put(one.name, one.usage);
            }
          }
          if (call.banAfter() != null) {
            named.add(denialsName(call));
          }
          clean(call.keys().get(keyIndex).name(), each, now, named);
        });
  }

  private State.Draft any(Call call, long now) {
    all(call); // which refuses a key that is named twice
    int index = best(call, now).index;
    State.Draft draft = take(call, List.of(index), now);
    if (draft.limited) {
      draft.retryAfterMs = afterMs(best(call, now).retry);
    }
    if (call.hasEach()) {
      List<Result> each = new ArrayList<>();
      for (int i = 0; i < call.keys().size(); i++) {
        if (i == index) {
          each.addAll(draft.each);
          continue;
        }
        List<Units> units = unitsOf(call, Map.of(i, kept(call.keys().get(i).name(), now)), now);
        units.forEach(one -> one.wait = one.waitFor(one.units, now));
        each.addAll(each(call, units, List.of(), one -> one.wait != 0, now));
      }
      draft.each = List.copyOf(each);
    }
    return draft;
  }

  /** A key of a call for any of several: how long a caller would wait for it, and when to come back. */
  private record Candidate(int index, boolean limited, long after, long retry) {
    Candidate or(Candidate next) {
      if (limited != next.limited) {
        return limited ? next : this;
      }
      return next.after < after ? next : this;
    }
  }

  /** Returns the first key that has room; if there is none, the one with the shortest wait, or else the one to come back to soonest. */
  private Candidate best(Call call, long now) {
    Candidate best = null;
    for (int index = 0; index < call.keys().size(); index++) {
      Kept kept = kept(call.keys().get(index).name(), now);
      long wait = 0;
      List<Units> units = unitsOf(call, Map.of(index, kept), now);
      for (Units one : units) {
        long needed = call.charge() == Charge.UP_TO ? Math.min(one.units, 1) : one.units;
        wait = one.shadow ? wait : Math.max(wait, one.waitFor(needed, now));
      }
      long banned = kept.bannedUntil - now;
      long late = late(wait, longestWait(call, units));
      Candidate next =
          banned > 0
              ? new Candidate(index, true, Math.max(banned, late), Math.max(banned, late))
              : new Candidate(index, late != 0, wait, late);
      best = best == null ? next : best.or(next);
    }
    return best;
  }

  private State.Draft take(Call call, List<Integer> indexes, long now) {
    Map<Integer, Kept> kept = new TreeMap<>();
    List<Slot> slots = new ArrayList<>();
    for (int i : indexes) {
      Key key = call.keys().get(i);
      if (key.leased()) {
        slots.add(new Slot(key, i, kept(key.name(), now), call, now));
      } else {
        kept.put(i, kept(key.name(), now));
      }
    }
    List<Units> units = unitsOf(call, kept, now);
    if (!slots.isEmpty() && slots.stream().allMatch(Slot::held)) {
      return again(call, units, slots, now);
    }

    // What the call needs, and how long it would wait for it.
    long maxWait = maxWait(call);
    long longestWait = longestWait(call, units);
    long grants = call.charge() == Charge.UP_TO ? grantable(units, call, now) : -1;
    for (Units one : units) {
      long asked = asked(one, grants);
      one.wait = one.waitFor(grants < 0 ? asked : Math.max(asked, 1), now);
    }
    Map<Units, Boolean> limited = new HashMap<>();
    units.forEach(one -> limited.put(one, one.shadow ? one.late(maxWait) != 0 : one.wait != 0));
    Units shadow = units.stream().filter(one -> one.shadow && limited.get(one)).findFirst().orElse(null);
    Asked slowest = slowest(units, slots);
    long wait = slowest == null ? 0 : slowest.wait;
    Map.Entry<Integer, Kept> banned = null; // the longest ban counts, of equal ones the first
    for (Map.Entry<Integer, Kept> each : kept.entrySet()) {
      long until = each.getValue().bannedUntil;
      banned = until > now && (banned == null || until > banned.getValue().bannedUntil) ? each : banned;
    }
    boolean allowed = banned == null && late(wait, longestWait) == 0;

    State.Draft draft = State.of(call.key());
    if (allowed) {
      for (Units one : units) {
        charge(one, call, asked(one, grants), wait, maxWait, now);
      }
      slots.forEach(Slot::take);
      Asked rule = tightest(units, slots, shadow, now);
      describe(draft, call, rule, now);
      draft.waitMs = ms(wait);
      draft.granted = rule instanceof Units one ? (one.usage instanceof Usage.Zero ? 0 : one.shadow ? one.charged : asked(one, grants)) : 1;
    } else {
      deny(draft, call, units, slots, kept, banned, slowest, now);
    }
    if (shadow != null) {
      draft.shadow = new Result.Place(call.keys().get(shadow.keyIndex).name(), shadow.keyIndex, shadow.rule);
    }
    boolean chargesDenied = !allowed && (call.charge() == Charge.FORCE || call.charge() == Charge.STRICT);
    if (call.hasEach()) {
      for (Units one : units) {
        one.wait = chargesDenied ? one.waitFor(one.units, now) : one.wait;
        one.wait = one.late(maxWait);
      }
      draft.each = each(call, units, slots, one -> one instanceof Units limit ? limited.get(limit) && (!allowed || limit.shadow) : one.wait != 0 && !allowed, now);
    }
    if (allowed || chargesDenied || call.ban() != null) {
      store(call, units, kept, now, false);
    }
    if (allowed) {
      slots.forEach(slot -> clean(slot.key.name(), slot.kept, now, Set.of()));
    }
    return draft;
  }

  private static void charge(Units one, Call call, long asked, long wait, long maxWait, long now) {
    if (!one.shadow || one.late(maxWait) == 0) {
      long after = one.shadow ? Math.min(Math.max(wait, one.wait), one.usage.longestWait()) : wait;
      one.charged = asked;
      if (asked > 0) {
        one.usage.charge(now, one.shadow ? Math.min(asked, Math.max(one.left(now), after > 0 ? asked : 0)) : asked, after);
      }
    } else if (call.charge() == Charge.FORCE) {
      one.charged = one.usage.force(now, one.units);
    } else if (call.charge() == Charge.STRICT) {
      one.usage.chargeDenied(now, one.units, one.spare);
    }
  }

  private void deny(
      State.Draft draft, Call call, List<Units> units, List<Slot> slots, Map<Integer, Kept> kept, Map.Entry<Integer, Kept> banned, Asked slowest, long now) {
    Asked rule = slowest != null ? slowest : units.isEmpty() ? slots.get(0) : units.get(0);
    long wait = slowest == null ? 0 : slowest.wait;
    long longestWait = longestWait(call, units);
    draft.limited = true;
    boolean forces = call.charge() == Charge.FORCE;
    if (forces || call.charge() == Charge.STRICT) {
      boolean asks = units.stream().anyMatch(one -> one.units > 0);
      for (Units one : asks ? units : List.<Units>of()) {
        if (forces) {
          one.charged = one.units > 0 ? one.usage.force(now, one.units) : 0;
        } else {
          one.usage.chargeDenied(now, one.units, one.spare);
        }
      }
      Map<Units, Long> before = new HashMap<>();
      for (Units one : units) {
        before.put(one, one.wait);
        one.wait = one.waitFor(one.units, now);
      }
      Asked after = slowest(units, slots);
      wait = after == null ? 0 : after.wait;
      rule = after == null ? rule : after;
      before.forEach((one, was) -> one.wait = was);
      draft.granted = rule instanceof Units one ? one.charged : 0;
    }
    long retry = wait != NEVER && wait > longestWait ? wait - longestWait : wait != NEVER && banned != null ? 0 : wait;
    int of = banned == null ? rule.keyIndex : banned.getKey();
    long banNs = banned == null ? 0 : banned.getValue().bannedUntil - now;
    Kept mine = kept.get(of);
    if (call.ban() != null && mine != null && retry != NEVER && (banned == null || call.charge() == Charge.STRICT)) {
      long ns = Durations.wholeMillis(call.ban(), "ban");
      if (ns > 0 && (call.banAfter() == null || banned != null || isLastDenial(mine, call, now))) {
        mine.bannedUntil = Math.max(mine.bannedUntil, Saturated.plus(now, ns));
        banNs = mine.bannedUntil - now;
      }
    }
    draft.retryAfterMs = afterMs(Math.max(retry, banNs));
    if (banned == null) {
      describe(draft, call, rule, now);
      return;
    }
    Units first = units.stream().filter(one -> one.keyIndex == of).findFirst().orElse(null);
    draft.banned = true;
    draft.key = call.keys().get(of).name();
    draft.keyIndex = of;
    draft.limit = first == null ? 0 : first.usage.limit.capacity();
    draft.resetAfterMs = draft.nextAfterMs = ms(banNs);
    draft.granted = forces && first != null ? first.charged : draft.granted;
  }

  /** A call whose id holds all its slots is a retry: it renews them and is charged nothing. */
  private State.Draft again(Call call, List<Units> units, List<Slot> slots, long now) {
    for (Slot slot : slots) {
      slot.take();
      clean(slot.key.name(), slot.kept, now, Set.of());
    }
    State.Draft draft = State.of(call.key());
    Asked rule = tightest(units, slots, null, now);
    draft.granted = rule instanceof Units one ? one.units : 1;
    describe(draft, call, rule, now);
    if (call.hasEach()) {
      draft.each = each(call, units, slots, one -> false, now);
    }
    return draft;
  }

  private State.Draft peek(Call call, long now) {
    Kept kept = kept(call.key(), now);
    List<Units> units = unitsOf(call, Map.of(0, kept), now);
    units.forEach(one -> one.wait = one.waitFor(one.units, now));
    Asked slowest = slowest(units, List.of());
    long wait = slowest == null ? 0 : slowest.wait;
    Units shadow = units.stream().filter(one -> one.shadow && one.wait != 0).findFirst().orElse(null);
    long banNs = kept.bannedUntil - now;
    State.Draft draft = State.of(call.key());
    if (banNs > 0) {
      draft.limited = draft.banned = true;
      draft.limit = units.isEmpty() ? 0 : units.get(0).usage.limit.capacity();
      draft.retryAfterMs = afterMs(Math.max(banNs, wait));
      draft.resetAfterMs = draft.nextAfterMs = ms(banNs);
    } else {
      draft.limited = wait != 0;
      draft.retryAfterMs = afterMs(wait);
      describe(draft, call, draft.limited ? slowest : tightest(units, List.of(), shadow, now), now);
    }
    if (shadow != null) {
      draft.shadow = new Result.Place(call.key(), 0, shadow.rule);
    }
    if (call.hasEach()) {
      draft.each = each(call, units, List.of(), one -> one.wait != 0, now);
    }
    return draft;
  }

  private State.Draft refund(Call call, long now) {
    Map<Integer, Kept> kept = Map.of(0, kept(call.key(), now));
    List<Units> units = unitsOf(call, kept, now);
    Map<Asked, Long> returned = new HashMap<>();
    units.forEach(one -> returned.put(one, one.usage.refund(now, one.units)));
    Asked rule = tightest(units, List.of(), null, now);
    State.Draft draft = State.of(call.key());
    draft.granted = -returned.get(rule);
    describe(draft, call, rule, now);
    if (call.hasEach()) {
      draft.each = each(call, units, List.of(), one -> false, now);
    }
    store(call, units, kept, now, true);
    return draft;
  }

  private State.Draft settle(Call call, long now) {
    all(call);
    Map<Integer, Kept> kept = new TreeMap<>();
    Map<Integer, Kept> leased = new TreeMap<>();
    for (int i = 0; i < call.keys().size(); i++) {
      Key key = call.keys().get(i);
      (key.leased() ? leased : kept).put(i, kept(key.name(), now));
    }
    Map<Integer, Boolean> held = new HashMap<>();
    leased.forEach((i, each) -> held.put(i, each.leases.containsKey(call.id())));
    boolean settled = held.values().stream().allMatch(there -> there);
    State.Draft draft = State.of(call.key());
    if (settled) {
      leased.forEach(
          (i, each) -> {
            each.leases.remove(call.id());
            clean(call.keys().get(i).name(), each, now, Set.of());
          });
    } else {
      draft.limited = true;
      draft.retryAfterMs = -1;
    }
    List<Units> units = unitsOf(call, kept, now);
    for (Units one : settled ? units : List.<Units>of()) {
      long more = one.usage.limit.usedMore();
      one.charged = more > 0 ? one.usage.force(now, more) : more < 0 ? -one.usage.refund(now, -more) : 0;
    }
    if (!units.isEmpty()) {
      Asked rule = tightest(units, List.of(), null, now);
      draft.granted = rule instanceof Units one ? one.charged : 0;
      describe(draft, call, rule, now);
    }
    if (call.hasEach()) {
      Map<Integer, List<Result>> each = new TreeMap<>();
      each(call, units, List.of(), one -> false, now).forEach(one -> each.computeIfAbsent(one.keyIndex(), i -> new ArrayList<>()).add(one));
      leased.forEach((i, slots) -> each.put(i, List.of(settledSlots(call, i, slots, held.get(i), now))));
      draft.each = each.values().stream().flatMap(List::stream).toList();
    }
    store(call, units, kept, now, true);
    return draft;
  }

  /** Of slots a settlement says whether the lease was there, and when the last one lapses. */
  private static Result settledSlots(Call call, int keyIndex, Kept kept, boolean held, long now) {
    State.Draft draft = State.of(call.keys().get(keyIndex).name());
    draft.keyIndex = keyIndex;
    draft.limit = draft.remaining = -1;
    draft.limited = !held;
    draft.retryAfterMs = held ? 0 : -1;
    draft.resetAfterMs = ms(kept.leases.values().stream().mapToLong(until -> until - now).max().orElse(0));
    return draft.done();
  }

  private void lease(State.Draft draft, Call call, long now) {
    Kept kept = kept(call.key(), now);
    if (call.verb() == Call.Verb.RELEASE) {
      draft.granted = kept.leases.remove(call.id()) == null ? 0 : -1;
      clean(call.key(), kept, now, Set.of());
      return;
    }
    Slot slot = new Slot(call.keys().get(0), 0, kept, call, now);
    if (call.verb() == Call.Verb.RENEW && !slot.held()) {
      draft.limited = true;
      draft.retryAfterMs = -1;
    } else if (slot.held() || slot.wait == 0) {
      slot.take();
      clean(call.key(), kept, now, Set.of());
      draft.limit = slot.slots;
      draft.remaining = slot.standing(now).available();
      draft.lastsMs = ms(Durations.wholeMillis(slot.key.ttl(), "ttl"));
    } else {
      draft.limited = true;
      draft.limit = slot.slots;
      draft.retryAfterMs = afterMs(slot.wait);
    }
  }

  /** Counts a denied call, and tells whether it was the last of those that a ban takes. Then the count is gone. */
  private static boolean isLastDenial(Kept kept, Call call, long now) {
    Limit limit = denials(call);
    Usage usage = kept.usages.computeIfAbsent(denialsName(call), name -> Usage.none(limit));
    usage.limit = limit;
    usage.bringTo(now);
    usage.force(now, 1);
    return usage.available(now) == 0 && kept.usages.remove(denialsName(call)) != null;
  }

  private static Limit denials(Call call) {
    String[] parts = call.banAfter().split("/", 2);
    return Limit.fixed(Long.parseLong(parts[0]), Durations.parse(parts[1], "banAfter")).first();
  }

  private static String denialsName(Call call) {
    return "AFTER " + call.banAfter().split("/", 2)[1] + " 0";
  }

  private static long maxWait(Call call) {
    return call.verb() == Call.Verb.LIMIT && call.maxWait() != null ? Durations.wholeMillis(call.maxWait(), "maxWait") : 0;
  }

  /** Returns how long a call may wait: as long as it says, or less where a limit cannot be charged for so late. */
  private static long longestWait(Call call, List<Units> units) {
    long longest = maxWait(call);
    for (Units one : units) {
      longest = one.shadow ? longest : Math.min(longest, one.usage.longestWait());
    }
    return longest;
  }

  /** Returns by how much a wait is longer than the longest that the caller accepts. */
  private static long late(long wait, long maxWait) {
    return wait == NEVER ? NEVER : Math.max(wait - maxWait, 0);
  }

  /** Returns what has the longest wait, the first of them; null where there are shadows alone. */
  private static Asked slowest(List<Units> units, List<Slot> slots) {
    Asked slowest = null;
    List<Asked> all = new ArrayList<>(units);
    all.addAll(slots);
    for (Asked one : all) {
      if (!(one instanceof Units limit && limit.shadow) && (slowest == null || one.wait > slowest.wait)) {
        slowest = one;
      }
    }
    return slowest;
  }

  /** Returns how much of its cost every limit has, but at least one unit of a cost that is not 0. */
  private static long grantable(List<Units> units, Call call, long now) {
    long least = call.cost();
    for (Units one : units) {
      least = one.shadow ? least : Math.min(least, one.left(now));
    }
    return Math.max(least, Math.min(call.cost(), 1));
  }

  /** Returns what is taken of a limit. A call that takes up to its cost takes {@code grants}; those of others are negative. */
  private static long asked(Units one, long grants) {
    return grants < 0 || one.usage.limit.hasTake() ? one.units : grants;
  }

  /** Returns the limit with the fewest units left. Where all are shadows, it is the one that would have denied. */
  private static Asked tightest(List<Units> units, List<Slot> slots, Units shadow, long now) {
    List<Units> enforced = units.stream().filter(one -> !one.shadow).toList();
    boolean shadows = enforced.isEmpty() && slots.isEmpty();
    if (shadows && shadow != null) {
      return shadow;
    }
    List<Asked> among = inOrder(shadows ? units : enforced, slots);
    Asked tight = among.get(0);
    for (Asked one : among) {
      tight = one.standing(now).available() < tight.standing(now).available() ? one : tight;
    }
    return tight;
  }

  private static List<Asked> inOrder(List<Units> units, List<Slot> slots) {
    List<Asked> all = new ArrayList<>(units);
    all.addAll(slots);
    all.sort(Comparator.<Asked>comparingInt(one -> one.keyIndex).thenComparingInt(one -> one.rule));
    return all;
  }

  private static void describe(State.Draft draft, Call call, Asked one, long now) {
    Usage.Standing standing = one.standing(now);
    draft.key = call.keys().get(one.keyIndex).name();
    draft.keyIndex = one.keyIndex;
    draft.rule = one.rule;
    draft.limit = standing.capacity();
    draft.remaining = standing.available();
    draft.resetAfterMs = ms(standing.resetNs());
    draft.nextAfterMs = ms(standing.nextNs());
  }

  private static List<Result> each(Call call, List<Units> units, List<Slot> slots, Predicate<Asked> isLimited, long now) {
    List<Result> each = new ArrayList<>();
    for (Asked one : inOrder(units, slots)) {
      State.Draft draft = State.of(call.key());
      describe(draft, call, one, now);
      draft.nextAfterMs = 0;
      draft.limited = isLimited.test(one);
      draft.retryAfterMs = draft.limited ? afterMs(one.wait) : 0;
      each.add(draft.done());
    }
    return List.copyOf(each);
  }

  private static long ms(long ns) {
    return -Math.floorDiv(-ns, 1_000_000);
  }

  private static long afterMs(long ns) {
    return ns == NEVER ? -1 : ms(ns);
  }

  /** Returns keys of which those used least recently are forgotten. */
  static Map<String, Kept> recent(int most) {
    return new LinkedHashMap<>(16, 0.75f, true) {
      @Override
      protected boolean removeEldestEntry(Map.Entry<String, Kept> eldest) {
        return size() > most;
      }
    };
  }
}
