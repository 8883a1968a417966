package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.jspecify.annotations.Nullable;

/**
 * Decides calls in this process by the rules of the server: in an outage, and for tests. The transcripts of spec/ and
 * histories that are drawn hold it to them. Nobody waits here: a call that would is denied. Instants are ns since
 * 1970. It is not safe for use by several threads.
 */
final class Engine {
  private final Map<String, Held> keys;

  Engine(Map<String, Held> keys) {
    this.keys = keys;
  }

  /** Returns keys of which those used least recently are forgotten. */
  static Map<String, Held> recent(int most) {
    return new LinkedHashMap<>(16, 0.75f, true) {
      @Override
      protected boolean removeEldestEntry(Map.Entry<String, Held> eldest) {
        return size() > most;
      }
    };
  }

  /** Decides a call at an instant. */
  Result decide(Call call, long now) {
    if (call.verb() == Call.Verb.RESET) {
      return reset(call, now).done();
    }
    if (call.verb() == Call.Verb.DENIED) {
      return State.of(call.key()).done(); // nobody lists keys here
    }
    Decision decision = new Decision(call, keys, now);
    State.Draft draft =
        switch (call.verb()) {
          case LIMIT, WAIT -> call.leases() ? admit(decision) : call.any() ? limitAny(decision) : limitAll(decision);
          case PEEK -> peek(decision);
          case REFUND -> refund(decision);
          case SETTLE -> settle(decision);
          case BAN -> ban(decision);
          case LEASE -> lease(decision);
          case RENEW -> renew(decision);
          case RELEASE -> release(decision);
          case RESET, DENIED -> throw new AssertionError();
        };
    return draft.done();
  }

  /** Tells what a key holds at an instant, where so many callers wait. */
  Inspection inspect(String key, long now, long waiting) {
    return HeldInspection.of(keys.get(key), now, waiting);
  }

  private State.Draft reset(Call call, long now) {
    Held held = keys.remove(call.key());
    State.Draft draft = State.of(call.key());
    draft.granted = held != null && held.exists(now) ? -1 : 0;
    return draft;
  }

  /** Asks all keys. */
  private static State.Draft limitAll(Decision decision) {
    decision.judge();
    Stack banned = decision.longestBan();
    if (banned != null) {
      return limitBanned(decision, banned);
    }
    Decision.Said said = decision.take(decision.rows);
    long ns = banNs(decision.call);
    if (!said.limited() || ns == 0 || said.retryNs() == Usage.NEVER) {
      decision.store();
      return decision.describe(said);
    }
    Stack key = decision.stacks.get(said.rule().keyIndex);
    decision.storeBut(key);
    boolean bans = banDenied(key, decision.call.banAfter(), Saturated.plus(decision.now, ns));
    decision.keep();
    return decision.describe(bans ? said.retriedAfter(Math.max(said.retryNs(), ns)) : said);
  }

  private static long banNs(Call call) {
    return call.ban() == null ? 0 : Durations.wholeMillis(call.ban(), "ban");
  }

  /** A ban denies a call before any limit is asked. */
  private static State.Draft limitBanned(Decision decision, Stack banned) {
    if (decision.call.charge() == Charge.FORCE) { // what was used is a fact, and is kept behind the bans
      Decision.Said said = decision.take(decision.rows);
      decision.store();
      return decision.describeBan(banned, decision.retryAfter(decision.rows), said.granted());
    }
    long until = Saturated.plus(decision.now, banNs(decision.call));
    if (decision.call.charge() == Charge.STRICT && until > banned.held.bannedUntil()) {
      banned.held.ban(until);
    }
    return decision.describeBan(banned, decision.retryAfter(decision.rows), 0);
  }

  /** Bans a key for a call that was denied, or counts the denial where only the last of several bans. */
  private static boolean banDenied(Stack stack, @Nullable String banAfter, long until) {
    Stack.Denial counted = banAfter == null ? new Stack.Denial(true, false) : stack.countDenial(banAfter);
    if (!counted.last()) {
      stack.store();
    } else if (stack.isChanged() || counted.changed()) {
      stack.storeBehind(until);
    } else {
      stack.held.ban(until);
    }
    return counted.last();
  }

  /** Asks the first key that has room, or else the one that has some soonest. */
  private static State.Draft limitAny(Decision decision) {
    decision.judge();
    boolean forces = decision.call.charge() == Charge.FORCE;
    Candidate best = best(decision);
    Stack stack = best.stack;
    if (stack.isBanned() && !forces) {
      return decision.describeBan(stack, best.retry(), 0);
    }
    Decision.Said said = decision.take(stack.rows);
    decision.store();
    if (stack.isBanned()) {
      return decision.describeBan(stack, best(decision).retry(), said.granted());
    }
    // The debt may have made another key the first that has room.
    return decision.describe(said.limited() && forces ? said.retriedAfter(best(decision).retry()) : said);
  }

