package io.github.redisthrottle.spring;

import io.github.redisthrottle.http.Networks;
import java.util.HashSet;
import java.util.Set;
import org.jspecify.annotations.Nullable;

/** What expressions know of a request. Outside of one, everything is null. */
public interface Facts {
  /** The attribute of a request that has {@link #names}. */
  String NAMES = "io.github.redisthrottle.names";

  /** There is no request. */
  Facts NONE = new Facts() {};

  /** Returns the key that the address of the client makes: an IPv4 address, or the network of an IPv6 address. */
  default @Nullable String getAddress() {
    return null;
  }

  /** Returns whether the client is in one of these networks, and that is certain. */
  default boolean isFrom(Networks networks) {
    return false;
  }

  /** Returns the name of who has signed in; null for nobody. */
  default @Nullable String getPrincipal() {
    return null;
  }

  /** Returns the method of the request, such as GET. */
  default @Nullable String getMethod() {
    return null;
  }

  /** Returns the path of the request. */
  default @Nullable String getPath() {
    return null;
  }

  /** Returns the first value of a header field; null without one. */
  default @Nullable String header(String name) {
    return null;
  }

  /** Returns the names that limits of the response have already. */
  default Set<String> names() {
    return new HashSet<>();
  }

  /** Returns the first value of a parameter in the query; null without one. */
  default @Nullable String query(String name) {
    return null;
  }
}
