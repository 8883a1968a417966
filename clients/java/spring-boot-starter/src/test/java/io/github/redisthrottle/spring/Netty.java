package io.github.redisthrottle.spring;

import org.springframework.context.annotation.ImportSelector;
import org.springframework.core.type.AnnotationMetadata;
import org.springframework.util.ClassUtils;

/** Has a WebFlux application run on Reactor Netty: {@code @Import(Netty.class)}. Boot 3 prefers Tomcat. */
final class Netty implements ImportSelector {
  private static final String OF_BOOT_3 = "org.springframework.boot.web.embedded.netty.NettyReactiveWebServerFactory";
  private static final String OF_BOOT_4 = "org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory";

  /** Returns whether applications that have both run on Netty, as they do on Boot 4. */
  static boolean isDefault() {
    return !ClassUtils.isPresent(OF_BOOT_3, Netty.class.getClassLoader());
  }

  @Override
  public String[] selectImports(AnnotationMetadata importing) {
    return new String[] {isDefault() ? OF_BOOT_4 : OF_BOOT_3};
  }
}
