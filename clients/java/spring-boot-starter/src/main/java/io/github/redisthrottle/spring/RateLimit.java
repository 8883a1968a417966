package io.github.redisthrottle.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Repeatable;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Limits the calls of a method of a bean: of a service, a controller, or one that returns a Mono, a Flux or a
 * CompletionStage.
 *
 * <pre>{@code
 * @RateLimit(key = "#user.id", limits = "plans.pro")
 * Report report(User user) { ... }
 *
 * @RateLimit(key = "address", limits = "RATE 10/m")
 * @PostMapping("/login")
 * String login(...) { ... }
 * }</pre>
 *
 * <p>A call that is denied throws a {@link io.github.redisthrottle.LimitedException} and does not reach the method; in
 * a controller the response has status 429, header fields and a problem document. Several annotations are charged
 * together: all of them or none. In a cluster their keys need a common hash tag, such as {@code {acme}}.
 *
 * <p>Expressions are those of Spring (SpEL). They see the parameters of the method (compile with {@code -parameters},
 * as Spring Boot's plugins do), beans ({@code @plans.of(#user)}), and of a request {@code address}, {@code principal},
 * {@code method}, {@code path}, {@code header('X-Api-Key')} and {@code query('tenant')}. All attributes are checked
 * when the bean is made. The annotation works through proxies of Spring: a call from within the same object is not
 * limited, and a method that cannot be overridden, or of a final class, is refused. On methods of an interface it
 * limits also beans that are lambdas or proxies, such as clients of {@code @HttpExchange} interfaces.
 */
@Documented
@Repeatable(RateLimit.All.class)
@Retention(RetentionPolicy.RUNTIME)
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
public @interface RateLimit {
  /**
   * An expression for whom the call counts, such as {@code #user.id}; calls without one count together. A key that is
   * null or empty is a mistake: the call is not let through uncounted, unless {@code redis-throttle.mistake} is allow.
   */
  String key() default "";

  /**
   * The name of limits in {@code redis-throttle.limits}, or limits as such: {@code RATE 5/s BURST 10; FIXED 1000/d}. By
   * default those with the name of the policy.
   */
  String limits() default "";

  /**
   * The policy of the limits, by which a hash in Redis may say other numbers while the application runs
   * ({@link io.github.redisthrottle.Policies}). By default the name of the limits; limits as such have none.
   */
  String policy() default "";

  /**
   * What the key in Redis begins with: by default the name of the limits, or their policy. Methods of one name share
   * their limits.
   */
  String name() default "";

  /** How many units a call costs: an expression, 1 by default. */
  String cost() default "";

  /**
   * An expression that is true for calls that are not limited, or the addresses and networks of clients whose requests
   * are not, such as {@code 10.0.0.0/8, 127.0.0.1}.
   */
  String skip() default "";

  /**
   * The name of a method of the same class that is called in place of this one when the call is denied or, with the
   * answer deny, undecided. It has the same parameters, and possibly a {@code RuntimeException} as the last one, and
   * returns the same type. Of several annotations the first that has one counts.
   */
  String fallbackMethod() default "";

  /** Several of them. */
  @Documented
  @Retention(RetentionPolicy.RUNTIME)
  @Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
  @interface All {
    /** Returns them in order. */
    RateLimit[] value();
  }
}