  /** A key of a call for any of several, and how long a caller would wait for it, or when to come back. */
  private record Candidate(Stack stack, boolean limited, long ns) {
    static Candidate of(Decision decision, Stack stack) {
      if (stack.isBanned()) { // nothing can be reserved behind a ban
        long banNs = stack.held.bannedUntil() - decision.now;
        return new Candidate(stack, true, Waits.longer(banNs, decision.retryAfter(stack.rows)));
      }
      Decision.Outlook outlook = decision.outlook(stack.rows);
      return new Candidate(stack, outlook.limited(), outlook.ns());
    }

    Candidate or(Candidate next) {
      if (limited != next.limited) {
        return limited ? next : this;
      }
      return Waits.isLonger(ns, next.ns) ? next : this;
    }

    long retry() {
      return limited ? ns : 0;
    }
  }

  /**
   * Returns the first key that has room; if there is none, the one with the shortest wait, or else the one to come
   * back to soonest.
   */
  private static Candidate best(Decision decision) {
    return decision.stacks.stream().map(stack -> Candidate.of(decision, stack)).reduce(Candidate::or).orElseThrow();
  }

  /** Takes units and slots together, or nothing. */
  private static State.Draft admit(Decision decision) {
    if (decision.slots.stream().allMatch(slots -> slots.held)) {
      return admitAgain(decision);
    }
    decision.judge();
    List<Row> rows = decision.rows;
    KeySlots full = slowest(decision.slots);
    Stack banned = decision.longestBan();
    if (banned != null) {
      long limitsNs = rows.isEmpty() ? 0 : decision.retryAfter(rows);
      return decision.describeBan(banned, Waits.longer(full == null ? 0 : full.retryNs, limitsNs), 0);
    }
    Decision.Said said = rows.isEmpty() ? null : full != null ? decision.deny(rows, 0) : decision.take(rows);
    decision.store();
    if (full != null || (said != null && said.limited())) {
      return describeDenied(decision, said, full);
    }
    decision.slots.forEach(KeySlots::take);
    decision.keep();
    return describeAdmitted(decision, said);
  }

  /** A call whose id holds all its slots is a retry: it renews the leases and is charged nothing. */
  private static State.Draft admitAgain(Decision decision) {
    decision.slots.forEach(KeySlots::take);
    decision.keep();
    if (decision.rows.isEmpty()) {
      return describeAdmitted(decision, null);
    }
    Row rule = Decision.tightest(decision.rows, null);
    return describeAdmitted(decision, new Decision.Said(false, rule, 0, rule.units(decision.call.cost()), 0, null));
  }

  /** Returns those that are full for the longest time, the first of equal ones; null if all have room. */
  private static @Nullable KeySlots slowest(List<KeySlots> slots) {
    KeySlots slowest = null;
    for (KeySlots each : slots) {
      slowest = each.limited && (slowest == null || Waits.isLonger(each.retryNs, slowest.retryNs)) ? each : slowest;
    }
    return slowest;
  }

  /** What has the longest wait has denied the call, the first of several. */
  private static State.Draft describeDenied(Decision decision, Decision.@Nullable Said said, @Nullable KeySlots full) {
    if (full == null) {
      return decision.describe(Objects.requireNonNull(said));
    }
    if (said != null && said.retryNs() != 0 && !outlasts(full, said)) {
      return decision.describe(said);
    }
    return decision.describeSlots(full, said == null ? null : said.shadow());
  }

  private static boolean outlasts(KeySlots full, Decision.Said said) {
    boolean comesFirst = full.retryNs == said.retryNs() && full.keyIndex < said.rule().keyIndex;
    return comesFirst || Waits.isLonger(full.retryNs, said.retryNs());
  }

  /** What has the fewest left decides a call that is let through, the first of several. */
  private static State.Draft describeAdmitted(Decision decision, Decision.@Nullable Said said) {
    Row rule = said == null || said.rule().shadow ? null : said.rule();
    long least = rule == null ? Long.MAX_VALUE : rule.standing().available();
    int keyIndex = rule == null ? Integer.MAX_VALUE : rule.keyIndex;
    KeySlots tight = null;
    for (KeySlots slots : decision.slots) {
      if (slots.remaining < least || (slots.remaining == least && slots.keyIndex < keyIndex)) {
        tight = slots;
        least = slots.remaining;
        keyIndex = slots.keyIndex;
      }
    }
    return tight == null ? decision.describe(Objects.requireNonNull(said)) : decision.describeSlots(tight, said == null ? null : said.shadow());
  }

