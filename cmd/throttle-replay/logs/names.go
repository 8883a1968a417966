package logs

import (
	"bytes"
	"net/http"
	"strings"
)

// Names of fields that every format has, as far as its lines say them. A format also has names of its own.
//
//	remote_addr      the address of the client: of the peer, or whom a proxy has named that the program trusts, where its log has that
//	remote_user      the user that has logged in
//	method           GET, POST, ...
//	uri              the target of the request: path and query
//	path             the same without the query
//	protocol         HTTP/1.1, ...
//	host             the host that was asked for
//	status           the status of the response
//	bytes            the length of the response
//	referer, user_agent, x_forwarded_for    fields of the request
//	duration         how long it took, in the unit of the log
//	header:NAME      any field of the request that the log has

// part is what a field is of another one.
type part uint8

const (
	whole    part = iota
	method        // of the first line of a request
	uri           // the same
	path          // the same, without the query
	protocol      // of the first line
	beforeQuery
)

// source is where the value of a field is.
type source struct {
	name string
	part part
}

// sources are where a log may have what is called by one of the names above, the best first. The names are those of
// nginx, Apache, Caddy, Envoy, and of habit.
var sources = map[string][]source{
	"remote_addr": {{"remote_addr", whole}, {"a", whole}, {"h", whole}, {"request.client_ip", whole}, {"request.remote_ip", whole}, {"request.remote_addr", whole},
		{"downstream_remote_address_without_port", whole}, {"downstream_remote_address", whole}, {"downstream_direct_remote_address_without_port", whole}, {"downstream_direct_remote_address", whole}, {"client_ip", whole}, {"remote_ip", whole},
		{"remote_address", whole}, {"client", whole}, {"ip", whole}, {"client_addr", whole}, {"ClientHost", whole}, {"ClientIP", whole}, {"httpRequest.remoteIp", whole}, {"req.remoteAddress", whole}, {"c-ip", whole}},
	"remote_user": {{"remote_user", whole}, {"u", whole}, {"user_id", whole}, {"user", whole}, {"ClientUsername", whole}},
	"method": {{"method", whole}, {"request_method", whole}, {"m", whole}, {"request.method", whole}, {":method", whole}, {"http_method", whole}, {"RequestMethod", whole}, {"ClientRequestMethod", whole}, {"httpRequest.requestMethod", whole}, {"req.method", whole}, {"cs-method", whole},
		{"request", method}, {"r", method}},
	"uri": {{"request_uri", whole}, {"request", uri}, {"r", uri}, {"uri", whole}, {"request.uri", whole}, {"x_envoy_original_path", whole}, {":path", whole}, {"path", whole}, {"url", whole}, {"target", whole},
		{"RequestPath", whole}, {"ClientRequestURI", whole}, {"httpRequest.requestUrl", whole}, {"req.url", whole}, {"cs-uri-stem", whole}, {"U", whole}},
	"path": {{"path", beforeQuery}, {"request_uri", beforeQuery}, {"request", path}, {"r", path}, {"uri", beforeQuery}, {"request.uri", beforeQuery}, {"x_envoy_original_path", beforeQuery},
		{":path", beforeQuery}, {"request_path", beforeQuery}, {"url", beforeQuery}, {"target", beforeQuery}, {"RequestPath", beforeQuery},
		{"ClientRequestURI", beforeQuery}, {"httpRequest.requestUrl", beforeQuery}, {"req.url", beforeQuery}, {"cs-uri-stem", beforeQuery}, {"U", whole}},
	"protocol": {{"protocol", whole}, {"server_protocol", whole}, {"H", whole}, {"request.proto", whole}, {"proto", whole}, {"RequestProtocol", whole}, {"request", protocol}, {"r", protocol}},
	"host": {{"host", whole}, {"http_host", whole}, {"server_name", whole}, {"v", whole}, {"V", whole}, {"request.host", whole},
		{"authority", whole}, {":authority", whole}, {"RequestHost", whole}, {"ClientRequestHost", whole}, {"cs-host", whole}, {"cs(Host)", whole}},
	"status": {{"status", whole}, {">s", whole}, {"s", whole}, {"response_code", whole}, {"status_code", whole}, {"code", whole}, {"DownstreamStatus", whole}, {"EdgeResponseStatus", whole}, {"httpRequest.status", whole}, {"res.statusCode", whole}, {"sc-status", whole}},
	"bytes": {{"body_bytes_sent", whole}, {"bytes_sent", whole}, {"b", whole}, {"B", whole}, {"O", whole}, {"size", whole}, {"bytes", whole}, {"response_size", whole},
		{"DownstreamContentSize", whole}},
	"referer":         {{"http_referer", whole}, {"{Referer}i", whole}, {"request.headers.Referer", whole}, {"referer", whole}, {"referrer", whole}},
	"user_agent":      {{"http_user_agent", whole}, {"{User-Agent}i", whole}, {"request.headers.User-Agent", whole}, {"user_agent", whole}, {"user-agent", whole}},
	"x_forwarded_for": {{"http_x_forwarded_for", whole}, {"{X-Forwarded-For}i", whole}, {"request.headers.X-Forwarded-For", whole}, {"x_forwarded_for", whole}, {"x-forwarded-for", whole}},
	"duration":        {{"request_time", whole}, {"D", whole}, {"T", whole}, {"duration", whole}, {"Duration", whole}},
}

