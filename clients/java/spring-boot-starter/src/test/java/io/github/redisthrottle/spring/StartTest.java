package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.spring.Application.Reports;
import io.github.redisthrottle.spring.Application.User;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.beans.factory.NoSuchBeanDefinitionException;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** What the log says at start. */
@ExtendWith(OutputCaptureExtension.class)
class StartTest {
  /** An application that needs no limiter. */
  @EnableAutoConfiguration
  static class Plain {
    @org.springframework.context.annotation.Bean
    Reports reports() {
      return new Reports();
    }
  }

  private static SpringApplicationBuilder plain() {
    return new SpringApplicationBuilder(Plain.class).web(WebApplicationType.NONE);
  }

  @Test
  void aWrongUrlIsRefusedWithoutItsPassword(CapturedOutput output) {
    for (String url : List.of("http://app:geheim@127.0.0.1:1", "redis://app:geh/eim@127.0.0.1:1")) {
      assertThrows(RuntimeException.class, () -> plain().run("--redis-throttle.limits.plans.pro=RATE 1/h", "--redis-throttle.url=" + url));
    }
    assertTrue(output.getAll().contains("The property redis-throttle.url cannot be used: it is none of Redis"), output.getAll());
    assertFalse(output.getAll().contains("geheim") || output.getAll().contains("geh/eim"), output.getAll());
  }

  @Test
  void whatIsSwitchedOffLimitsNothingAndSaysSo(CapturedOutput output) {
    try (var context = plain().run("--redis-throttle.enabled=false", "--redis-throttle.limits.plans.pro=RATE 1/h")) {
      for (int i = 1; i < 5; i++) {
        assertEquals("report " + i, context.getBean(Reports.class).make(new User("ann", false)));
      }
      assertThrows(NoSuchBeanDefinitionException.class, () -> context.getBean(Limiter.class));
    }
    assertTrue(output.getAll().contains("redis-throttle: redis-throttle.enabled is false, so nothing is limited"), output.getAll());
  }
}
