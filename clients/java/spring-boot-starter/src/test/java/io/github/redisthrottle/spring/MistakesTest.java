package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.github.redisthrottle.testing.Server;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.context.properties.bind.BindException;
import org.springframework.boot.context.properties.source.InvalidConfigurationPropertyValueException;
import org.springframework.boot.test.context.runner.WebApplicationContextRunner;
import org.springframework.core.env.MapPropertySource;

/** Mistakes of the configuration are refused at start, with the name of the property. */
class MistakesTest {
  private static final WebApplicationContextRunner RUNNER =
      new WebApplicationContextRunner()
          .withConfiguration(AutoConfigurations.of(RateLimitAutoConfiguration.class, RateLimitWebAutoConfiguration.class,
              RateLimitServletAutoConfiguration.class))
          .withPropertyValues("redis-throttle.url=redis://127.0.0.1:1", "redis-throttle.limits.plans.pro=RATE 5/s");

  private static Throwable root(Throwable failure) {
    Throwable at = failure;
    while (at.getCause() != null && !(at instanceof InvalidConfigurationPropertyValueException)) {
      at = at.getCause();
    }
    return at;
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "limits.plans.pro=RATE 5 | redis-throttle.limits.plans.pro | \"5\" is not count/period",
        "routes[0].limits=plans.por | redis-throttle.routes[0].limits | the names are plans.pro",
        "routes[0].paths=/api | redis-throttle.routes[0].limits | it is missing",
        "routes[0].limits=RATE 5/s,routes[0].paths=api | redis-throttle.routes[0].paths | does not begin with a slash",
        "routes[0].limits=RATE 5/s,routes[0].methods=post | redis-throttle.routes[0].methods | in capital letters",
        "routes[0].limits=RATE 5/s,routes[0].key=adress | redis-throttle.routes[0].key | none of address, method, path, principal",
        "routes[0].limits=RATE 5/s,routes[0].key=#user | redis-throttle.routes[0].key | there are no variables here",
        "routes[0].limits=RATE 5/s,routes[0].key=heder('X') | redis-throttle.routes[0].key | none of header(), query()",
        "routes[0].limits=RATE 5/s,routes[0].key=header( | redis-throttle.routes[0].key | is no expression",
        "routes[0].limits=RATE 5/s,routes[0].outage=Allow | redis-throttle.routes[0].outage | allow, deny or raise",
        "routes[0].limits=RATE 5/s,routes[0].name= | redis-throttle.routes[0].name | leave it out",
        "routes[0].limits=RATE 5/s,routes[0].ban-after=10/1h | redis-throttle.routes[0].ban-after | it goes with ban",
        "routes[0].limits=RATE 5/s,routes[0].ban=0s | redis-throttle.routes[0].ban | it must be positive",
        "routes[0].limits=RATE 5/s,routes[0].ban=1h,routes[0].ban-after=often | redis-throttle.routes[0].ban-after | such as 10/1h",
        "routes[0].limits=RATE 5/s,routes[0].keys[0].limits=RATE 5/s | redis-throttle.routes[0].keys | either keys",
        "routes[0].keys[0].key=address | redis-throttle.routes[0].keys[0].limits | it is missing",
        "clients.ipv6=129 | redis-throttle.clients.ipv6 | from 1 to 128",
        "clients.trusted=10.1.0.0/33 | redis-throttle.clients.trusted[0] | 10.1.0.0/24",
        "x-rate-limit=minutes | redis-throttle.x-rate-limit | neither seconds nor unix",
        "retry-after=1500ms | redis-throttle.retry-after | whole seconds",
        "poll=0s | redis-throttle.poll | shorter than a millisecond",
        "local.processes=0 | redis-throttle.local.processes | 1 or more, not 0",
        "local.processes=2,local.keys=0 | redis-throttle.local.keys | 1 or more, not 0",
        "local.keys=10 | redis-throttle.local.processes | it is missing",
        "local.never-more=true | redis-throttle.local.processes | it is missing",
        "timeout=0s | redis-throttle.timeout | it must be positive",
        "url=localhost | redis-throttle.url | such as redis://127.0.0.1:6379",
        "outgoing.github.max-wait=1s | redis-throttle.outgoing.github.limits | it is missing",
        "outgoing.github.limits=plans.por | redis-throttle.outgoing.github.limits | the names are plans.pro",
        "routes[0].limits= | redis-throttle.routes[0].limits | limits are missing",
        "routes[0].limits=RATE 5/s,routes[0].paths=/a/{ | redis-throttle.routes[0].paths | Expected close capture",
        "routes[0].limits=RATE 5/s,routes[0].cost=#bytes | redis-throttle.routes[0].cost | there are no variables here",
        "routes[0].limits=RATE 5/s,routes[0].skip=internal | redis-throttle.routes[0].skip | none of address, method, path, principal",
        "routes[0].limits=RATE 5/s,routes[0].skip=10.1.2.3/8 | redis-throttle.routes[0].skip | write 10.0.0.0/8, or the address 10.1.2.3",
        "routes[0].limits=RATE 5/s,routes[0].skip=127.0.0.1, 10.0.0.0/33 | redis-throttle.routes[0].skip | \"10.0.0.0/33\" is no address",
        "routes[0].limits=RATE 5/s,routes[0].skip=localhost | redis-throttle.routes[0].skip | none of address, method, path, principal",
        "routes[0].limits=RATE 5/s,routes[0].overload=open | redis-throttle.routes[0].overload | allow, deny or raise",
        "routes[0].limits=RATE 5/s,routes[0].mistake=closed | redis-throttle.routes[0].mistake | allow, deny or raise",
        "routes[0].limits=RATE 5/s,routes[0].key=header('X-' + path) | redis-throttle.routes[0].key | join texts outside",
        "routes[0].keys[0].limits=RATE 5/s,routes[0].keys[0].key=adress | redis-throttle.routes[0].keys[0].key | none of address",
        "routes[0].limits=RATE 5/s,routes[0].key=T(String).join(':' address) | redis-throttle.routes[0].key | is no expression",
        "routes[0].limits=RATE 5/s,routes[0].key=T(String).valueOf(address) | redis-throttle.routes[0].key | are for annotations",
        "routes[0].limits=RATE 5/s,routes[0].cost=@costs.of(path) | redis-throttle.routes[0].cost | are for annotations",
        "routes[0].keys[0].limits=plans.por | redis-throttle.routes[0].keys[0].limits | the names are plans.pro",
        "routes[0].keys[0].limits=RATE 5/s,routes[0].keys[0].name= | redis-throttle.routes[0].keys[0].name | leave it out",
        "clients.ipv6=0 | redis-throttle.clients.ipv6 | from 1 to 128",
        "clients.trusted=proxy | redis-throttle.clients.trusted[0] | no address and no network",
        "outage=open | redis-throttle.outage | allow, deny or raise",
        "overload=open | redis-throttle.overload | allow, deny or raise",
        "mistake=open | redis-throttle.mistake | allow, deny or raise",
        "retry-after=-1s | redis-throttle.retry-after | whole seconds",
        "outgoing.github.limits=plans.pro,outgoing.github.key= | redis-throttle.outgoing.github.key | leave it out",
        "outgoing.github.limits=plans.pro,outgoing.github.max-wait=-1s | redis-throttle.outgoing.github.max-wait | or longer",
      })
  void aMistakeIsRefusedWithTheNameOfTheProperty(String properties, String name, String reason) {
    String[] given = List.of(properties.split(",(?=routes|outgoing|local)", -1)).stream().map(one -> "redis-throttle." + one).toArray(String[]::new);
    RUNNER
        .withPropertyValues(given)
        .run(
            context -> {
              InvalidConfigurationPropertyValueException refused =
                  assertInstanceOf(InvalidConfigurationPropertyValueException.class, root(context.getStartupFailure()));
              assertEquals(name, refused.getName());
              assertTrue(refused.getReason().contains(reason), refused.getReason());
            });
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "redis-throttle.outtage=deny",
        "redis-throttle.route[0].limits=RATE 5/s",
        "redis-throttle.routes[0].limit=RATE 5/s",
        "redis-throttle.routes[0].skip[0]=10.0.0.0/8"
      })
  void aPropertyThatDoesNotExistIsRefused(String property) {
    RUNNER
        .withPropertyValues(property)
        .run(
            context -> {
              String name = property.split("=", 2)[0];
              assertTrue(root(context.getStartupFailure()).toString().contains(name), () -> root(context.getStartupFailure()).toString());
            });
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "timeout=soon",
        "poll=often",
        "retry-after=soon",
        "clients.ipv6=many",
        "local.processes=some",
        "routes[0].ban=long",
        "outgoing.github.max-wait=long",
        "gateway.replace-redis-rate-limiter=perhaps",
      })
  void aValueThatIsNoDurationOrNumberIsRefused(String property) {
    RUNNER
        .withPropertyValues("redis-throttle.routes[0].limits=RATE 5/s", "redis-throttle.outgoing.github.limits=RATE 5/s", "redis-throttle." + property)
        .run(
            context -> {
              String name = "redis-throttle." + property.split("=", 2)[0];
              BindException refused = find(context.getStartupFailure(), BindException.class);
              assertEquals(name, refused.getProperty() == null ? refused.getName().toString() : refused.getProperty().getName().toString());
            });
  }

  private static <T extends Throwable> T find(Throwable failure, Class<T> type) {
    Throwable found = null;
    for (Throwable at = failure; at != null; at = at.getCause()) {
      found = type.isInstance(at) ? at : found;
    }
    return assertInstanceOf(type, found, () -> String.valueOf(failure));
  }

  @Test
  void anAnswerIsOneOfThreeWords() throws IOException {
    JsonNode table = new ObjectMapper().readTree(Server.ROOT.resolve("spec/clients/undecided.json").toFile());
    List<String> refused = new ArrayList<>();
    table.get("refused").forEach(word -> refused.add(word.asText()));
    for (String kind : List.of("outage", "overload", "mistake")) {
      RUNNER.run(
          context -> assertEquals(table.at("/defaults/" + kind).asText(), word(context.getBean(RateLimitProperties.class), kind)));
      for (String word : refused) {
        RUNNER
            .withInitializer(context -> context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("word", Map.of("redis-throttle." + kind, word))))
            .run(context -> assertInstanceOf(InvalidConfigurationPropertyValueException.class, root(context.getStartupFailure()), kind + "=" + word));
      }
    }
  }

  private static String word(RateLimitProperties properties, String kind) {
    return switch (kind) {
      case "outage" -> properties.outage();
      case "overload" -> properties.overload();
      default -> properties.mistake();
    };
  }

  @Test
  void whereRedisIsMustBeSaid() {
    new WebApplicationContextRunner()
        .withConfiguration(AutoConfigurations.of(RateLimitAutoConfiguration.class))
        .run(
            context -> {
              InvalidConfigurationPropertyValueException refused =
                  assertInstanceOf(InvalidConfigurationPropertyValueException.class, root(context.getStartupFailure()));
              assertEquals("redis-throttle.url", refused.getName());
            });
  }

  static class NoName {
    @RateLimit(limits = "plans.por")
    public void call() {}
  }

  static class NoParameter {
    @RateLimit(key = "#usr.id", limits = "plans.pro")
    public void call(Application.User user) {}
  }

  static class NoProxy {
    @RateLimit(limits = "plans.pro")
    public final void call() {}
  }

  static final class FinalClass {
    @RateLimit(limits = "plans.pro")
    public void call() {}
  }

  record FinalRecord(String name) {
    @RateLimit(limits = "plans.pro")
    public void call() {}
  }

  static class WrongCost {
    @RateLimit(limits = "plans.pro", cost = "#bytes")
    public void call(int size) {}
  }

  @Test
  void anAnnotationIsCheckedWhenTheBeanIsMade() {
    refused(FinalClass.class, "@RateLimit of FinalClass.call: the class is final");
    refused(FinalRecord.class, "@RateLimit of FinalRecord.call: the class is final", "a name");
    refused(WrongCost.class, "@RateLimit of WrongCost.call: cost: \"#bytes\": the variables are #a0, #p0, #size");
    refused(NoName.class, "@RateLimit of NoName.call: limits: \"plans.por\" is no name of limits (the names are plans.pro)");
    refused(NoParameter.class, "@RateLimit of NoParameter.call: key: \"#usr\": the variables are #a0, #p0, #user");
    refused(NoProxy.class, "@RateLimit of NoProxy.call: a proxy cannot limit a method that is private, static or final");
  }

  private static void refused(Class<?> bean, String message, Object... arguments) {
    RUNNER
        .withBean(bean, arguments)
        .run(context -> assertTrue(context.getStartupFailure().toString().contains(message), () -> context.getStartupFailure().toString()));
  }
}
