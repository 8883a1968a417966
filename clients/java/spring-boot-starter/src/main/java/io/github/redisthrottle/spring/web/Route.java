package io.github.redisthrottle.spring.web;

import io.github.redisthrottle.Call;
import io.github.redisthrottle.Keys;
import io.github.redisthrottle.Limit;
import io.github.redisthrottle.Result;
import io.github.redisthrottle.http.Answer;
import io.github.redisthrottle.http.Undecided;
import io.github.redisthrottle.spring.Answers;
import io.github.redisthrottle.spring.Expressions;
import io.github.redisthrottle.spring.Facts;
import io.github.redisthrottle.spring.RateLimitProperties;
import io.github.redisthrottle.spring.Settings;
import io.github.redisthrottle.spring.Skip;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.jspecify.annotations.Nullable;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.spel.support.DataBindingPropertyAccessor;
import org.springframework.expression.spel.support.SimpleEvaluationContext;
import org.springframework.http.server.PathContainer;
import org.springframework.web.util.pattern.PathPattern;
import org.springframework.web.util.pattern.PathPatternParser;
import org.springframework.web.util.pattern.PatternParseException;

/** Limits of the requests of some paths. */
public final class Route {
  private final WebLimits web;
  private final Answers answers;
  private final List<PathPattern> paths;
  private final Set<String> methods;
  private final List<Part> parts = new ArrayList<>();
  private final @Nullable Expression cost;
  private final @Nullable Skip skip;
  private final @Nullable Duration ban;
  private final @Nullable String banAfter;

  /** A key of the call, with its limits. */
  private record Part(String name, Expression key, List<Limit> limits) {}

  /**
   * Reads a route. What is wrong is refused with the name of the property.
   *
   * @param property where the route is in the configuration
   */
  public Route(String property, RateLimitProperties.Route route, WebLimits web) {
    this.web = web;
    Undecided common = web.answers().undecided();
    this.answers =
        new Answers(
            new Undecided(
                answer(property, "outage", route.outage(), common.outage()),
                answer(property, "overload", route.overload(), common.overload()),
                answer(property, "mistake", route.mistake(), common.mistake())),
            web.answers().retryAfterSeconds());
    this.paths = route.paths().stream().map(path -> Settings.value(property + ".paths", path, Route::pattern)).toList();
    this.methods = Set.copyOf(route.methods().stream().map(method -> Settings.value(property + ".methods", method, Route::method)).toList());
    this.cost = expression(property + ".cost", route.cost());
    String skipped = route.skip();
    this.skip = skipped == null ? null : Settings.value(property + ".skip", skipped, text -> Skip.of(text, Expressions::parseOfRoute));
    this.ban = route.ban();
    this.banAfter = route.banAfter();
    if (ban != null && ban.toMillis() <= 0) {
      throw Settings.wrong(property + ".ban", ban, "it must be positive, such as 15m");
    }
    if (banAfter != null) {
      if (ban == null) {
        throw Settings.wrong(property + ".ban-after", banAfter, "it goes with ban, which says for how long");
      }
      Settings.value(property + ".ban-after", banAfter, after -> Call.limit("", Limit.rate(1, Duration.ofSeconds(1))).banAfter(after));
    }
    if (route.keys().isEmpty()) {
      add(property, new RateLimitProperties.Key(route.key(), route.limits(), route.policy(), route.name()));
      return;
    }
    if (route.limits() != null || route.policy() != null || route.key() != null || route.name() != null) {
      throw Settings.wrong(property + ".keys", route.keys(), "give either keys, each with its limits, or limits, policy, key and name");
    }
    for (int i = 0; i < route.keys().size(); i++) {
      add(property + ".keys[" + i + "]", route.keys().get(i));
    }
  }

  private void add(String property, RateLimitProperties.Key one) {
    String name = one.name();
    String limits = one.limits();
    if (limits == null && one.policy() == null) {
      throw Settings.wrong(property + ".limits", null, "it is missing: the name of limits, or limits such as RATE 5/s");
    }
    if (name != null && name.isBlank()) {
      throw Settings.wrong(property + ".name", name, "it is empty: leave it out for the name of the limits");
    }
    List<Limit> some = web.limits().read(property, limits, one.policy());
    Expression key = Settings.value(property + ".key", one.key() == null ? "address" : one.key(), Expressions::parseKeyOfRoute);
    parts.add(new Part(name == null ? web.limits().nameOf(limits, one.policy()) : name, key, some));
  }

