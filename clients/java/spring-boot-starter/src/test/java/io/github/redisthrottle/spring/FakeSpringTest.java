package io.github.redisthrottle.spring;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.redisthrottle.FakeLimiter;
import io.github.redisthrottle.LimitedException;
import io.github.redisthrottle.Limiter;
import io.github.redisthrottle.spring.testing.AutoConfigureFakeLimiter;
import java.io.IOException;
import java.io.InputStream;
import java.net.URL;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.springframework.aot.generate.ClassNameGenerator;
import org.springframework.aot.generate.DefaultGenerationContext;
import org.springframework.aot.generate.InMemoryGeneratedFiles;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.beans.factory.aot.AotServices;
import org.springframework.beans.factory.aot.BeanRegistrationAotContribution;
import org.springframework.beans.factory.aot.BeanRegistrationAotProcessor;
import org.springframework.beans.factory.support.DefaultListableBeanFactory;
import org.springframework.beans.factory.support.RegisteredBean;
import org.springframework.beans.factory.support.RootBeanDefinition;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.javapoet.ClassName;
import org.springframework.util.ClassUtils;

/** Tests of applications without Redis. */
@SpringBootTest(
    webEnvironment = SpringBootTest.WebEnvironment.NONE,
    properties = "redis-throttle.limits.plans.pro=RATE 2/h")
@AutoConfigureFakeLimiter
class FakeSpringTest {
  @Autowired Application.Reports reports;
  @Autowired FakeLimiter fake;
  @Autowired Limiter limiter;

  /** The application. */
  @Configuration(proxyBeanMethods = false)
  @EnableAutoConfiguration
  static class Beans {
    @Bean
    Application.Reports reports() {
      return new Application.Reports();
    }
  }

  @RepeatedTest(2)
  void eachTestHasALimiterThatKnowsNothing() {
    assertEquals(fake.limiter(), limiter);
    Application.User ann = new Application.User("ann", false);
    reports.make(ann);
    reports.make(ann);
    assertThrows(LimitedException.class, () -> reports.make(ann));
    fake.advance(Duration.ofHours(1));
    reports.make(ann);
    fake.fail(); // which is over with the next test
    reports.make(ann);
  }

  @Test
  void slicesHaveItOnBothVersionsOfBoot() throws IOException {
    List<String> slices = new ArrayList<>();
    List<String> names =
        List.of(
            "org.springframework.boot.test.autoconfigure.web.servlet.AutoConfigureWebMvc",
            "org.springframework.boot.webmvc.test.autoconfigure.AutoConfigureWebMvc",
            "org.springframework.boot.test.autoconfigure.web.reactive.AutoConfigureWebFlux",
            "org.springframework.boot.webflux.test.autoconfigure.AutoConfigureWebFlux");
    for (String name : names) {
      for (URL url : Collections.list(getClass().getClassLoader().getResources("META-INF/spring/" + name + ".imports"))) {
        String text;
        try (InputStream in = url.openStream()) {
          text = new String(in.readAllBytes(), StandardCharsets.UTF_8);
        }
        if (text.contains("redisthrottle")) {
          slices.add(name);
          for (String line : text.lines().toList()) {
            assertTrue(ClassUtils.isPresent(line, null), line);
          }
        }
      }
    }
    assertEquals(4, slices.size());
  }

  @Test
  void aNativeImageHasWhatIsNeeded() throws NoSuchFieldException {
    RuntimeHints hints = new RuntimeHints();
    new NativeHints().registerHints(hints, getClass().getClassLoader());
    String field = LettuceConnectionFactory.class.getDeclaredField("configuration").getName();
    assertTrue(hints.reflection().getTypeHint(LettuceConnectionFactory.class).fields().anyMatch(hint -> hint.getName().equals(field)));
    assertTrue(RuntimeHintsPredicates.reflection().onType(Facts.class).test(hints));
  }

  @Test
  void aNativeImageKeepsMethodsThatAnswerForOthers() {
    DefaultListableBeanFactory beans = new DefaultListableBeanFactory();
    beans.registerBeanDefinition("kitchen", new RootBeanDefinition(InterfacesTest.Kitchen.class));
    beans.registerBeanDefinition("heard", new RootBeanDefinition(InterfacesTest.Heard.class));
    RuntimeHints hints = new RuntimeHints();
    DefaultGenerationContext context =
        new DefaultGenerationContext(new ClassNameGenerator(ClassName.get("test", "Application")), new InMemoryGeneratedFiles(), hints);
    for (BeanRegistrationAotProcessor processor : AotServices.factories().load(BeanRegistrationAotProcessor.class)) {
      if (processor.getClass().getName().startsWith("io.github.redisthrottle.")) {
        for (String name : beans.getBeanDefinitionNames()) {
          BeanRegistrationAotContribution contribution = processor.processAheadOfTime(RegisteredBean.of(beans, name));
          assertEquals(name.equals("kitchen"), contribution != null);
          if (contribution != null) {
            contribution.applyTo(context, null);
          }
        }
      }
    }
    assertTrue(RuntimeHintsPredicates.reflection().onType(InterfacesTest.Kitchen.class).withMemberCategory(MemberCategory.INVOKE_DECLARED_METHODS).test(hints));
  }
}
