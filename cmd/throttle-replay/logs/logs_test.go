package logs_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/ulikunitz/xz"

	"redis-throttle/cmd/throttle-replay/logs"
)

// read returns the fields of a line, and when the request came.
func read(t testing.TB, o logs.Options, start, line string, names ...string) (string, []string) {
	t.Helper()
	l, err := logs.New(o, []byte(start))
	require.NoError(t, err)
	var at []int
	for _, name := range names {
		i, err := l.Want(name)
		require.NoError(t, err)
		at = append(at, i)
	}
	var r logs.Record
	require.NoError(t, l.Parse([]byte(line), &r), line)
	values := make([]string, len(at))
	for i := range at {
		values[i] = string(r.Fields[at[i]])
	}
	return time.Unix(0, r.TimeNs).UTC().Format(time.RFC3339Nano), values
}

// The formats are found out, and have the same fields under the same names.
func TestFormatsAreFoundOutAndHaveTheSameFields(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, head, line, at string
		o                    logs.Options
	}{
		{name: "nginx", line: `203.0.113.9 - frank [10/Oct/2026:13:55:36 -0700] "GET /a/b?c=d HTTP/1.1" 200 2326 "https://x/" "curl/8"`, at: "2026-10-10T20:55:36Z"},
		{name: "with what is usually put behind it", line: `203.0.113.9 - frank [10/Oct/2026:13:55:36 -0700] "GET /a/b?c=d HTTP/1.1" 200 2326 "https://x/" "curl/8" "198.51.100.1"`, at: "2026-10-10T20:55:36Z"},
		{name: "log_format of nginx", o: logs.Options{Pattern: `$msec $remote_addr [$time_local] $remote_user "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`},
			line: `1791665736.250 203.0.113.9 [10/Oct/2026:13:55:36 -0700] frank "GET /a/b?c=d HTTP/1.1" 200 2326 "https://x/" "curl/8"`, at: "2026-10-10T20:55:36.25Z"},
		{name: "LogFormat of Apache", o: logs.Options{Pattern: `%h %l %u %t \"%r\" %>s %b \"%{Referer}i\" \"%{User-Agent}i\"`},
			line: `203.0.113.9 - frank [10/Oct/2026:13:55:36 -0700] "GET /a/b?c=d HTTP/1.1" 200 2326 "https://x/" "curl/8"`, at: "2026-10-10T20:55:36Z"},
		{name: "LogFormat with microseconds", o: logs.Options{Pattern: `%{usec}t %a %u "%m %U%q %H" %s %B "%{Referer}i" "%{User-Agent}i" "%r"`},
			line: `1791665736250001 203.0.113.9 frank "GET /a/b?c=d HTTP/1.1" 200 2326 "https://x/" "curl/8" "GET /a/b?c=d HTTP/1.1"`, at: "2026-10-10T20:55:36.250001Z"},
		{name: "Caddy", line: `{"level":"info","ts":1791665736.25,"logger":"http.log.access","msg":"handled request","request":{"remote_ip":"203.0.113.9","remote_port":"41342","client_ip":"203.0.113.9",` +
			`"proto":"HTTP/1.1","method":"GET","host":"x","uri":"/a/b?c=d","headers":{"User-Agent":["curl/8"],"Referer":["https://x/"]}},"user_id":"frank","duration":0.001,"size":2326,"status":200}`,
			at: "2026-10-10T20:55:36.25Z"},
		{name: "Envoy", line: `{"start_time":"2026-10-10T20:55:36.250Z","downstream_remote_address_without_port":"203.0.113.9","method":"GET","path":"/a/b?c=d","protocol":"HTTP/1.1","response_code":200,` +
			`"bytes_sent":2326,"user_agent":"curl/8","referer":"https://x/","user":"frank"}`, at: "2026-10-10T20:55:36.25Z"},
		{name: "NDJSON", o: logs.Options{Time: "when.ms", TimeFormat: "unix_ms"},
			line: `{"when":{"ms":1791665736250},"remote_addr":"203.0.113.9","method":"GET","uri":"/a/b?c=d","protocol":"HTTP/1.1","status":"200","bytes":2326,"user_agent":"curl/8","referer":"https://x/","user":"frank"}`,
			at:   "2026-10-10T20:55:36.25Z"},
		{name: "CSV", head: "time,ip,user,method,uri,protocol,status,bytes,referer,user_agent\r\n", line: `2026-10-10 20:55:36.25,203.0.113.9,frank,GET,"/a/b?c=d",HTTP/1.1,200,2326,https://x/,curl/8`,
			at: "2026-10-10T20:55:36.25Z"},
		{name: "CSV without names", o: logs.Options{Format: logs.CSV, Comma: ';', Columns: strings.Split("t,ip,user,method,url,protocol,status,bytes,referer,user_agent", ",")},
			line: `10/Oct/2026:13:55:36 -0700;203.0.113.9;frank;GET;/a/b?c=d;HTTP/1.1;200;2326;https://x/;curl/8`, at: "2026-10-10T20:55:36Z"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			at, values := read(t, c.o, c.head+c.line+"\n", c.line, "remote_addr", "remote_user", "method", "uri", "path", "protocol", "status", "bytes", "referer", "user_agent")
			assert.Equal(t, c.at, at)
			assert.Equal(t, []string{"203.0.113.9", "frank", "GET", "/a/b?c=d", "/a/b", "HTTP/1.1", "200", "2326", "https://x/", "curl/8"}, values)
		})
	}
}