  private static Answer answer(String property, String option, @Nullable String word, Answer otherwise) {
    return word == null ? otherwise : Settings.value(property + "." + option, word, one -> Answer.of(option, one));
  }

  private static @Nullable Expression expression(String property, @Nullable String text) {
    return text == null ? null : Settings.value(property, text, Expressions::parseOfRoute);
  }

  private static PathPattern pattern(String path) {
    try {
      return PathPatternParser.defaultInstance.parse(path.startsWith("/") ? path : missingSlash(path));
    } catch (PatternParseException e) {
      throw new IllegalArgumentException("\"" + path + "\" is no pattern: " + e.getMessage(), e);
    }
  }

  private static String missingSlash(String path) {
    throw new IllegalArgumentException("\"" + path + "\" does not begin with a slash, as /api/** does");
  }

  private static String method(String method) {
    if (!method.matches("[A-Z]+")) {
      throw new IllegalArgumentException("\"" + method + "\" is no method in capital letters, such as POST");
    }
    return method.toUpperCase(Locale.ROOT);
  }

  /** Returns whether it limits a request. A route for GET is one for HEAD, which is served by the same handlers. */
  public boolean matches(String method, PathContainer path) {
    boolean isMethod = methods.isEmpty() || methods.contains(method) || (method.equals("HEAD") && methods.contains("GET"));
    return isMethod && paths.stream().anyMatch(pattern -> pattern.matches(path));
  }

  /** Returns whether it asks who has signed in, which is known only behind the filters of Spring Security. */
  public boolean asksPrincipal() {
    boolean skipAsks = skip != null && skip.asksPrincipal();
    return skipAsks || (cost != null && Expressions.asksPrincipal(cost)) || parts.stream().map(Part::key).anyMatch(Expressions::asksPrincipal);
  }

  /** Decides about a request. The stage fails with what is to be raised. */
  public CompletionStage<Decision> decide(Facts facts) {
    CompletableFuture<Decision> decision = new CompletableFuture<>();
    try {
      EvaluationContext context =
          SimpleEvaluationContext.forPropertyAccessors(DataBindingPropertyAccessor.forReadOnlyAccess()).withInstanceMethods().withRootObject(facts).build();
      if (skip != null && skip.applies(context)) {
        return CompletableFuture.completedFuture(Decision.NONE);
      }
      List<List<Limit>> limits = parts.stream().map(Part::limits).toList();
      CompletionStage<Result> deciding = web.decider().decide(call(context));
      deciding.whenComplete(
          (result, error) -> {
            if (error == null) {
              decision.complete(Decision.of(limits, result, web.extra(), facts.names()));
            } else {
              fail(decision, error);
            }
          });
      decision.whenComplete(
          (value, error) -> {
            if (decision.isCancelled()) {
              deciding.toCompletableFuture().cancel(true);
            }
          });
    } catch (RuntimeException e) { // of an expression, or of an argument
      fail(decision, e);
    }
    return decision;
  }

  private Call call(EvaluationContext context) {
    Part first = parts.get(0);
    String key = key(first, context);
    Call call = Call.limit(key, first.limits());
    if (parts.size() > 1) {
      Keys keys = Keys.of(key, first.limits().toArray(Limit[]::new));
      for (Part part : parts.subList(1, parts.size())) {
        keys = keys.and(key(part, context), part.limits());
      }
      call = Call.limitAll(keys);
    }
    if (parts.size() > 1 || parts.get(0).limits().size() > 1) {
      call = call.each(); // with one limit, the fields of the reply say all
    }
    if (cost != null) {
      call = call.cost(Expressions.cost(cost, context));
    }
    if (ban != null) {
      call = call.ban(ban);
    }
    return banAfter == null ? call : call.banAfter(banAfter);
  }

  private static String key(Part part, EvaluationContext context) {
    return "http:" + part.name() + ":" + Expressions.key(part.key(), context);
  }

  private void fail(CompletableFuture<Decision> decision, Throwable failed) {
    Throwable error = Answers.unwrapped(failed);
    switch (answers.to(error)) {
      case ALLOW -> decision.complete(Decision.NONE);
      case DENY -> decision.complete(Decision.undecided(answers.retryAfterSeconds()));
      case RAISE -> decision.completeExceptionally(error);
    }
  }
}
