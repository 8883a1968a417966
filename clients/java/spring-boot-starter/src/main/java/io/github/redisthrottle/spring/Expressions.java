package io.github.redisthrottle.spring;

import java.util.Set;
import java.util.TreeSet;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.ExpressionException;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.ast.CompoundExpression;
import org.springframework.expression.spel.ast.MethodReference;
import org.springframework.expression.spel.ast.Projection;
import org.springframework.expression.spel.ast.PropertyOrFieldReference;
import org.springframework.expression.spel.ast.Selection;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** Expressions of keys, costs and what is skipped. Names that do not exist are refused when an expression is read. */
public final class Expressions {
  private static final SpelExpressionParser PARSER = new SpelExpressionParser();
  private static final Set<String> FACTS = new TreeSet<>(Set.of("address", "principal", "method", "path"));
  private static final Set<String> FUNCTIONS = new TreeSet<>(Set.of("header", "query"));

  private Expressions() {}

  /** Reads an expression that may use variables of these names, and what {@link Facts} has. */
  public static Expression parse(String text, Set<String> variables) {
    try {
      Expression expression = PARSER.parseExpression(text);
      check(((SpelExpression) expression).getAST(), true, variables);
      return expression;
    } catch (ExpressionException e) {
      throw new IllegalArgumentException("\"" + text + "\" is no expression: " + e.getMessage(), e);
    }
  }

  /** Returns whether an expression asks who has signed in. */
  public static boolean asksPrincipal(Expression expression) {
    return asksPrincipal(((SpelExpression) expression).getAST());
  }

  private static boolean asksPrincipal(SpelNode node) {
    if (node instanceof PropertyOrFieldReference property && property.getName().equals("principal")) {
      return true;
    }
    for (int i = 0; i < node.getChildCount(); i++) {
      if (asksPrincipal(node.getChild(i))) {
        return true;
      }
    }
    return false;
  }

  /** Checks the names in an expression. {@code first} is whether the node is not a part of the node before it. */
  private static void check(SpelNode node, boolean first, Set<String> variables) {
    if (first && node instanceof PropertyOrFieldReference property && !FACTS.contains(property.getName())) {
      throw new IllegalArgumentException(
          "\"" + property.getName() + "\" is none of " + String.join(", ", FACTS) + "; a parameter has a # before it, and a text is in ''");
    }
    if (first && node instanceof MethodReference method && !FUNCTIONS.contains(method.getName())) {
      throw new IllegalArgumentException("\"" + method.getName() + "()\" is none of " + String.join("(), ", FUNCTIONS) + "()");
    }
    if (node instanceof VariableReference) {
      String name = node.toStringAST().substring(1);
      if (!variables.contains(name) && !name.equals("root") && !name.equals("this")) {
        throw new IllegalArgumentException(
            "\"#" + name + "\": " + (variables.isEmpty() ? "there are no variables here" : "the variables are #" + String.join(", #", new TreeSet<>(variables))));
      }
    }
    if (node instanceof Selection || node instanceof Projection) {
      return; // names in it are those of elements
    }
    for (int i = 0; i < node.getChildCount(); i++) {
      check(node.getChild(i), !(node instanceof CompoundExpression) || i == 0, variables);
    }
  }

  /** Returns the text of a key. */
  public static String key(Expression expression, EvaluationContext context) {
    Object value = expression.getValue(context);
    String text = value == null ? "" : String.valueOf(value);
    if (text.isEmpty()) {
      throw new IllegalArgumentException("key: \"" + expression.getExpressionString() + "\" is " + (value == null ? "null" : "empty") + ", and a call must count for somebody");
    }
    return text;
  }

  /** Returns how many units a call costs. */
  public static long cost(Expression expression, EvaluationContext context) {
    Object value = expression.getValue(context);
    if (value instanceof Long || value instanceof Integer || value instanceof Short || value instanceof Byte) {
      return ((Number) value).longValue();
    }
    throw new IllegalArgumentException("cost: \"" + expression.getExpressionString() + "\" is no whole number: " + value);
  }

  /** Returns whether a call is not limited. */
  public static boolean skips(Expression expression, EvaluationContext context) {
    if (expression.getValue(context) instanceof Boolean skips) {
      return skips;
    }
    throw new IllegalArgumentException("skip: \"" + expression.getExpressionString() + "\" is neither true nor false");
  }
}
