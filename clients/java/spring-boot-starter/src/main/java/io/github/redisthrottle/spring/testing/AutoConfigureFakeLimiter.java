package io.github.redisthrottle.spring.testing;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;

/**
 * Has a {@link io.github.redisthrottle.FakeLimiter} decide in a test with {@code @SpringBootTest}, which then needs no
 * Redis. {@code @WebMvcTest} and {@code @WebFluxTest} have it without the annotation. The limiter is a bean, and new
 * for each test:
 *
 * <pre>{@code
 * @SpringBootTest
 * @AutoConfigureFakeLimiter
 * class LoginTest {
 *   @Autowired FakeLimiter fake;
 * }
 * }</pre>
 */
@Documented
@Inherited
@Retention(RetentionPolicy.RUNTIME)
@Target(ElementType.TYPE)
@ImportAutoConfiguration(FakeLimiterAutoConfiguration.class)
public @interface AutoConfigureFakeLimiter {}
