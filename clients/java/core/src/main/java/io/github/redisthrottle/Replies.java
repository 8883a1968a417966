package io.github.redisthrottle;

import java.util.ArrayList;
import java.util.List;

/** Replies as results. One that is odd is a {@link MistakeException}. */
final class Replies {
  private final Call call;
  private final Object reply;

  private Replies(Call call, Object reply) {
    this.call = call;
    this.reply = reply;
  }

  static Result result(Call call, Object reply) {
    return new Replies(call, reply).result();
  }

  private Result result() {
    State.Draft draft = State.of(call.key());
    switch (call.verb()) {
      case BAN -> draft.lastsMs = integer();
      case DENIED -> draft.granted = integer();
      case RELEASE, RESET -> draft.granted = -integer();
      case LEASE, RENEW -> leased(draft);
      case SETTLE -> settled(draft);
      default -> decided(draft);
    }
    return draft.done();
  }

  private void leased(State.Draft draft) {
    long[] n = integers(reply, Positions.LEASE_FIELDS);
    draft.limited = n[Positions.LEASE_LIMITED] != 0;
    draft.limit = n[Positions.LEASE_LIMIT];
    draft.remaining = n[Positions.LEASE_REMAINING];
    draft.retryAfterMs = draft.limited ? n[Positions.LEASE_RETRY_AFTER_MS] : 0;
    draft.lastsMs = draft.limited ? 0 : n[Positions.LEASE_LEASE_MS];
    draft.waitMs = n[Positions.LEASE_WAIT_MS];
  }

  private void settled(State.Draft draft) {
    long[] n = integers(reply, Positions.SETTLE_FIELDS);
    draft.limited = n[Positions.SETTLE_SETTLED] == 0;
    place(draft, n[Positions.SETTLE_RULE]);
    draft.limit = n[Positions.SETTLE_LIMIT];
    draft.remaining = n[Positions.SETTLE_REMAINING];
    draft.retryAfterMs = draft.limited ? -1 : 0;
    draft.resetAfterMs = n[Positions.SETTLE_RESET_AFTER_MS];
    draft.nextAfterMs = n[Positions.SETTLE_NEXT_AFTER_MS];
    draft.granted = n[Positions.SETTLE_GRANTED];
    draft.waitMs = n[Positions.SETTLE_WAIT_MS];
    draft.each = each();
  }

  private void decided(State.Draft draft) {
    // A reply about several keys has one field more, behind those that it shares with the others.
    long[] n = integers(reply, call.several() ? Positions.MLIMIT_FIELDS : Positions.LIMIT_FIELDS);
    long rule = n[Positions.LIMIT_RULE];
    draft.limited = n[Positions.LIMIT_LIMITED] != 0;
    draft.banned = draft.limited && rule == 0;
    if (rule == 0 && !draft.banned) {
      throw oddRule();
    }
    place(draft, rule);
    long shadow = n[Positions.LIMIT_SHADOW];
    if (shadow != 0) {
      State.Draft at = State.of("");
      place(at, shadow);
      draft.shadow = new Result.Place(at.key, at.keyIndex, at.rule);
    }
    if (call.several()) {
      long named = n[Positions.MLIMIT_KEY] - 1;
      if (named < 0 || named >= call.keys().size() || (!draft.banned && named != draft.keyIndex)) {
        throw odd("whose key is not that of its rule");
      }
      draft.keyIndex = (int) named;
      draft.key = call.keys().get((int) named).name();
    }
    draft.limit = n[Positions.LIMIT_LIMIT];
    draft.remaining = n[Positions.LIMIT_REMAINING];
    draft.retryAfterMs = draft.limited ? n[Positions.LIMIT_RETRY_AFTER_MS] : 0;
    draft.resetAfterMs = n[Positions.LIMIT_RESET_AFTER_MS];
    draft.nextAfterMs = n[Positions.LIMIT_NEXT_AFTER_MS];
    draft.granted = n[Positions.LIMIT_GRANTED];
    draft.waitMs = n[Positions.LIMIT_WAIT_MS];
    draft.each = each();
  }

  private List<Result> each() {
    if (!call.hasEach()) {
      return List.of();
    }
    List<?> all = (List<?>) reply;
    int rules = rules();
    List<Result> each = new ArrayList<>();
    for (int i = 0; i < rules; i++) {
      if (all.size() < rules || !(all.get(all.size() - rules + i) instanceof List<?> array)) {
        throw odd("without an array for each limit");
      }
      long[] n = integers(array, Positions.EACH_FIELDS);
      State.Draft draft = State.of("");
      place(draft, i + 1);
      draft.limited = n[Positions.EACH_LIMITED] != 0;
      draft.limit = n[Positions.EACH_LIMIT];
      draft.remaining = n[Positions.EACH_REMAINING];
      draft.retryAfterMs = draft.limited ? n[Positions.EACH_RETRY_AFTER_MS] : 0;
      draft.resetAfterMs = n[Positions.EACH_RESET_AFTER_MS];
      each.add(draft.done());
    }
    return List.copyOf(each);
  }

  /** Sets the key and the index of a rule, which the server counts from 1 through all keys; 0 is none. */
  private void place(State.Draft draft, long number) {
    if (number < 0 || number > rules()) {
      throw oddRule();
    }
    long left = Math.max(number - 1, 0);
    for (int i = 0; i < call.keys().size(); i++) {
      Key key = call.keys().get(i);
      if (left < key.rules()) {
        draft.key = key.name();
        draft.keyIndex = i;
        draft.rule = (int) left;
        return;
      }
      left -= key.rules();
    }
  }

  private int rules() {
    int rules = 0;
    for (Key key : call.keys()) {
      rules += key.rules();
    }
    return rules;
  }

  private long integer() {
    if (reply instanceof Long n) {
      return n;
    }
    throw odd("not an integer");
  }

  private long[] integers(Object array, int least) {
    if (!(array instanceof List<?> list) || list.size() < least) {
      throw odd("not " + least + " integers or more");
    }
    long[] n = new long[least];
    for (int i = 0; i < least; i++) {
      if (!(list.get(i) instanceof Long value)) {
        throw odd("not " + least + " integers or more");
      }
      n[i] = value;
    }
    return n;
  }

  private MistakeException oddRule() {
    return odd("whose rule is none of the " + rules() + " limits");
  }

  private MistakeException odd(String why) {
    return new MistakeException(call.command() + ": the reply is " + reply + ", " + why, null);
  }
}