// Behind a proxy that a program trusts, its log has two addresses.
func TestTheAddressIsThatOfTheClientWhereTheLogHasTwo(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, head, line string
		o                logs.Options
	}{
		{name: "Caddy", line: `{"ts":1791665736.25,"request":{"remote_ip":"10.1.0.1","client_ip":"203.0.113.9","method":"GET","uri":"/"},"status":200}`},
		{name: "Caddy before 2.7, which has one", line: `{"ts":1791665736.25,"request":{"remote_ip":"203.0.113.9","method":"GET","uri":"/"},"status":200}`},
		{name: "Caddy, of which a shipper made columns", head: "ts,remote_ip,client_ip,status\n", line: `1791665736.25,10.1.0.1,203.0.113.9,200`},
		{name: "Envoy", line: `{"start_time":"2026-10-10T20:55:36.250Z","downstream_direct_remote_address":"10.1.0.1:4711","downstream_direct_remote_address_without_port":"10.1.0.1","downstream_remote_address":"203.0.113.9"}`},
		{name: "nginx with realip", o: logs.Options{Pattern: `$realip_remote_addr $remote_addr [$time_iso8601] "$request" $status`}, line: `10.1.0.1 203.0.113.9 [2026-10-10T20:55:36Z] "GET / HTTP/1.1" 200`},
		{name: "nginx with realip, JSON", line: `{"time":"2026-10-10T20:55:36Z","realip_remote_addr":"10.1.0.1","remote_addr":"203.0.113.9","http_x_forwarded_for":"10.9.9.9, 203.0.113.9"}`},
		{name: "Apache with mod_remoteip", o: logs.Options{Pattern: `%h %{c}a %a [%{%d/%m/%Y %T}t] "%r" %>s`}, line: `office.example.org 10.1.0.1 203.0.113.9 [10/10/2026 20:55:36] "GET / HTTP/1.1" 200`},
		{name: "CloudFront", head: "#Fields: date time c-ip cs-method x-forwarded-for sc-status\n", line: "2026-10-10\t20:55:36\t203.0.113.9\tGET\t10.9.9.9\t200"},
		{name: "HAProxy, which captures X-Forwarded-For", line: `203.0.113.9:3000 [10/Oct/2026:20:55:36.250] http-in static/srv1 10/0/30/69/109 200 2750 - - ---- 1/1/1/1/0 0/0 {10.9.9.9} "GET / HTTP/1.1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			_, values := read(t, c.o, c.head+c.line+"\n", c.line, "remote_addr")
			assert.Equal(t, "203.0.113.9", strings.TrimSuffix(values[0], ":3000"))
		})
	}
	line := `{"ts":1791665736.25,"request":{"remote_ip":"10.1.0.1","client_ip":"203.0.113.9"},"status":200}`
	_, values := read(t, logs.Options{}, line+"\n", line, "request.remote_ip")
	assert.Equal(t, []string{"10.1.0.1"}, values, "its own name reads the other one")
}

// Lines that the documentation of servers, and well-known collections of logs, show.
func TestSamplesOfPublicLogsAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ source, line, at, address, path, status string }{
		{"NASA, Kennedy Space Center, July 1995 (the Internet Traffic Archive)", `199.72.81.55 - - [01/Jul/1995:00:00:01 -0400] "GET /history/apollo/ HTTP/1.0" 200 6245`,
			"1995-07-01T04:00:01Z", "199.72.81.55", "/history/apollo/", "200"},
		{"the same, a host with a name and a request without a protocol", `pipe6.nyc.pipeline.com - - [01/Jul/1995:00:22:43 -0400] "GET /shuttle/missions/sts-71/movies/sts-71-mir-dock.mpg" 200 946425`,
			"1995-07-01T04:22:43Z", "pipe6.nyc.pipeline.com", "/shuttle/missions/sts-71/movies/sts-71-mir-dock.mpg", "200"},
		{"a handshake of TLS at a port of HTTP, as nginx writes it", `198.51.100.7 - - [06/Nov/2026:07:12:11 +0000] "\x16\x03\x01\x00\xEE\x01\x00\x00\xEA\x03\x03" 400 157 "-" "-"`,
			"2026-11-06T07:12:11Z", "198.51.100.7", `\x16\x03\x01\x00\xEE\x01\x00\x00\xEA\x03\x03`, "400"},
		{"an empty request, as Apache writes it after a timeout", `2001:db8::7 - - [06/Nov/2026:07:12:11 +0000] "-" 408 - "-" "-"`, "2026-11-06T07:12:11Z", "2001:db8::7", "-", "408"},
		{"Traefik, documentation of access logs, format common", `10.0.0.1 - - [10/Oct/2026:13:55:36 +0000] "GET /dashboard HTTP/2.0" 302 5 "-" "-" 1 "dashboard@internal" "http://10.0.0.2:80" 2ms`,
			"2026-10-10T13:55:36Z", "10.0.0.1", "/dashboard", "302"},
		{"Traefik, the same, format json", `{"ClientAddr":"10.0.0.1:50412","ClientHost":"10.0.0.1","DownstreamStatus":200,"Duration":1093155,"RequestMethod":"GET","RequestPath":"/whoami?wait=1s",` +
			`"RequestProtocol":"HTTP/1.1","StartLocal":"2026-10-10T15:55:36.1+02:00","StartUTC":"2026-10-10T13:55:36.1Z","level":"info","msg":"","time":"2026-10-10T13:55:37Z"}`,
			"2026-10-10T13:55:36.1Z", "10.0.0.1", "/whoami", "200"},
		{"Envoy, documentation of access logs, a json_format of its operators", `{"start_time":"2026-10-10T13:55:36.000Z","req_method":"GET","method":"GET","path":"/api/v1/users?page=2","response_code":503,` +
			`"response_flags":"UF","downstream_remote_address":"203.0.113.9:51332","authority":"api.example.org"}`, "2026-10-10T13:55:36Z", "203.0.113.9:51332", "/api/v1/users", "503"},
	} {
		at, values := read(t, logs.Options{}, c.line+"\n", c.line, "remote_addr", "path", "status")
		assert.Equal(t, c.at, at, c.source)
		assert.Equal(t, []string{c.address, c.path, c.status}, values, c.source)
	}
}

var usualHead = regexp.MustCompile(`^[^ ]+ - [^ \[]+ \[`)

var escaped = regexp.MustCompile(`\\.`)

var usualNumbers = regexp.MustCompile(`^[0-9]{3} ([0-9]+|-)$`)

// A pattern reads lines of the combined format as combined does, whatever clients send.
func FuzzCombinedIsThePattern(f *testing.F) {
	f.Add(`203.0.113.9 - frank [10/Oct/2026:13:55:36 -0700] "GET /a HTTP/1.1" 200 2326 "https://x/" "curl/8"`)
	f.Add(`2001:db8::1 - [ [[ [29/Feb/2028:23:59:60 +0530] "GET \"\\" 400 0 "-" "a\"b"`)
	f.Add(`h - - [31/Dec/2026:00:00:00 +0000] "\x16\x03\x01" 400 150 "-" "-" "1.2.3.4"`)
	f.Add(`h - - [31/Dec/2026:00:00:00 +0000] "GET http://h?x HTTP/1.0" 400 150`)
	f.Fuzz(func(t *testing.T, line string) {
		if strings.ContainsAny(line, "\r\n") {
			return
		}
		combined, err := logs.New(logs.Options{Format: logs.Combined}, nil)
		require.NoError(t, err)
		pattern, err := logs.New(logs.Options{Pattern: `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`}, nil)
		require.NoError(t, err)
		names := []string{"remote_addr", "remote_user", "method", "uri", "path", "protocol", "status", "bytes", "referer", "user_agent"}
		var at [2][]int
		for i, l := range []logs.Layout{combined, pattern} {
			for _, name := range names {
				index, err := l.Want(name)
				require.NoError(t, err)
				at[i] = append(at[i], index)
			}
		}
		var have, want logs.Record
		if pattern.Parse([]byte(line), &want) != nil || combined.Parse([]byte(line), &have) != nil {
			return // each takes lines that the other does not
		}
		if !usualHead.MatchString(line) || strings.Count(escaped.ReplaceAllString(line, ""), `"`) != 6 {
			return // combined looks for the time, and the pattern for the first bracket
		}
		if !usualNumbers.MatchString(string(want.Fields[at[1][6]]) + " " + string(want.Fields[at[1][7]])) {
			return
		}
		assert.Equal(t, want.TimeNs, have.TimeNs)
		for i, name := range names {
			assert.Equal(t, string(want.Fields[at[1][i]]), string(have.Fields[at[0][i]]), "%s of %q", name, line)
		}
	})
}

// Nothing that a line says ends a run.
func FuzzLinesOfAnyFormat(f *testing.F) {
	for _, line := range []string{"", "-", "{", `{"ts":1}`, `{"time":"2026-02-30T00:00:00Z"}`, `"a,b`, "a\x00b", "1,2\n3", strings.Repeat("[", 500), `{"a":` + strings.Repeat("[", 400)} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		for _, o := range []logs.Options{
			{Format: logs.Combined}, {Format: logs.JSON}, {Format: logs.CSV, Columns: []string{"time", "ip"}}, {Pattern: "$a [$time_local] $b"}, {Pattern: `%h %t "%r"`}, {Pattern: "$time_iso8601"},
			{Format: logs.JSON, Time: "a", TimeFormat: "unix_us"},
		} {
			l, err := logs.New(o, nil)
			require.NoError(t, err)
			var r logs.Record
			if err := l.Parse([]byte(line), &r); err != nil {
				var why logs.Unreadable
				require.ErrorAs(t, err, &why)
				continue
			}
			assert.GreaterOrEqual(t, r.TimeNs, int64(0))
		}
	})
}

func TestTimesAreReadInEveryUsualForm(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for text, want := range map[string]string{
		`"2026-10-10T13:55:36-07:00"`:            "2026-10-10T20:55:36Z",
		`"2026-10-10T13:55:36.123456789-0700"`:   "2026-10-10T20:55:36.123456789Z",
		`"2026-10-10T20:55:36,5Z"`:               "2026-10-10T20:55:36.5Z",
		`"2026-10-10 22:55:36"`:                  "2026-10-10T20:55:36Z", // Berlin
		`"2026/10/10 22:55:36.25"`:               "2026-10-10T20:55:36.25Z",
		`"10/Oct/2026:13:55:36 -0700"`:           "2026-10-10T20:55:36Z",
		`"Sat, 10 Oct 2026 20:55:36 GMT"`:        "2026-10-10T20:55:36Z",
		`"Sat, 10 Oct 2026 22:55:36 +0200"`:      "2026-10-10T20:55:36Z",
		`1791665736`:                             "2026-10-10T20:55:36Z",
		`"1791665736.250"`:                       "2026-10-10T20:55:36.25Z",
		`1.791665736e9`:                          "2026-10-10T20:55:36Z",
		`1791665736250`:                          "2026-10-10T20:55:36.25Z",
		`1791665736250000`:                       "2026-10-10T20:55:36.25Z",
		`1791665736250000001`:                    "2026-10-10T20:55:36.250000001Z",
		`"2028-02-29T00:00:00Z"`:                 "2028-02-29T00:00:00Z", // a leap day
		`"2016-12-31T23:59:60Z"`:                 "2017-01-01T00:00:00Z", // a leap second
		`"2026-03-29 02:30:00"`:                  "2026-03-29T01:30:00Z", // the hour that clocks leave out
		`"2026-10-25 01:59:59"`:                  "2026-10-24T23:59:59Z",
		`"2026-10-25 03:00:00"`:                  "2026-10-25T02:00:00Z",
		`"1970-01-01T00:00:00Z"`:                 "1970-01-01T00:00:00Z",
		`"2026-02-29T00:00:00Z"`:                 "",
		`"2027-13-01T00:00:00Z"`:                 "",
		`"2026-10-10T24:00:00Z"`:                 "",
		`"2026-10-10T20:55:36+99:00"`:            "",
		`"29/Feb/2026:13:55:36 -0700"`:           "",
		`"10/Okt/2026:13:55:36 -0700"`:           "",
		`"1969-12-31T23:59:59Z"`:                 "",
		`-5`:                                     "",
		`99999999999999999999`:                   "",
		`"yesterday"`:                            "",
		`"2026-10-10T20:55:36.Z"`:                "",
		`"2026-10-10T20:55:36.123456789123456Z"`: "2026-10-10T20:55:36.123456789Z",
	} {
		l, err := logs.New(logs.Options{Format: logs.JSON, Zone: berlin}, nil)
		require.NoError(t, err)
		var r logs.Record
		err = l.Parse([]byte(`{"time":`+text+`}`), &r)
		if want == "" {
			assert.ErrorIs(t, err, logs.BadTime, text)
			continue
		}
		require.NoError(t, err, text)
		assert.Equal(t, want, time.Unix(0, r.TimeNs).UTC().Format(time.RFC3339Nano), text)
	}
}

// In the night when clocks are set back, an hour comes twice. A log goes on where it was.
func TestTheHourThatComesTwiceGoesOnWhereTheLogWas(t *testing.T) {
	t.Parallel()
	for zone, back := range map[string]string{"Europe/Berlin": "2026-10-25T01:00:00Z", "America/New_York": "2026-11-01T06:00:00Z", "Australia/Lord_Howe": "2026-04-04T15:00:00Z"} {
		loc, err := time.LoadLocation(zone)
		require.NoError(t, err)
		l, err := logs.New(logs.Options{Format: logs.JSON, Zone: loc}, nil)
		require.NoError(t, err)
		transition, err := time.Parse(time.RFC3339, back)
		require.NoError(t, err)
		var r logs.Record
		for at := transition.Add(-26 * time.Hour); at.Before(transition.Add(26 * time.Hour)); at = at.Add(47 * time.Second) {
			for _, late := range []time.Duration{0, 5 * time.Second} { // lines are a little out of order
				want := at.Add(-late)
				require.NoError(t, l.Parse([]byte(`{"time":"`+want.In(loc).Format("2006-01-02 15:04:05")+`"}`), &r))
				require.Equal(t, want.UTC(), time.Unix(0, r.TimeNs).UTC(), zone)
			}
		}
	}
}

func TestALayoutOfPackageTimeReadsWhatIsNotUsual(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	at, _ := read(t, logs.Options{Format: logs.JSON, Time: "d", TimeFormat: "02.01.2006 15.04.05", Zone: berlin}, "", `{"d":"10.10.2026 22.55.36"}`)
	assert.Equal(t, "2026-10-10T20:55:36Z", at)
	for _, layout := range []string{"2006", "now", "15:04"} {
		_, err := logs.New(logs.Options{Format: logs.JSON, TimeFormat: layout}, nil)
		assert.ErrorContains(t, err, "--time-format", layout)
	}
}

func TestWhatCannotBeReadSaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    logs.Options
		line string
		want error
	}{
		{logs.Options{Format: logs.Combined}, "GET / HTTP/1.1", logs.NotInFormat},
		{logs.Options{Format: logs.Combined}, `1.2.3.4 - - [10/Oct/2026:25:55:36 -0700] "GET / HTTP/1.1" 200 1`, logs.BadTime},
		{logs.Options{Format: logs.Combined}, `1.2.3.4 - - [10/Oct/2026:13:55:36 -0700] "GET / HT`, logs.NotInFormat},
		{logs.Options{Format: logs.JSON}, `{"ts":1791665736`, logs.NotJSON},
		{logs.Options{Format: logs.JSON}, `[1]`, logs.NotJSON},
		{logs.Options{Format: logs.JSON}, `{"a":1}`, logs.NoTime},
		{logs.Options{Format: logs.CSV, Columns: []string{"time", "ip"}}, `2026-10-10T20:55:36Z,1.2.3.4,x`, logs.NotInFormat},
		{logs.Options{Format: logs.CSV, Columns: []string{"time", "ip"}}, `-,1.2.3.4`, logs.NoTime},
		{logs.Options{Pattern: `[$time_local] $remote_addr`}, `[10/Oct/2026:13:55:36 -0700 1.2.3.4`, logs.NotInFormat},
		{logs.Options{Pattern: `[$time_local] $remote_addr`}, `[-] 1.2.3.4`, logs.NoTime},
	} {
		l, err := logs.New(c.o, nil)
		require.NoError(t, err)
		var r logs.Record
		assert.Equal(t, c.want, l.Parse([]byte(c.line), &r), c.line)
	}
}

