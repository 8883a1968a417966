package io.github.redisthrottle.spring;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;
import org.springframework.expression.EvaluationContext;
import org.springframework.expression.Expression;
import org.springframework.expression.ExpressionException;
import org.springframework.expression.TypedValue;
import org.springframework.expression.spel.ExpressionState;
import org.springframework.expression.spel.SpelNode;
import org.springframework.expression.spel.SpelParserConfiguration;
import org.springframework.expression.spel.ast.BeanReference;
import org.springframework.expression.spel.ast.CompoundExpression;
import org.springframework.expression.spel.ast.ConstructorReference;
import org.springframework.expression.spel.ast.Elvis;
import org.springframework.expression.spel.ast.MethodReference;
import org.springframework.expression.spel.ast.OpPlus;
import org.springframework.expression.spel.ast.Projection;
import org.springframework.expression.spel.ast.PropertyOrFieldReference;
import org.springframework.expression.spel.ast.Selection;
import org.springframework.expression.spel.ast.SpelNodeImpl;
import org.springframework.expression.spel.ast.Ternary;
import org.springframework.expression.spel.ast.TypeReference;
import org.springframework.expression.spel.ast.VariableReference;
import org.springframework.expression.spel.standard.SpelExpression;
import org.springframework.expression.spel.standard.SpelExpressionParser;

/** Expressions of keys, costs and what is skipped. Names that do not exist are refused when an expression is read. */
public final class Expressions {
  private static final SpelExpressionParser PARSER = new SpelExpressionParser();
  private static final Set<String> FACTS = new TreeSet<>(Set.of("address", "principal", "method", "path"));
  private static final Pattern STRING = Pattern.compile("T\\((java\\.lang\\.)?String\\)");
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

  /**
   * Reads an expression of a key, as {@link #parse}. Where it makes a text by +, by a method of T(String) or by
   * formatted, a part that is null is a mistake: it would become the text "null", and those of whom nothing is known
   * would count for one another.
   */
  public static Expression parseKey(String text, Set<String> variables) {
    SpelNodeImpl read = (SpelNodeImpl) ((SpelExpression) parse(text, variables)).getAST();
    return new SpelExpression(text, strict(read, text), new SpelParserConfiguration());
  }

  /** Returns a node in which a part of a text must not be null. */
  private static SpelNodeImpl strict(SpelNodeImpl node, String text) {
    SpelNodeImpl[] children = new SpelNodeImpl[node.getChildCount()];
    for (int i = 0; i < children.length; i++) {
      children[i] = (SpelNodeImpl) node.getChild(i);
    }
    int from = node.getStartPosition();
    int to = node.getEndPosition();
    if (node instanceof OpPlus && children.length == 2) {
      return new OpPlus(from, to, new Present(strict(children[0], text)), new Present(strict(children[1], text)));
    }
    if (node instanceof Ternary) {
      refuseToJoin(children[0], text);
      return new Ternary(from, to, children[0], strict(children[1], text), strict(children[2], text));
    }
    if (node instanceof Elvis) {
      return new Elvis(from, to, strict(children[0], text), strict(children[1], text));
    }
    if (node instanceof CompoundExpression) { // such as (...).toLowerCase()
      boolean ofString = children[0] instanceof TypeReference type && STRING.matcher(type.toStringAST()).matches();
      children[0] = ofString ? children[0] : strict(children[0], text);
      for (int i = 1; i < children.length; i++) {
        if (children[i] instanceof MethodReference method && ((ofString && i == 1) || method.getName().equals("formatted"))) {
          children[i] = ofParts(method, text);
        } else {
          refuseToJoin(children[i], text);
        }
      }
      return new CompoundExpression(from, to, children);
    }
    refuseToJoin(node, text);
    return node;
  }

  /** Returns the call of a method that makes a text of its arguments. */
  private static MethodReference ofParts(MethodReference method, String text) {
    SpelNodeImpl[] parts = new SpelNodeImpl[method.getChildCount()];
    for (int i = 0; i < parts.length; i++) {
      parts[i] = new Present(strict((SpelNodeImpl) method.getChild(i), text));
    }
    return new MethodReference(method.isNullSafe(), method.getName(), method.getStartPosition(), method.getEndPosition(), parts);
  }

  private static void refuseToJoin(SpelNode node, String text) {
    boolean isText = node instanceof TypeReference && STRING.matcher(node.toStringAST()).matches();
    if (node instanceof OpPlus || isText) {
      throw new IllegalArgumentException(
          "\""
              + text
              + "\": a "
              + (isText ? "T(String)" : "+")
              + " among the arguments of a call, in [] or in a condition would make null a part of a text; join texts outside of these");
    }
    for (int i = 0; i < node.getChildCount(); i++) {
      refuseToJoin(node.getChild(i), text);
    }
  }

  /** A part of a text. */
  private static final class Present extends SpelNodeImpl {
    Present(SpelNodeImpl part) {
      super(part.getStartPosition(), part.getEndPosition(), part);
    }

    @Override
    public TypedValue getValueInternal(ExpressionState state) {
      TypedValue value = children[0].getValueInternal(state);
      if (hasNull(value.getValue())) {
        throw new IllegalArgumentException("key: \"" + toStringAST() + "\" is null, and a call must count for somebody");
      }
      return value;
    }

    /** Returns whether a value is null, or has a part that is null, such as a list of texts to join. */
    private static boolean hasNull(@Nullable Object value) {
      Iterable<?> parts = value instanceof Iterable<?> some ? some : value instanceof Object[] array ? Arrays.asList(array) : List.of();
      for (Object part : parts) {
        if (part == null) {
          return true;
        }
      }
      return value == null;
    }

    @Override
    public String toStringAST() {
      return children[0].toStringAST();
    }
  }

  /** Reads an expression of a route. What is for annotations, beans, types and constructors, is refused. */
  public static Expression parseOfRoute(String text) {
    Expression expression = parse(text, Set.of());
    refuseCode(((SpelExpression) expression).getAST());
    return expression;
  }

  /** As {@link #parseOfRoute}, of a key, as {@link #parseKey}. */
  public static Expression parseKeyOfRoute(String text) {
    var unused = parseOfRoute(text);
    return parseKey(text, Set.of());
  }

  private static void refuseCode(SpelNode node) {
    if (node instanceof TypeReference || node instanceof BeanReference || node instanceof ConstructorReference) {
      throw new IllegalArgumentException("\"" + node.toStringAST() + "\": beans, T() and new are for annotations; a route knows of its request alone");
    }
    for (int i = 0; i < node.getChildCount(); i++) {
      refuseCode(node.getChild(i));
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
    if (value instanceof Iterable || value instanceof Map || value instanceof Optional || (value != null && value.getClass().isArray())) {
      throw new IllegalArgumentException("key: \"" + expression.getExpressionString() + "\" is no text, but a " + value.getClass().getSimpleName());
    }
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
