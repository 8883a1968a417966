package io.github.redisthrottle.spring.web;

import io.github.redisthrottle.spring.RateLimitProperties;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.springframework.http.server.PathContainer;

/** The routes in {@code redis-throttle.routes}. The first that matches limits a request. */
public final class Routes {
  /**
   * Just before the filters of Spring Security, which have -100: they answer the requests of a login page themselves.
   */
  public static final int BEFORE_SECURITY = -102;

  /** Just behind the filters of Spring Security, for routes that ask who has signed in. */
  public static final int AFTER_SECURITY = -98;

  private final List<Route> routes = new ArrayList<>();

  /** Reads routes. What is wrong is refused with the name of the property. */
  public Routes(List<RateLimitProperties.Route> some, WebLimits web) {
    for (RateLimitProperties.Route one : some) {
      routes.add(new Route("redis-throttle.routes[" + routes.size() + "]", one, web));
    }
  }

  /** Returns the route of a request, if it is one that asks who has signed in, or one that does not. */
  public Optional<Route> match(String method, PathContainer path, boolean asksPrincipal) {
    return routes.stream().filter(route -> route.matches(method, path)).findFirst().filter(route -> route.asksPrincipal() == asksPrincipal);
  }
}