func TestMistakesInOptionsNameTheOption(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o           logs.Options
		start, want string
	}{
		{logs.Options{}, "what is this\n", "name it with --format"},
		{logs.Options{Format: "xml"}, "", "expected auto, combined"},
		{logs.Options{Format: logs.Pattern}, "", "--log-format"},
		{logs.Options{Pattern: "$a$time_local"}, "", "nothing separates a from time_local"},
		{logs.Options{Pattern: "$a $b"}, "", "says no time"},
		{logs.Options{Pattern: "$a $ b"}, "", "$ without a name"},
		{logs.Options{Pattern: "no variable"}, "", "no variable"},
		{logs.Options{Pattern: "%h %{%Y}t"}, "", "expected %t"},
		{logs.Options{Pattern: "$a $time_local", Time: "when"}, "", `no "when"`},
		{logs.Options{Format: logs.CSV}, "a,b\n", "--time"},
		{logs.Options{Format: logs.CSV, Time: "when"}, "a,b\n", `"when"`},
		{logs.Options{Format: logs.CSV}, "", "--columns"},
	} {
		_, err := logs.New(c.o, []byte(c.start))
		assert.ErrorContains(t, err, c.want)
	}
	l, err := logs.New(logs.Options{Format: logs.Combined}, nil)
	require.NoError(t, err)
	_, err = l.Want("tenant")
	assert.ErrorContains(t, err, `no field "tenant": it has remote_addr`)
}

