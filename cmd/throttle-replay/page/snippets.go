package page

import (
	"fmt"
	"strconv"
	"strings"

	"redis-throttle/cmd/throttle-replay/replay"
)

// Snippet is how a limit is written in one place. {count}, {unit} and {burst} are those of the limit, {goUnit} is the
// unit in Go.
type Snippet struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// keyed is how a place writes the key of the report. What it has no word for is a function that the user has to write,
// and the snippet says of what.
type keyed struct{ golang, node, python, java, gateway string }

// keysOf writes the key.
func keysOf(r *replay.Report) (k keyed) {
	field, bits, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(r.Key, "{"), "}"), "/")
	isOne := strings.HasPrefix(r.Key, "{") && strings.Count(r.Key, "{") == 1 && strings.HasSuffix(r.Key, "}")
	header, isHeader := strings.CutPrefix(field, "header:")
	own := "of the request: " + r.Key
	switch {
	case isOne && field == "remote_addr" && (bits == "" || bits == "64"):
		return keyed{golang: `keyby.Prefixed("ip:", keyby.RemoteHost)`, gateway: "remote_address"}
	case isOne && field == "remote_addr":
		return keyed{
			golang: fmt.Sprintf(`keyby.Prefixed("ip:", keyby.IPv6(%s).RemoteHost)`, bits), node: "ipv6: " + bits, python: "ipv6=" + bits,
			java: "ipv6: " + bits, gateway: "remote_address",
		}
	case isOne && field == "client":
		return keyed{
			golang: `keyby.Prefixed("ip:", keyby.Client(proxies...))`, node: "trusted: proxies", python: "trusted=proxies", java: "trusted: [] # your proxies",
			gateway: "remote_address",
		}
	case isOne && isHeader:
		lower := strings.ToLower(header)
		return keyed{
			golang: fmt.Sprintf(`keyby.Prefixed(%q, keyby.Header(%q))`, lower+":", header), node: fmt.Sprintf("key: (req) => req.headers[%s]", quoted(lower)),
			python: "key=key_of", java: "key: " + header, gateway: strings.ReplaceAll(lower, "-", "_"),
		}
	}
	return keyed{golang: "keyOf", node: "key: keyOf", python: "key=key_of", java: own, gateway: "your_key"}
}

func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `\'`) + "'" }

// remarks are what a snippet has to say: which requests it is for, whose key, and what they cost, where no option of
// the place can.
func remarks(r *replay.Report, k keyed) (all []string) {
	for _, where := range r.Where {
		all = append(all, "Only for requests with "+where)
	}
	if k.golang == "keyOf" || k.python == "key=key_of" {
		all = append(all, "The key of a request: "+r.Key)
	}
	if r.Cost != "" {
		all = append(all, "The cost of a request: "+r.Cost)
	}
	for i, text := range all {
		all[i] = strings.ReplaceAll(strconv.QuoteToGraphic(text)[1:], "\n", " ")
		all[i] = strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(strings.TrimSuffix(all[i], `"`))
	}
	return all
}

// commented puts remarks in front of a snippet.
func commented(mark string, remarks []string, text string) string {
	var b strings.Builder
	for _, remark := range remarks {
		b.WriteString(mark + " " + braces.Replace(remark) + "\n")
	}
	return b.String() + text
}

// braces keeps the script of the page from taking a field for the number of a limit.
var braces = strings.NewReplacer("{count}", "<count>", "{unit}", "<unit>", "{burst}", "<burst>", "{goUnit}", "<goUnit>")

// snippetsOf are all places. A language more is an entry more.
func snippetsOf(r *replay.Report) []Snippet {
	k := keysOf(r)
	notes := remarks(r, k)
	hasCost := r.Cost != ""
	when := func(is bool, text string) string {
		if is {
			return text
		}
		return ""
	}
	option := func(before, text string) string { return when(text != "", before+text) }
	key := `"` + strings.ReplaceAll(strings.ReplaceAll(braces.Replace(r.Key), `\`, `\\`), `"`, `\"`) + `"`
	java := option("\n      ", k.java)
	if strings.HasPrefix(k.java, "of the request") || strings.HasPrefix(k.java, "key: ") {
		java = "\n      # and a bean for the key " + r.Key
	}
	return []Snippet{
		{"CL.LIMIT", "CL.LIMIT " + key + " RATE {count}/{unit} BURST {burst}" + when(hasCost, " COST 1") + " SHADOW"},
		{"Go", commented("//", notes, `handler = httplimit.New(limiter, httplimit.Options{
	Limits: ratelimit.Limits{ratelimit.Rate({count}, {goUnit}).Burst({burst}).Shadow()},
	Key:    `+k.golang+`,
`+when(hasCost, "	Cost:   costOf,\n")+`})(handler)`)},
		{"Node.js", commented("//", notes, "app.use(rateLimit({ limiter, limits: rate({count}, '1{unit}', { burst: {burst}, shadow: true })"+
			option(", ", k.node)+when(hasCost, ", cost: costOf")+" }))")},
		{"Python", commented("#", notes, `app.add_middleware(redis_throttle.asgi.RateLimit, limiter=limiter,
                   limits=rate({count}, "1{unit}", burst={burst}, shadow=True)`+option(", ", k.python)+when(hasCost, ", cost=cost_of")+")")},
		{"Java", commented("#", notes, `# application.yml of Spring Boot
redis-throttle:
  routes:
    - paths: `+pathsOf(r)+`
      limits: RATE {count}/{unit} BURST {burst} SHADOW`+braces.Replace(java))},
		{"Gateway", commented("#", notes, `domain: web
descriptors:
  - key: `+k.gateway+`
    limits: [RATE {count}/{unit} BURST {burst} SHADOW]`)},
	}
}

// pathsOf is the paths of a route: those of a condition that says how they begin, or all.
func pathsOf(r *replay.Report) string {
	for _, where := range r.Where {
		text, ok := strings.CutPrefix(strings.ReplaceAll(where, " ", ""), "path~^/")
		if path := strings.Trim(text, "/$"); ok && path != "" && !strings.ContainsAny(path, `.*+?()[]{}|\^#:'"`) {
			return "/" + path + "/**"
		}
		if text, ok := strings.CutPrefix(strings.ReplaceAll(where, " ", ""), "path=/"); ok && !strings.ContainsAny(text, `*{}#:'"`) {
			return "/" + text
		}
	}
	return "/**"
}
