package service

import (
	"cmp"
	"errors"
	"fmt"
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
	"redis-throttle/gateway/internal/explain"
	"redis-throttle/ratelimit"
	"redis-throttle/ratelimit/httplimit"
)

// form says where a proxy puts the path of the request that it asks about. The address of the check alone decides that,
// so that no client can choose it.
type form int

const (
	behind    form = iota // /check/PATH: behind the address
	forwarded             // /forward: in X-Forwarded-Uri
)

// endpoint is what serves a path: the name that traces know it by, "" if nothing does, and of a check the domain, the
// form and what stands behind the address.
type endpoint struct {
	name, domain, rest string
	form               form
}

// Route is the name of what serves a path: "" if nothing does.
func Route(path string) string { return endpointOf(path).name }

func endpointOf(path string) endpoint {
	switch path {
	case "/json", "/healthcheck", "/livez":
		return endpoint{name: path}
	case "/forward":
		return endpoint{name: path, form: forwarded}
	}
	if rest, ok := strings.CutPrefix(path, "/check"); ok && isPath(rest) {
		return endpoint{name: "/check", rest: rest}
	}
	behindDomains, ok := strings.CutPrefix(path, "/domains/")
	if !ok {
		return endpoint{}
	}
	escaped, rest, _ := strings.Cut(behindDomains, "/")
	domain, err := url.PathUnescape(escaped)
	if err != nil || domain == "" {
		return endpoint{}
	}
	if rest == "forward" {
		return endpoint{name: "/domains/{domain}/forward", domain: domain, form: forwarded}
	}
	if rest, ok = strings.CutPrefix(rest, "check"); ok && isPath(rest) {
		return endpoint{name: "/domains/{domain}/check", domain: domain, rest: rest}
	}
	return endpoint{}
}

// isPath says whether text can stand behind the address of a check: a path, that of OPTIONS *, or none.
func isPath(text string) bool { return text == "" || text == "*" || text[0] == '/' }

// Handler serves the routes of HTTP.
func (s *Service) Handler(healthy func() bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Not http.ServeMux: what stands behind /check is the path of another request, as it came.
		switch e := endpointOf(cmp.Or(r.URL.RawPath, r.URL.EscapedPath())); e.name {
		case "":
			http.NotFound(w, r)
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
		default:
			s.check(w, r, e)
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

// check decides about the request that a proxy has got.
func (s *Service) check(w http.ResponseWriter, r *http.Request, e endpoint) {
	defer s.metrics.took("check", time.Now())
	d, err := s.routed(e.domain)
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
	original, err := originalOf(r, e)
	if err != nil {
		s.refuse("check", incomplete)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	asks := decide.AsksOf(d, original)
	told := s.token.IsSet() && s.token.Is(r.Header.Get(explain.TokenField))
	if len(asks) == 0 {
		if told {
			w.Header().Set(ruleField, noRule)
		}
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
	if told {
		w.Header().Set(ruleField, ruleOf(&o))
	}
	writeCheck(w, d.Routes.Denied, &o)
}

// httpStatus is for a request that was not decided: 503 if that passes by itself. Proxies take it and 500 for a
// failure.
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

// routed is the domain that a check is about.
func (s *Service) routed(name string) (*config.Domain, error) {
	c := s.config.Load()
	if c == nil {
		return nil, errNoConfig
	}
	return c.Routed(name)
}

// originalOf is the request that the proxy asks about.
func originalOf(r *http.Request, e endpoint) (*http.Request, error) {
	original := r.WithContext(r.Context()) // a copy, whose header fields nobody changes
	var uri string
	var err error
	if e.form == forwarded {
		uri, err = forwardedTo(original)
	} else {
		uri, err = behindCheck(r, e.rest)
	}
	if err != nil {
		return nil, err
	}
	original.URL, original.RequestURI = config.Target(uri), uri
	return original, nil
}

// behindCheck is what stands behind the address, and the query. The method and the host are those of the check itself:
// the header fields that name others are the client's, and do not count.
func behindCheck(r *http.Request, rest string) (uri string, err error) {
	if rest == "" { // nginx has no path of "GET http://host", nor of "GET http://host?query"
		if r.Header[forwardedURI] != nil { // of a proxy that means /forward, for which all requests would be one
			return "", errors.New("the path of the request is missing behind /check: a proxy that sends X-Forwarded-Uri asks /forward")
		}
		rest = "/"
	}
	if r.URL.RawQuery != "" {
		rest += "?" + r.URL.RawQuery
	}
	return rest, nil
}

const (
	forwardedURI    = "X-Forwarded-Uri"
	forwardedMethod = "X-Forwarded-Method"
	forwardedHost   = "X-Forwarded-Host"
)

// forwardedTo is the path and the query in X-Forwarded-Uri. The method and the host are set that the other fields name.
// A query of the check itself means nothing: Caddy adds that of the client.
func forwardedTo(r *http.Request) (uri string, err error) {
	for _, name := range []string{forwardedURI, forwardedMethod, forwardedHost} {
		if len(r.Header[name]) > 1 { // the proxy has added its own to that of a client
			return "", fmt.Errorf("%s is there twice: the proxy has to replace what a client writes there", name)
		}
	}
	if uri = r.Header.Get(forwardedURI); uri == "" {
		return "", errors.New("the path of the request is missing: set X-Forwarded-Uri, or ask /check/PATH")
	}
	r.Method = cmp.Or(r.Header.Get(forwardedMethod), r.Method)
	r.Host = cmp.Or(r.Header.Get(forwardedHost), r.Host)
	return uri, nil
}
