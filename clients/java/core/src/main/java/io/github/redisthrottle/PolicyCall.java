package io.github.redisthrottle;

import java.lang.System.Logger.Level;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.function.BiConsumer;
import org.jspecify.annotations.Nullable;

/**
 * A call whose limits policies have changed.
 *
 * @param call what the next decider is asked; null if everything passes
 * @param asked what the code asks
 * @param policies what counted, for each key of the code
 * @param places where the keys of {@code call} are in {@code asked}
 * @param passing the first key whose policy is NONE, of a call that takes any key; -1 without one
 */
record PolicyCall(@Nullable Call call, Call asked, List<Optional<Result.Applied>> policies, List<Integer> places, int passing) {
  /** Decides a call by the policies of its keys. */
  static CompletionStage<Result> decide(Call call, PolicyLookup lookup, Decider next, BiConsumer<Level, String> log) {
    @Nullable PolicyValue[] found = find(call, lookup, log);
    if (found == null) {
      return next.decide(call);
    }
    PolicyCall changed = of(call, found);
    if (changed.call == null) {
      return CompletableFuture.completedFuture(changed.passed(0));
    }
    return Stages.map(next.decide(changed.call), changed::result);
  }

  /** Returns what counts for each key; null if the call stays as it is. */
  private static @Nullable PolicyValue @Nullable [] find(Call call, PolicyLookup lookup, BiConsumer<Level, String> log) {
    List<Key> keys = call.keys();
    @Nullable PolicyValue[] found = null;
    for (int i = 0; i < keys.size(); i++) {
      Key key = keys.get(i);
      String policy = key.policy();
      PolicyValue value = policy.isEmpty() ? null : lookup.find(policy, key.name());
      if (value != null && goesWith(value, call, key, log)) {
        found = found == null ? new PolicyValue[keys.size()] : found;
        found[i] = value;
      }
    }
    return found;
  }

  /** Returns whether a policy can take the place of a key's limits. Where it cannot, this is said once. */
  private static boolean goesWith(PolicyValue value, Call call, Key key, BiConsumer<Level, String> log) {
    String why = null;
    if (call.verb() == Call.Verb.LIMIT && call.maxWait() != null && !value.reserves) {
      why = "the call has a maxWait, and only rates are reserved";
    } else if (call.verb() == Call.Verb.WAIT && value.shadows) {
      why = "a call that waits takes no SHADOW";
    } else if (call.verb() == Call.Verb.WAIT && value.reserves && !value.isNone() && (!call.group().isEmpty() || call.weight() != 1 || call.priority() != 0)) {
      why = "callers take turns by group, weight and priority only with a WINDOW or FIXED";
    } else if (!value.isNone() && value.in(key.limits()) == null) {
      why = "the limits of the call do not take the same, and there are not as many";
    }
    if (why != null && value.isNews(why)) {
      log.accept(Level.WARNING, "policy " + value.field + ": \"" + value.text + "\" cannot be used, the default counts: " + why);
    }
    return why == null;
  }

  private static PolicyCall of(Call asked, @Nullable PolicyValue[] found) {
    List<Key> keys = new ArrayList<>(found.length);
    List<Integer> places = new ArrayList<>(found.length);
    List<Optional<Result.Applied>> policies = new ArrayList<>(found.length);
    Duration ban = null;
    String banAfter = null;
    int passing = -1;
    for (int i = 0; i < found.length; i++) {
      Key key = asked.keys().get(i);
      PolicyValue value = found[i];
      List<Limit> limits = value == null ? key.limits() : value.isNone() ? List.of() : Objects.requireNonNull(value.in(key.limits()));
      policies.add(value == null ? Optional.empty() : value.applied(limits));
      if (value != null && value.isNone()) {
        passing = asked.any() && passing < 0 ? i : passing;
      } else if (passing < 0) {
        keys.add(value == null ? key : Key.of(key.name(), limits));
        places.add(i);
        if (value != null && ban == null && value.ban != null) {
          ban = value.ban;
          banAfter = value.banAfter;
        }
      }
    }
    Call call = keys.isEmpty() ? null : asked.withKeys(keys);
    // No server takes a ban with any key, with a wait, or with slots.
    if (call != null && ban != null && asked.verb() == Call.Verb.LIMIT && !asked.any() && asked.maxWait() == null && !asked.leases()) {
      call = call.withBan(ban, banAfter);
    }
    return new PolicyCall(call, asked, List.copyOf(policies), places, passing);
  }

  /** Returns what becomes of a call that passes by a key. */
  private Result passed(int key) {
    State.Draft draft = State.of(asked.keys().get(key).name());
    draft.keyIndex = key;
    draft.by = Result.By.NONE;
    draft.policies = policies;
    return draft.done();
  }

  /** Returns a result of the next decider with the keys as the code counts them. */
  private Result result(Result result) {
    if (passing >= 0 && result.limited()) {
      return passed(passing);
    }
    State.Draft draft = placed(result);
    draft.policies = policies;
    Result changed = draft.done();
    changed.ifLost(result::lost);
    return changed;
  }

  private State.Draft placed(Result result) {
    State.Draft draft = new State.Draft(result.state());
    draft.keyIndex = places.get(draft.keyIndex);
    if (draft.shadow != null) {
      Result.Place shadow = draft.shadow;
      draft.shadow = new Result.Place(shadow.key(), places.get(shadow.keyIndex()), shadow.rule());
    }
    draft.each = draft.each.stream().map(one -> placed(one).done()).toList();
    return draft;
  }
}
