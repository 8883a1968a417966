package io.github.redisthrottle.spring.servlet;

import io.github.redisthrottle.spring.web.Cors;
import jakarta.servlet.Filter;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import org.jspecify.annotations.Nullable;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.core.annotation.AnnotationAwareOrderComparator;
import org.springframework.util.ClassUtils;
import org.springframework.web.cors.CorsConfiguration;
import org.springframework.web.cors.CorsConfigurationSource;
import org.springframework.web.cors.DefaultCorsProcessor;
import org.springframework.web.filter.CorsFilter;
import org.springframework.web.servlet.HandlerExecutionChain;
import org.springframework.web.servlet.HandlerInterceptor;
import org.springframework.web.servlet.HandlerMapping;

/**
 * The application's CORS, for responses of filters that stand before it: a browser shows a page nothing of a response
 * without it. It is that of a CorsFilter, also one of Spring Security, of a CorsConfigurationSource, or of Spring MVC.
 */
public final class ServletCors {
  private static final boolean MVC = isPresent("org.springframework.web.servlet.HandlerMapping");
  private static final boolean SECURITY = isPresent("org.springframework.security.web.SecurityFilterChain");

  private final ListableBeanFactory beans;

  /** Makes one that asks for the beans when it needs them. */
  public ServletCors(ListableBeanFactory beans) {
    this.beans = beans;
  }

  private static boolean isPresent(String name) {
    return ClassUtils.isPresent(name, ServletCors.class.getClassLoader());
  }

  /** Sets the fields of a response, unless another filter has done so, or the request is of the same origin. */
  void apply(HttpServletRequest request, HttpServletResponse response) throws ServletException, IOException {
    if (request.getHeader(Cors.ORIGIN) == null || response.getHeader(Cors.ALLOW_ORIGIN) != null) {
      return;
    }
    for (CorsFilter filter : filters(request)) {
      if (response.getHeader(Cors.ALLOW_ORIGIN) == null) {
        filter.doFilter(request, response, (asked, answered) -> {});
      }
    }
    CorsConfiguration configuration = response.getHeader(Cors.ALLOW_ORIGIN) == null ? configuration(request) : null;
    if (configuration != null) {
      var unused = new DefaultCorsProcessor().processRequest(configuration, request, response);
    }
  }

  private List<CorsFilter> filters(HttpServletRequest request) {
    List<CorsFilter> found = new ArrayList<>();
    if (SECURITY) {
      found.addAll(Security.filters(beans, request));
    }
    beans.getBeanProvider(CorsFilter.class).orderedStream().forEach(found::add);
    for (FilterRegistrationBean<?> registered : beans.getBeansOfType(FilterRegistrationBean.class, true, false).values()) {
      if (registered.getFilter() instanceof CorsFilter filter) {
        found.add(filter);
      }
    }
    return found;
  }

  private @Nullable CorsConfiguration configuration(HttpServletRequest request) {
    if (beans.containsBean("corsConfigurationSource") && beans.getBean("corsConfigurationSource") instanceof CorsConfigurationSource source) {
      CorsConfiguration found = source.getCorsConfiguration(request);
      if (found != null) {
        return found;
      }
    }
    return MVC ? Mvc.configuration(beans, request) : null;
  }

  /** Loaded only with Spring Security. */
  private static final class Security {
    static List<CorsFilter> filters(ListableBeanFactory beans, HttpServletRequest request) {
      return beans
          .getBeanProvider(org.springframework.security.web.SecurityFilterChain.class)
          .orderedStream()
          .filter(chain -> chain.matches(request))
          .findFirst()
          .stream()
          .flatMap(chain -> chain.getFilters().stream())
          .filter((Filter filter) -> filter instanceof CorsFilter)
          .map(CorsFilter.class::cast)
          .toList();
    }
  }

  /** Loaded only with Spring MVC. Its mappings have an interceptor that knows the CORS of a handler. */
  private static final class Mvc {
    static @Nullable CorsConfiguration configuration(ListableBeanFactory beans, HttpServletRequest request) {
      List<HandlerMapping> mappings = new ArrayList<>(beans.getBeansOfType(HandlerMapping.class, true, false).values());
      AnnotationAwareOrderComparator.sort(mappings);
      for (HandlerMapping mapping : mappings) {
        HandlerExecutionChain chain = handler(mapping, request);
        if (chain != null) {
          for (HandlerInterceptor interceptor : chain.getInterceptorList()) {
            if (interceptor instanceof CorsConfigurationSource source) {
              return source.getCorsConfiguration(request);
            }
          }
          return null;
        }
      }
      return null;
    }

    private static @Nullable HandlerExecutionChain handler(HandlerMapping mapping, HttpServletRequest request) {
      try {
        return mapping.getHandler(request);
      } catch (Exception e) { // such as of a method that no handler takes
        return null;
      }
    }
  }
}
