package console

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
)

// protect has browsers run nothing but the page's own files, show it in no frame, and tell nobody where they come from.
func protect(h http.Header) {
	h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
		"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
}

// refuses says why nothing is served to r; "" where something is.
func (c *Console) refuses(r *http.Request) string {
	local := localAddress(r)
	if c.o.Token == "" && !local.IsLoopback() {
		return "The console is off at this address: without a token it is for this machine alone. Set CONSOLE_TOKEN, or throttle-dev --console-token."
	}
	if !isOurs(r.Host, local, c.o.Hosts) {
		return "The console is not served under this name. Use an address, localhost, or name the host: CONSOLE_HOSTS, or throttle-dev --console-host."
	}
	return ""
}

// localAddress is where r came in; the zero Addr where that is unknown, which is not loopback.
func localAddress(r *http.Request) netip.Addr {
	if at, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		if ap, err := netip.ParseAddrPort(at.String()); err == nil {
			return ap.Addr().Unmap()
		}
	}
	return netip.Addr{}
}

// Guard keeps what next serves from pages of other sites: of another origin, or, at a loopback address, under a name
// that is neither localhost nor one of hosts, which a site may have lead there. An address is nobody's name, also that
// of a sidecar which passes a request on.
func Guard(next http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		local := localAddress(r)
		switch {
		case local.IsLoopback() && r.Host != "" && !isAddress(r.Host) && !isOurs(r.Host, local, hosts):
			http.Error(w, "Nothing is served here under this name. Use an address, localhost, or name the host: CONSOLE_HOSTS.", http.StatusForbidden)
		case !isSameOrigin(r):
			http.Error(w, "Nothing is served here to pages of another origin.", http.StatusForbidden)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// isOurs says whether a browser that names host means this page. A site that has its own name lead to this address
// would name itself.
func isOurs(host string, local netip.Addr, hosts []string) bool {
	host = withoutPort(host)
	if address, err := netip.ParseAddr(host); err == nil {
		address = address.Unmap()
		return address.IsLoopback() || address == local
	}
	return host == "localhost" || slices.ContainsFunc(hosts, func(name string) bool { return strings.EqualFold(name, host) })
}

// withoutPort is the name or address in a Host field.
func withoutPort(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(strings.ToLower(strings.TrimSuffix(host, ".")), "[]")
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(withoutPort(host))
	return err == nil
}

// refusesAsk says why what the page asks for is not done.
func (c *Console) refusesAsk(r *http.Request, a ask) (code int, why string) {
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	site := r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "this takes POST, so that nothing stands in a URL"
	case site != "" && site != "same-origin", !isSameOrigin(r), r.Header.Get("X-Throttle-Console") == "":
		return http.StatusForbidden, "only the console's own page may ask"
	case kind != "application/json":
		return http.StatusUnsupportedMediaType, "this takes application/json"
	case a.acts && c.o.Token == "":
		return http.StatusForbidden, "the console only reads: it was started without a token"
	case (a.acts || !localAddress(r).IsLoopback()) && !c.knows(r):
		return http.StatusUnauthorized, "the token is missing, or wrong"
	}
	return 0, ""
}

// isSameOrigin says whether the page that asks was served here. Programs other than browsers send no Origin.
func isSameOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true
	}
	from, err := url.Parse(origin)
	return err == nil && strings.EqualFold(from.Host, r.Host)
}

// knows says whether r brings the token. How long that takes tells nothing of it.
func (c *Console) knows(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	a, b := sha256.Sum256([]byte(given)), sha256.Sum256([]byte(c.o.Token))
	return ok && c.o.Token != "" && subtle.ConstantTimeCompare(a[:], b[:]) == 1
}
