package io.github.redisthrottle.spring;

import java.util.function.Function;
import org.jspecify.annotations.Nullable;
import org.springframework.boot.context.properties.source.InvalidConfigurationPropertyValueException;

/** Values of properties: what is wrong is refused at start, with the name of the property. */
public final class Settings {
  private Settings() {}

  /** Reads the value of a property. */
  public static <T extends @Nullable Object, R> R value(String property, T value, Function<? super T, R> read) {
    try {
      return read.apply(value);
    } catch (IllegalArgumentException e) {
      throw wrong(property, value, String.valueOf(e.getMessage()));
    }
  }

  /** Makes the error about a property. */
  public static RuntimeException wrong(String property, @Nullable Object value, String reason) {
    return new InvalidConfigurationPropertyValueException(property, value, reason);
  }
}
