package explain

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	rls "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"golang.org/x/net/http/httpguts"
	"google.golang.org/protobuf/encoding/protojson"

	"redis-throttle/gateway/internal/config"
)

// Request is what is to be explained: either HTTP or RateLimit.
type Request struct {
	// Domain is that of a request of HTTP. It may be left out if one domain has routes.
	Domain string `json:"domain,omitempty"`
	HTTP   *HTTP  `json:"http,omitempty"`
	// RateLimit is a RateLimitRequest of Envoy, as JSON.
	RateLimit json.RawMessage `json:"ratelimit,omitempty"`
}

// HTTP is a request of HTTP, as the proxy has got it that asks about it.
type HTTP struct {
	Method  string            `json:"method,omitempty"` // GET without it
	Target  string            `json:"target"`           // a path with its query, or a URL
	Host    string            `json:"host,omitempty"`
	Headers map[string]Values `json:"headers,omitempty"`
	// From is the address that the request comes from; "@" is a Unix socket. The fields of X-Forwarded-For count where
	// it is one of trusted_proxies.
	From string `json:"from,omitempty"`
}

// Values are those of a header field. JSON may have one of them as a text.
type Values []string

// UnmarshalJSON is of json.Unmarshaler.
func (v *Values) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*v = Values{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(v))
}

// Parse reads a Request.
func Parse(text []byte) (q Request, err error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&q); err != nil {
		return q, fmt.Errorf("expected JSON such as {\"http\": {\"method\": \"POST\", \"target\": \"/login\", \"from\": \"203.0.113.7\"}}: %w", err)
	}
	if decoder.More() {
		return q, errors.New("expected one request, and there is something behind it")
	}
	return q, nil
}

// Typed is a request of HTTP as a person types it: "POST /login?x=1", where it comes from, and header fields such as
// "X-Api-Key: k".
func Typed(line, from string, headers []string) (Request, error) {
	h := &HTTP{From: from, Headers: map[string]Values{}}
	var found bool
	if h.Method, h.Target, found = strings.Cut(strings.TrimSpace(line), " "); !found {
		h.Method, h.Target = "", h.Method
	}
	for _, text := range headers {
		name, value, found := strings.Cut(text, ":")
		if !found {
			return Request{}, fmt.Errorf("header field %s: expected NAME: VALUE", shown(text))
		}
		h.Headers[name] = append(h.Headers[name], strings.Trim(value, " \t"))
	}
	return Request{HTTP: h}, nil
}

// localhost is where a request comes from that does not say so.
const localhost = "127.0.0.1"

// request is the request as the routes see it.
func (h *HTTP) request() (*http.Request, error) {
	q := &http.Request{Method: h.Method, Host: h.Host, Header: http.Header{}, RequestURI: h.Target}
	if q.Method == "" {
		q.Method = http.MethodGet
	}
	for _, c := range q.Method {
		if !httpguts.IsTokenRune(c) {
			return nil, fmt.Errorf("method: %q is none, such as GET or POST", q.Method)
		}
	}
	switch target := h.Target; {
	case strings.HasPrefix(target, "http://"), strings.HasPrefix(target, "https://"):
		if u, err := url.Parse(target); err == nil && q.Host == "" {
			q.Host = u.Host
		}
		q.URL = config.Target(target)
	case strings.HasPrefix(target, "/"), target == "*":
		q.URL = config.Target(target)
	default:
		return nil, fmt.Errorf("target: %s: expected a path, such as /login?x=1, or a URL", shown(target))
	}
	for name, values := range h.Headers {
		if !httpguts.ValidHeaderFieldName(name) {
			return nil, fmt.Errorf("headers: %s is no name of a header field", shown(name))
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return nil, fmt.Errorf("headers: %s: a value must not hold line feeds or other control characters", name)
			}
			if http.CanonicalHeaderKey(name) != "Host" {
				q.Header.Add(name, value)
			} else if q.Host == "" {
				q.Host = value
			}
		}
	}
	var err error
	q.RemoteAddr, err = peer(h.From)
	return q, err
}

// peer is an address as net/http has it.
func peer(from string) (string, error) {
	if from == "" {
		from = localhost
	}
	if from[0] == '@' || from[0] == '/' { // a Unix socket
		return "@", nil
	}
	if at, err := netip.ParseAddrPort(from); err == nil {
		return at.String(), nil
	}
	addr, err := netip.ParseAddr(strings.Trim(from, "[]"))
	if err != nil {
		return "", fmt.Errorf("from: %s: expected an address, such as 203.0.113.7 or 2001:db8::1", shown(from))
	}
	return netip.AddrPortFrom(addr, 1).String(), nil
}

// message reads a RateLimitRequest.
func message(text []byte, most int) (*rls.RateLimitRequest, error) {
	m := &rls.RateLimitRequest{}
	if err := protojson.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf(`ratelimit: expected {"domain": "web", "descriptors": [{"entries": [{"key": "user", "value": "42"}]}]}: %w`, err)
	}
	switch n := len(m.GetDescriptors()); {
	case m.GetDomain() == "":
		return nil, errors.New("ratelimit: the domain must not be empty")
	case n == 0:
		return nil, errors.New("ratelimit: the list of descriptors must not be empty")
	case n > most:
		return nil, fmt.Errorf("ratelimit: there are %d descriptors, and MAX_DESCRIPTORS is %d", n, most)
	}
	return m, nil
}
