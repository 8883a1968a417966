package io.github.redisthrottle.spring;

import org.jspecify.annotations.Nullable;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.aot.hint.TypeReference;

/**
 * What a native image has to keep beside what the core says: what expressions read, and where a factory of Lettuce
 * goes.
 */
final class NativeHints implements RuntimeHintsRegistrar {
  @Override
  public void registerHints(RuntimeHints hints, @Nullable ClassLoader loader) {
    hints.reflection().registerType(Facts.class, MemberCategory.INVOKE_PUBLIC_METHODS);
    for (String facts : new String[] {"servlet.ServletFacts", "reactive.ExchangeFacts"}) {
      hints.reflection().registerType(TypeReference.of("io.github.redisthrottle.spring." + facts), MemberCategory.INVOKE_PUBLIC_METHODS);
    }
    hints
        .reflection()
        .registerTypeIfPresent(loader, "org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory", type -> type.withField("configuration"));
  }
}
