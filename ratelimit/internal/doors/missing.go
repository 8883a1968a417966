package doors

import (
	"errors"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"
)

// What servers, managed services and proxies say of a command that is not there for this client. The rows of
// spec/clients/missing.json are their answers.
var (
	missing = regexp.MustCompile(`(?i)^(ERR )?(unknown (sub)?command|unsupported command|command is not available|` +
		`(handle \w+, )?command '?[\w.|]+'? (is )?not (support|allowed|available))`)
	right = regexp.MustCompile(`(?i)^NOPERM .* run the '([^']+)' command`)
)

// IsMissing says whether err is the reply of a server for which the command is not there: it does not know it, or the
// user may not run it. Nothing has happened then.
func IsMissing(err error) bool {
	if err == nil { // which allocates nothing
		return false
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := reply.Error()
	return missing.MatchString(text) || right.MatchString(text)
}

// Lacks is the right that err says the user lacks, as rules of ACL SETUSER have it, such as function|load. It is empty
// for any other error.
func Lacks(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	if found := right.FindStringSubmatch(reply.Error()); found != nil {
		return strings.ToLower(found[1])
	}
	return ""
}
