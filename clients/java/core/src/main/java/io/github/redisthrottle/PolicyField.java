package io.github.redisthrottle;

import java.util.regex.Pattern;
import org.jspecify.annotations.Nullable;

/**
 * A field of the hash of policies: the name of a policy, name/prefix* or name/key.
 *
 * @param name the policy
 * @param key the key that it is for; null if it is for several
 * @param prefix what the keys begin with that it is for; null if it is for one, or for all
 */
record PolicyField(String name, @Nullable String key, @Nullable String prefix) {
  private static final Pattern NAME = Pattern.compile("[A-Za-z0-9._-]{1,64}");

  static PolicyField parse(String field) {
    int slash = field.indexOf('/');
    if (slash < 0) {
      return new PolicyField(name(field), null, null);
    }
    String name = name(field.substring(0, slash));
    String rest = field.substring(slash + 1);
    return rest.endsWith("*") ? new PolicyField(name, null, rest.substring(0, rest.length() - 1)) : new PolicyField(name, rest, null);
  }

  /** Returns the name of a policy if it is one. */
  static String name(String name) {
    if (!NAME.matcher(name).matches()) {
      throw new IllegalArgumentException("\"" + name + "\" is not the name of a policy: 1 to 64 of A-Z, a-z, 0-9, dot, underscore and hyphen");
    }
    return name;
  }
}
