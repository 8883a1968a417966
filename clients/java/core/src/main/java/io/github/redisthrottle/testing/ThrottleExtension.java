package io.github.redisthrottle.testing;

import io.github.redisthrottle.FakeLimiter;
import io.github.redisthrottle.Limiter;
import java.util.Map;
import java.util.Objects;
import java.util.function.Function;
import org.junit.jupiter.api.extension.ExtensionContext;
import org.junit.jupiter.api.extension.ExtensionContext.Namespace;
import org.junit.jupiter.api.extension.ExtensionContext.Store.CloseableResource;
import org.junit.jupiter.api.extension.ParameterContext;
import org.junit.jupiter.api.extension.ParameterResolver;

/**
 * Gives tests of JUnit a {@link FakeLimiter}, the {@link Limiter} over it, and a server of {@link ThrottleDev} as
 * parameters.
 *
 * <pre>{@code
 * @ExtendWith(ThrottleExtension.class)
 * class MailerTest {
 *   @Test
 *   void theThirdMessageOfAMinuteIsRefused(FakeLimiter fake) { ... }
 * }
 * }</pre>
 *
 * <p>Each test has a limiter of its own. All tests of a class share one server, which is started when the first of them
 * asks for it, and is without keys at the begin of each test.
 */
public final class ThrottleExtension implements ParameterResolver {
  private static final Namespace NAMESPACE = Namespace.create(ThrottleExtension.class);

  private static final Map<Class<?>, Function<ExtensionContext, Object>> KNOWN =
      Map.of(
          FakeLimiter.class, ThrottleExtension::fake,
          Limiter.class, context -> fake(context).limiter(),
          ThrottleDev.class, ThrottleExtension::server);

  /** What the store of JUnit closes. */
  @SuppressWarnings("deprecation") // which JUnit before 5.13 needs
  private record Open(ThrottleDev server) implements CloseableResource {
    @Override
    public void close() {
      server.close();
    }
  }

  /** Is made by JUnit. */
  public ThrottleExtension() {}

  @Override
  public boolean supportsParameter(ParameterContext parameter, ExtensionContext context) {
    return KNOWN.containsKey(parameter.getParameter().getType());
  }

  @Override
  public Object resolveParameter(ParameterContext parameter, ExtensionContext context) {
    return Objects.requireNonNull(KNOWN.get(parameter.getParameter().getType())).apply(context);
  }

  private static FakeLimiter fake(ExtensionContext context) {
    return context.getStore(NAMESPACE).getOrComputeIfAbsent(FakeLimiter.class, type -> new FakeLimiter(), FakeLimiter.class);
  }

  private static ThrottleDev server(ExtensionContext context) {
    ExtensionContext ofClass = context.getParent().filter(parent -> parent.getTestClass().isPresent()).orElse(context);
    ThrottleDev server = ofClass.getStore(NAMESPACE).getOrComputeIfAbsent(Open.class, type -> new Open(ThrottleDev.start()), Open.class).server();
    context.getStore(NAMESPACE).getOrComputeIfAbsent("flushed", once -> flushed(server));
    return server;
  }

  private static boolean flushed(ThrottleDev server) {
    server.flush();
    return true;
  }
}