// times are where a log may say when a request came, the finest first.
var times = []string{"msec", "{usec}t", "{msec}t", "{sec}t", "time_iso8601", "time_local", "start_time", "StartUTC", "EdgeStartTimestamp", "time", "timestamp", "@timestamp", "datetime", "ts", "t", "date"}

// sourcesOf are where the value of a field may be, which has one of the names above or one of the log's own.
func sourcesOf(name string) []source {
	if all := sources[name]; all != nil {
		return all
	}
	if header, ok := strings.CutPrefix(name, headerPrefix); ok {
		return sourcesOfHeader(header)
	}
	return []source{{name, whole}}
}

// headerPrefix begins the name of a field of the request.
const headerPrefix = "header:"

// sourcesOfHeader are where logs have a field of the request: in nginx, Apache and Caddy, and by habit.
func sourcesOfHeader(name string) []source {
	canonical, lower := http.CanonicalHeaderKey(name), strings.ToLower(name)
	under := strings.ReplaceAll(lower, "-", "_")
	return []source{{"http_" + under, whole}, {"{" + canonical + "}i", whole}, {"request.headers." + canonical, whole}, {under, whole}, {lower, whole}, {canonical, whole}}
}

// of returns the part of a value.
func (p part) of(value []byte) []byte {
	switch p {
	case whole:
		return value
	case beforeQuery:
		return withoutQuery(value)
	}
	first, target, last := requestLine(value)
	switch p {
	case method:
		return first
	case uri:
		return target
	case path:
		return withoutQuery(target)
	default:
		return last
	}
}

// requestLine splits GET /path HTTP/1.1. A client may send spaces in the target, or no protocol, or anything.
func requestLine(line []byte) (method, target, protocol []byte) {
	at := bytes.IndexByte(line, ' ')
	if at < 0 {
		return nil, line, nil
	}
	method, target = line[:at], line[at+1:]
	if at := bytes.LastIndexByte(target, ' '); at >= 0 && bytes.HasPrefix(target[at+1:], []byte("HTTP/")) {
		target, protocol = target[:at], target[at+1:]
	}
	return method, target, protocol
}

// withoutQuery is the path of a target, which may be that of a proxy: http://host/path.
func withoutQuery(target []byte) []byte {
	if at := bytes.IndexByte(target, '?'); at >= 0 {
		target = target[:at]
	}
	if len(target) > 0 && target[0] != '/' {
		if _, rest, ok := bytes.Cut(target, []byte("://")); ok {
			if at := bytes.IndexByte(rest, '/'); at >= 0 {
				return rest[at:]
			}
			return []byte("/")
		}
	}
	return target
}
