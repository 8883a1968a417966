package page

// Snippet is how a limit is written in one place. {count}, {unit} and {burst} are those of the limit, {goUnit} is the unit in Go.
type Snippet struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Snippets are all places. A language more is an entry more.
var Snippets = []Snippet{
	{"CL.LIMIT", "CL.LIMIT user:42 RATE {count}/{unit} BURST {burst} SHADOW"},
	{"Go", `handler = httplimit.New(limiter, httplimit.Options{
	Limits: ratelimit.Limits{ratelimit.Rate({count}, {goUnit}).Burst({burst}).Shadow()},
	Key:    keyby.Prefixed("ip:", keyby.RemoteHost),
})(handler)`},
	{"Node.js", `app.use(rateLimit({ limiter, limits: rate({count}, '1{unit}', { burst: {burst}, shadow: true }) }))`},
	{"Python", `app.add_middleware(redis_throttle.asgi.RateLimit, limiter=limiter,
                   limits=rate({count}, "1{unit}", burst={burst}, shadow=True))`},
	{"Java", `# application.yml of Spring Boot
redis-throttle:
  routes:
    - paths: /**
      limits: RATE {count}/{unit} BURST {burst} SHADOW`},
	{"Gateway", `domain: web
descriptors:
  - key: remote_address
    limits: [RATE {count}/{unit} BURST {burst} SHADOW]`},
}
