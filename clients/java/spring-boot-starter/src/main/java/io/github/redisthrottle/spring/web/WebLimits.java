package io.github.redisthrottle.spring.web;

import io.github.redisthrottle.Decider;
import io.github.redisthrottle.http.ClientAddress;
import io.github.redisthrottle.http.HeaderFields.XRateLimit;
import io.github.redisthrottle.http.Networks;
import io.github.redisthrottle.spring.Answers;
import io.github.redisthrottle.spring.NamedLimits;
import io.github.redisthrottle.spring.RateLimitProperties;
import io.github.redisthrottle.spring.Settings;
import java.util.List;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.commons.logging.Log;
import org.apache.commons.logging.LogFactory;
import org.jspecify.annotations.Nullable;

/**
 * What all limits of requests have in common.
 *
 * @param decider decides calls
 * @param limits the named limits
 * @param answers what becomes of requests without a decision
 * @param extra whether there are X-RateLimit fields
 * @param address which key the address of a client makes
 * @param trusts whether any proxy is trusted
 * @param preflights whether preflights of browsers are charged
 */
public record WebLimits(
    Decider decider, NamedLimits limits, Answers answers, XRateLimit extra, ClientAddress address, boolean trusts, boolean preflights) {
  private static final Log LOG = LogFactory.getLog("io.github.redisthrottle");
  private static final Set<String> WARNED = ConcurrentHashMap.newKeySet();

  /** Reads them. What is wrong is refused with the name of the property. */
  public static WebLimits of(Decider decider, NamedLimits limits, Answers answers, RateLimitProperties properties) {
    List<String> given = properties.clients().trusted();
    List<String> trusted = given == null ? List.of() : given;
    for (int i = 0; i < trusted.size(); i++) {
      Settings.value("redis-throttle.clients.trusted[" + i + "]", trusted.get(i), one -> ClientAddress.behind(List.of(one)));
    }
    ClientAddress address = Settings.value("redis-throttle.clients.ipv6", properties.clients().ipv6(), bits -> ClientAddress.behind(trusted).ipv6(bits));
    XRateLimit extra = Settings.value("redis-throttle.x-rate-limit", properties.xRateLimit(), WebLimits::extra);
    return new WebLimits(decider, limits, answers, extra, address, !trusted.isEmpty(), properties.preflights());
  }

  private static XRateLimit extra(@Nullable String word) {
    if (word == null) {
      return XRateLimit.NONE;
    }
    return switch (word) {
      case "seconds" -> XRateLimit.SECONDS;
      case "unix" -> XRateLimit.UNIX;
      default -> throw new IllegalArgumentException("\"" + word + "\" is neither seconds nor unix");
    };
  }

  /**
   * Returns the key of a client.
   *
   * @param peer the address of who has sent the request; null without one
   * @param local whether it came over a Unix socket
   * @param forwarded the values of X-Forwarded-For, in order
   */
  public String client(@Nullable String peer, boolean local, List<String> forwarded) {
    boolean isNobody = peer == null || peer.isEmpty();
    // A peer that has closed its connection has no address either, but nobody believes what it says.
    String key = address.key(peer, isNobody && !local ? List.of() : forwarded);
    if (key.equals(ClientAddress.NOBODY)) {
      warnOnce(
          "a request has no address, as at a Unix socket, so all such requests share their limit; give a key, or have the proxy send"
              + " X-Forwarded-For");
    } else if (!forwarded.isEmpty() && !isNobody && !trusts) {
      warnOnce(
          "a request has X-Forwarded-For, but no proxy is trusted; behind a proxy all clients share the key of the proxy: say which proxies"
              + " are trusted, by redis-throttle.clients.trusted, or set server.forward-headers-strategy to native");
    }
    return key;
  }

  /**
   * Returns whether a request comes from networks, and that is certain.
   *
   * @param networks the networks
   * @param peer the address of who has sent the request; null without one
   * @param local whether it came over a Unix socket
   * @param forwarded the values of X-Forwarded-For, in order
   */
  public boolean isFrom(Networks networks, @Nullable String peer, boolean local, List<String> forwarded) {
    boolean isNobody = peer == null || peer.isEmpty();
    boolean isFrom = address.isFrom(networks, peer, isNobody && !local ? List.of() : forwarded);
    if (!isFrom && !trusts && !forwarded.isEmpty()) {
      warnOnce(
          "skip has networks, and a request has X-Forwarded-For, but no proxy is trusted, so it is limited; name the proxies by"
              + " redis-throttle.clients.trusted");
    }
    return isFrom;
  }

  /**
   * Says that networks do not count, since Spring has put what a client wrote in place of the peer, and dropped the
   * header.
   */
  public void warnOfHiddenPeer() {
    warnOnce(
        "skip has networks, and nobody is in one: Spring's ForwardedHeaderTransformer takes for the peer what a client wrote; set"
            + " server.forward-headers-strategy to none, and name the proxies by redis-throttle.clients.trusted");
  }

  static void warnOnce(String warning) {
    if (WARNED.add(warning)) {
      LOG.warn("redis-throttle: " + warning);
    }
  }
}
