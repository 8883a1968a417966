package io.github.redisthrottle.spring;

import org.springframework.context.annotation.ImportSelector;
import org.springframework.core.type.AnnotationMetadata;
import org.springframework.util.ClassUtils;

/** Has a WebFlux application run on Reactor Netty: {@code @Import(Netty.class)}. Beside Tomcat it would not. */
final class Netty implements ImportSelector {
  private static final String OF_BOOT_3 = "org.springframework.boot.web.embedded.netty.NettyReactiveWebServerFactory";
  private static final String OF_BOOT_4 = "org.springframework.boot.reactor.netty.NettyReactiveWebServerFactory";

  @Override
  public String[] selectImports(AnnotationMetadata importing) {
    return new String[] {ClassUtils.isPresent(OF_BOOT_3, Netty.class.getClassLoader()) ? OF_BOOT_3 : OF_BOOT_4};
  }
}
