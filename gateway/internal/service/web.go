package service

import (
	"cmp"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/decide"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

// Route is what serves a path, by which name traces know it: "" if nothing does.
func Route(path string) string {
	switch {
	case path == "/check" || path == "/check*" || strings.HasPrefix(path, "/check/"): // with a star for OPTIONS *
		return "/check"
	case strings.HasPrefix(path, "/domains/"):
		return "/domains/{domain}/check"
	case path == "/json" || path == "/healthcheck" || path == "/livez":
		return path
	}
	return ""
}

// Handler serves the routes of HTTP.
func (s *Service) Handler(healthy func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not http.ServeMux: what stands behind /check is the path of another request, as it came.
		escaped := cmp.Or(r.URL.RawPath, r.URL.EscapedPath())
		switch Route(escaped) {
		case "/json":
			s.json(w, r)
		case "/livez": // the process answers, whatever it needs
			_, _ = io.WriteString(w, "OK")
		case "/healthcheck":
			if !healthy() {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
			_, _ = io.WriteString(w, "OK")
		case "/check":
			s.check(w, r, "", strings.TrimPrefix(escaped, "/check"))
		case "/domains/{domain}/check":
			name, rest, found := strings.Cut(strings.TrimPrefix(escaped, "/domains/"), "/check")
			domain, err := url.PathUnescape(name)
			if !found || err != nil || name == "" || (rest != "" && rest[0] != '/') {
				http.NotFound(w, r)
				return
			}
			s.check(w, r, domain, rest)
		default:
			http.NotFound(w, r)
		}
	})
}

// json takes a RateLimitRequest as JSON, as upstream does.
func (s *Service) json(w http.ResponseWriter, r *http.Request) {
	defer s.metrics.took("json", time.Now())
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(s.settings.MaxRequestBytes)))
	request := &rls.RateLimitRequest{}
	if err == nil {
		err = protojson.Unmarshal(body, request)
	}
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		s.refuse("json", tooLong)
		http.Error(w, "the request is too long", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		s.refuse("json", unreadable)
		http.Error(w, "expected a RateLimitRequest as JSON", http.StatusBadRequest)
		return
	}
	response, err := s.answer(r.Context(), request, "json")
	if err != nil {
		http.Error(w, status.Convert(err).Message(), httpStatus(err))
		return
	}
	text, err := protojson.Marshal(response)
	if err != nil {
		http.Error(w, http.StatusText(http.StatusInternalServerError), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response.OverallCode == rls.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(text)
}

// check decides about the request that a proxy has got. Its path stands behind /check, or in X-Forwarded-Uri if nothing does.
func (s *Service) check(w http.ResponseWriter, r *http.Request, name, rest string) {
	defer s.metrics.took("check", time.Now())
	d, err := s.routed(name)
	if errors.Is(err, errNoConfig) {
		s.refuse("check", noConfig)
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		s.refuse("check", noRoutes)
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	original, err := originalOf(r, rest)
	if err != nil {
		s.refuse("check", incomplete)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	var asks []decide.Ask
	for _, route := range d.Routes.Of(original) {
		for _, entries := range route.Descriptors(original) {
			asks = append(asks, decide.Ask{Match: d.Match(entries), Hits: route.Cost})
		}
	}
	if len(asks) == 0 {
		w.WriteHeader(http.StatusOK)
		return
	}
	o, err := s.decideDescriptors(r.Context(), d, asks, "check")
	if err != nil {
		code := httpStatus(s.failure(r.Context(), err))
		if code == http.StatusServiceUnavailable {
			w.Header().Set("Retry-After", "1")
		}
		http.Error(w, http.StatusText(code), code)
		return
	}
	writeCheck(w, d.Routes.Denied, &o)
}

// httpStatus is for a request that was not decided: 503 if that passes by itself. Proxies take it and 500 for a failure.
func httpStatus(err error) int {
	switch status.Code(err) {
	case codes.InvalidArgument:
		return http.StatusBadRequest
	case codes.Internal:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

func writeCheck(w http.ResponseWriter, denied int, o *outcome) {
	policies, result := o.Policies, o.Result
	httplimit.SetFields(w.Header(), policies, result)
	if !o.Over {
		w.WriteHeader(http.StatusOK)
		return
	}
	if !result.Limited { // a descriptor without requests, or one that takes none
		result, policies = ratelimit.Result{Limited: true, RetryAfter: longest(o.Statuses), By: "policy"}, nil
	}
	if result.RetryAfter > 0 && w.Header().Get("Retry-After") == "" {
		w.Header().Set("Retry-After", strconv.FormatInt(max(seconds(result.RetryAfter), 1), 10))
	}
	httplimit.WriteProblem(w, denied, policies, result)
}

// longest is how long the limits deny that are over; ratelimit.Never if one always will.
func longest(all []decide.Status) (d time.Duration) {
	for i := range all {
		if !all[i].Over || all[i].Shadow {
			continue
		}
		if all[i].RetryAfter == ratelimit.Never {
			return ratelimit.Never
		}
		d = max(d, all[i].RetryAfter)
	}
	return d
}

// routed is the domain that a check is about: the named one, or the only one with routes.
func (s *Service) routed(name string) (only *config.Domain, err error) {
	c := s.config.Load()
	if c == nil {
		return nil, errNoConfig
	}
	domains := c.Domains
	if name != "" {
		if d := domains[name]; d != nil && d.Routes != nil {
			return d, nil
		}
		return nil, errors.New("no domain of this name has routes")
	}
	for _, d := range domains {
		if d.Routes != nil {
			if only != nil {
				return nil, errors.New("several domains have routes: ask /domains/NAME/check")
			}
			only = d
		}
	}
	if only == nil {
		return nil, errors.New("no domain has routes")
	}
	return only, nil
}

// originalOf is the request that the proxy asks about. Where its path stands behind /check, its method is that of the check, and the
// header fields that name another one are the client's and do not count.
func originalOf(r *http.Request, rest string) (*http.Request, error) {
	original := r.Clone(r.Context())
	if rest == "" && (r.URL.RawQuery != "" || r.URL.ForceQuery) {
		rest = "/" // of "GET http://host?query", for which nginx asks "/check?query"
	}
	if rest == "" {
		uri := r.Header.Get("X-Forwarded-Uri")
		if uri == "" {
			return nil, errors.New("the path of the request is missing: ask /check/PATH, or set X-Forwarded-Uri")
		}
		if method := r.Header.Get("X-Forwarded-Method"); method != "" {
			original.Method = method
		}
		if host := r.Header.Get("X-Forwarded-Host"); host != "" {
			original.Host = host
		}
		rest = uri
	} else if r.URL.RawQuery != "" {
		rest += "?" + r.URL.RawQuery
	}
	original.URL, original.RequestURI = config.Target(rest), rest
	return original, nil
}