// Fields of JSON are found by paths, by names that have dots themselves, and in lists.
func TestFieldsOfJSONAreFoundByPaths(t *testing.T) {
	t.Parallel()
	line := `{"ts":1,"a":{"b":{"c":"deep"}},"x.y":"dotted","list":["p","q\"r"],"n":1.50,"t":true,"none":null,"o":{}}`
	_, values := read(t, logs.Options{}, line, line, "a.b.c", "x.y", "list", "n", "t", "none", "o", "missing")
	assert.Equal(t, []string{"deep", "dotted", `p, q"r`, "1.50", "true", "", "", ""}, values)
}

// Fields of requests have one name in all formats.
func TestHeadersHaveOneNameInAllFormats(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o                logs.Options
		head, line, name string
	}{
		{logs.Options{}, "", `203.0.113.9 - - [10/Oct/2026:13:55:36 -0700] "GET / HTTP/1.1" 200 1 "-" "curl/8"`, "User-Agent"},
		{logs.Options{Pattern: `$remote_addr [$time_local] $http_x_api_key`}, "", `203.0.113.9 [10/Oct/2026:13:55:36 -0700] curl/8`, "x-api-key"},
		{logs.Options{Pattern: `%h %t %{X-Api-Key}i`}, "", `203.0.113.9 [10/Oct/2026:13:55:36 -0700] curl/8`, "x-api-key"},
		{logs.Options{}, "", `{"ts":1,"request":{"headers":{"X-Api-Key":["curl/8"]}}}`, "x-api-key"},
		{logs.Options{}, "", `{"ts":1,"x-api-key":"curl/8"}`, "X-API-Key"},
		{logs.Options{}, "time,x_api_key\n", `2026-10-10T20:55:36Z,curl/8`, "X-Api-Key"},
	} {
		_, values := read(t, c.o, c.head+c.line+"\n", c.line, "header:"+c.name)
		assert.Equal(t, []string{"curl/8"}, values, c.line)
	}
	l, err := logs.New(logs.Options{Format: logs.Combined}, nil)
	require.NoError(t, err)
	_, err = l.Want("header:X-Api-Key")
	assert.Error(t, err)
}