  private static State.Draft peek(Decision decision) {
    decision.judge();
    Stack stack = decision.stacks.get(0);
    List<Row> rows = decision.rows;
    if (stack.isBanned()) {
      return decision.describeBan(stack, decision.retryAfter(rows), 0);
    }
    Decision.Wait wait = Decision.longest(rows, decision.call.cost());
    Row shadow = decision.firstShadow(rows);
    boolean limited = wait.ns() != 0;
    Row rule = limited ? wait.rule() : Decision.tightest(rows, shadow);
    return decision.describe(new Decision.Said(limited, rule, wait.ns(), 0, 0, shadow));
  }

  private static State.Draft refund(Decision decision) {
    for (Row row : decision.rows) {
      row.charged = -row.usage.refund(row.units(decision.call.cost()));
      row.changed = row.charged < 0;
    }
    decision.stacks.forEach(Stack::addNone);
    decision.store();
    Row rule = Decision.tightest(decision.rows, null);
    return decision.describe(new Decision.Said(false, rule, 0, rule.charged, 0, null));
  }

  private static State.Draft settle(Decision decision) {
    boolean settled = decision.slots.stream().allMatch(slots -> slots.held);
    if (settled) {
      decision.rows.forEach(Engine::settle);
      decision.stacks.forEach(Stack::addCharged);
      decision.slots.forEach(KeySlots::release);
      decision.store();
    }
    Row rule = decision.rows.isEmpty() ? null : Decision.tightest(decision.rows, null);
    State.Draft draft = State.of(decision.call.key());
    if (rule != null) {
      draft = decision.placed(rule.keyIndex, rule.rule, rule.standing());
    }
    draft.limited = !settled;
    draft.retryAfterMs = settled ? 0 : -1;
    draft.granted = rule == null ? 0 : rule.charged;
    if (decision.call.hasEach()) {
      List<Result> ofSlots = new ArrayList<>();
      decision.slots.forEach(slots -> ofSlots.add(settledSlots(decision, slots)));
      decision.each(draft, ofSlots);
    }
    return draft;
  }

  private static void settle(Row row) {
    long more = row.limit.usedMore();
    row.charged = more > 0 ? row.usage.force(more) : more < 0 ? -row.usage.refund(-more) : 0;
    row.changed = row.charged != 0;
  }

  /** Of slots a settlement says whether the lease was there, and when the last one lapses. */
  private static Result settledSlots(Decision decision, KeySlots slots) {
    return decision.one(slots.keyIndex, 0, new Usage.Standing(-1, -1, slots.allNs(), 0), !slots.held, Usage.NEVER);
  }

  private static State.Draft ban(Decision decision) {
    Held held = decision.stacks.get(0).held;
    long ns = banNs(decision.call);
    long until = Saturated.plus(decision.now, ns);
    if (ns == 0) {
      held.liftBan();
    } else if (until > held.bannedUntil()) {
      held.ban(until);
    }
    decision.keep();
    State.Draft draft = State.of(decision.call.key());
    draft.lastsMs = Waits.ms(Math.max(held.bannedUntil() - decision.now, 0));
    return draft;
  }

  private static State.Draft lease(Decision decision) {
    KeySlots slots = decision.slots.get(0);
    State.Draft draft = State.of(decision.call.key());
    draft.limit = slots.slots;
    draft.remaining = slots.remaining;
    if (slots.limited) {
      draft.limited = true;
      draft.retryAfterMs = Waits.retryMs(slots.retryNs);
      return draft;
    }
    slots.take();
    decision.keep();
    draft.lastsMs = slots.ttlMs();
    return draft;
  }

  private static State.Draft renew(Decision decision) {
    KeySlots slots = decision.slots.get(0);
    State.Draft draft = State.of(decision.call.key());
    draft.limit = draft.remaining = -1;
    if (!slots.held) {
      draft.limited = true;
      draft.retryAfterMs = -1;
      return draft;
    }
    slots.renew();
    decision.keep();
    draft.lastsMs = slots.ttlMs();
    return draft;
  }

  private static State.Draft release(Decision decision) {
    KeySlots slots = decision.slots.get(0);
    State.Draft draft = State.of(decision.call.key());
    if (slots.held) {
      slots.release();
      decision.keep();
    }
    draft.granted = slots.held ? -1 : 0;
    return draft;
  }
}
