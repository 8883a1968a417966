package io.github.redisthrottle.spring;

import io.github.redisthrottle.http.Networks;
import java.util.Arrays;
import java.util.function.Function;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;

/** What is not limited: an expression that is true for it, or the networks of its clients. */
public final class Skip {
  /** What no expression is that could be true or false. */
  private static final Pattern NETWORKS = Pattern.compile("(?=.*[0-9])(?=.*[.:/])[0-9a-fA-F:./%,\\[\\]\\s]+");

  private final @Nullable Expression expression;
  private final @Nullable Networks networks;

  private Skip(@Nullable Expression expression, @Nullable Networks networks) {
    this.expression = expression;
    this.networks = networks;
  }

  /** Reads addresses and networks, such as {@code 10.0.0.0/8, 127.0.0.1}, or what {@code read} takes. */
  public static Skip of(String text, Function<String, Expression> read) {
    return NETWORKS.matcher(text).matches()
        ? new Skip(null, Networks.of(Arrays.stream(text.split(",", -1)).map(String::strip).toList()))
        : new Skip(read.apply(text), null);
  }

  /** Returns whether a call is not limited. Outside of a request no client is known. */
  public boolean applies(EvaluationContext context) {
    return expression != null ? Expressions.skips(expression, context)
        : networks != null && context.getRootObject().getValue() instanceof Facts facts && facts.isFrom(networks);
  }

  /** Returns whether it asks who has signed in. */
  public boolean asksPrincipal() {
    return expression != null && Expressions.asksPrincipal(expression);
  }
}
