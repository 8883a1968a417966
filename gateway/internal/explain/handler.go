package explain

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
)

// TokenField is the header field by which a request says that it may be told how it is decided.
const TokenField = "X-Throttle-Explain"

// Token is what TokenField has to hold. The zero Token is nobody's.
type Token struct {
	isSet bool
	sum   [sha256.Size]byte
}

// NewToken returns the Token of a text; "" is nobody's.
func NewToken(text string) Token { return Token{text != "", sha256.Sum256([]byte(text))} }

// IsSet says whether anybody has the token.
func (t *Token) IsSet() bool { return t.isSet }

// Is says whether a text is the token. It takes as long for one that is almost right as for any other.
func (t *Token) Is(text string) bool {
	if !t.isSet || text == "" {
		return false
	}
	sum := sha256.Sum256([]byte(text))
	return subtle.ConstantTimeCompare(sum[:], t.sum[:]) == 1
}

// BringsToken says whether a descriptor is there for the token alone: a request of the Rate Limit Service has no header
// fields.
func BringsToken(d *common.RateLimitDescriptor) bool {
	return len(d.GetEntries()) == 1 && d.GetEntries()[0].GetKey() == tokenKey
}

var tokenKey = strings.ToLower(TokenField)

// longestBody bounds what is read of a request.
const longestBody = 1 << 20

// Handler answers a Request that is sent as JSON. Keys are in its body, since paths and queries get into logs. With a
// token whoever has it may ask; without one, who asks a loopback address by its number or as localhost, and no page of
// another origin.
func (e *Explainer) Handler(token Token) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method != http.MethodPost || kind != "application/json" {
			w.Header().Set("Allow", http.MethodPost)
			fails(w, http.StatusMethodNotAllowed, "POST a request with Content-Type: application/json")
			return
		}
		if !token.Is(r.Header.Get(TokenField)) && !local(r) {
			fails(w, http.StatusForbidden, "from elsewhere, explain needs "+TokenField+" with the value of EXPLAIN_TOKEN")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestBody))
		if err != nil {
			fails(w, http.StatusRequestEntityTooLarge, "the request is too long")
			return
		}
		q, err := Parse(body)
		if err != nil {
			fails(w, http.StatusBadRequest, err.Error())
			return
		}
		answer, err := e.Explain(r.Context(), q)
		switch {
		case errors.Is(err, ErrNoConfig):
			fails(w, http.StatusServiceUnavailable, err.Error())
		case err != nil:
			fails(w, http.StatusBadRequest, err.Error())
		default:
			write(w, http.StatusOK, answer)
		}
	})
}

// local says whether a request has come to a loopback address, and neither by a name that somebody else may have
// pointed there nor from a page of another origin.
func local(r *http.Request) bool {
	at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok || !isLoopback(at.String()) || !isLoopback(r.Host) {
		return false
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && u.Host == r.Host
}

func isLoopback(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = strings.Trim(address, "[]")
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && addr.IsLoopback())
}

func fails(w http.ResponseWriter, status int, text string) {
	write(w, status, map[string]string{"error": text})
}

func write(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(answer) // the client has left
}