// lines reads all lines of a stream.
func lines(t testing.TB, from io.Reader, join bool) (all []string) {
	l := logs.NewLines(from)
	l.Join = join
	for {
		line, err := l.Next()
		switch {
		case err == io.EOF:
			assert.Equal(t, int64(len(all)), l.Number())
			return all
		case err == logs.TooLong:
			all = append(all, "TOO LONG")
		default:
			require.NoError(t, err)
			all = append(all, string(line))
		}
	}
}

func TestLinesAreCutWhereverReadsEnd(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 700_000)
	longer := strings.Repeat("y", 3_000_000)
	text := "\ufefffirst\r\n\n" + long + "\nthird\n" + longer + "\nafter\nlast"
	want := []string{"first", "", long, "third", "TOO LONG", "after", "last"}
	assert.Equal(t, want, lines(t, strings.NewReader(text), false))
	assert.Equal(t, want, lines(t, iotest.HalfReader(strings.NewReader(text)), false))
	assert.Equal(t, want[:6], lines(t, iotest.DataErrReader(strings.NewReader(strings.TrimSuffix(text, "last"))), false))
	assert.Empty(t, lines(t, strings.NewReader(""), false))
}

// A value of CSV may have line ends. A quotation mark that nothing closes does not swallow the log.
func TestLinesOfCSVGoOnInQuotationMarks(t *testing.T) {
	t.Parallel()
	for _, r := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader} {
		assert.Equal(t, []string{"a,\"b\nc\",d", "e"}, lines(t, r(strings.NewReader("a,\"b\nc\",d\ne")), true))
		assert.Equal(t, []string{"a", "\"b\nc\""}, lines(t, r(strings.NewReader("a\n\"b\nc\"")), true))
		assert.Equal(t, []string{"a,\"b", "c", "d"}, lines(t, r(strings.NewReader("a,\"b\nc\nd")), true))
		many := strings.Repeat("line\n", 1000)
		assert.Len(t, lines(t, r(strings.NewReader("a,\"b\n"+many)), true), 1001)
	}
}

func TestLogsAreDecompressedWhateverTheyAreCalled(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("a line of a log\n", 50_000)
	zipped := func(part string) []byte {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, err := w.Write([]byte(part))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	xzipped := func(part string) []byte {
		var b bytes.Buffer
		w, err := xz.NewWriter(&b)
		require.NoError(t, err)
		_, err = w.Write([]byte(part))
		require.NoError(t, err)
		require.NoError(t, w.Close())
		return b.Bytes()
	}
	encoder, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	half := len(text) / 32 * 16
	for name, content := range map[string][]byte{
		"plain": []byte(text), "gzip": zipped(text), "two members": append(zipped(text[:half]), zipped(text[half:])...), "zstd": encoder.EncodeAll([]byte(text), nil),
		"xz": xzipped(text), "two streams": append(xzipped(text[:half]), xzipped(text[half:])...),
	} {
		path := filepath.Join(t.TempDir(), "access.log")
		require.NoError(t, os.WriteFile(path, content, 0o644))
		f, err := logs.Open(t.Context(), path)
		require.NoError(t, err, name)
		have, err := io.ReadAll(f)
		require.NoError(t, err, name)
		assert.Equal(t, text, string(have), name)
		assert.Equal(t, f.Size, f.Progress(), name)
		f.Close()
	}
}

// A context that ends has a read return that nothing comes for.
func TestReadingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	out, in, err := os.Pipe()
	require.NoError(t, err)
	defer func() { _ = in.Close() }()
	path := fmt.Sprintf("/dev/fd/%d", out.Fd())
	if _, err := os.Stat(path); err != nil {
		t.Skip("no /dev/fd here")
	}
	_, err = in.WriteString("four bytes and more")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	f, err := logs.Open(ctx, path)
	require.NoError(t, err)
	defer f.Close()
	buffer := make([]byte, 100)
	_, err = f.Read(buffer)
	require.NoError(t, err)
	cancel()
	_, err = io.ReadAll(f)
	assert.ErrorIs(t, err, context.Canceled)
}

func TestAFolderIsNoLog(t *testing.T) {
	t.Parallel()
	_, err := logs.Open(t.Context(), t.TempDir())
	assert.ErrorContains(t, err, "is a folder")
}
