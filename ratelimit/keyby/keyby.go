// Package keyby says who a request comes from: functions for the Key of httplimit.Options and others.
//
//	Key: keyby.First(
//		keyby.Prefixed("account:", accountOf), // whose API key the request has: "" unless you have looked it up, and know it
//		keyby.Prefixed("ip:", keyby.Client(proxies...)),
//	)
//
// A request with the key "" is not limited. A client that can write what it likes into its key has a new limit
// with each request, and can use up that of somebody else. So take only what was authenticated, or what the
// client cannot choose, such as its address. An API key that nobody has looked up yet is whatever the client invents: a
// limit by Header("X-Api-Key") limits nobody who sends another one each time. Give keys of different kinds different
// prefixes, as above.
package keyby

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Func is the key of a request, "" for none.
type Func = func(r *http.Request) string

// Header is the first value of a header field, "" without one. A client can write any field, so this alone is a key
// only where a proxy in front replaces the field, or has checked it. Host, which net/http keeps apart from the other
// fields, is in small letters.
func Header(name string) Func {
	name = http.CanonicalHeaderKey(name)
	if name == "Host" {
		return func(r *http.Request) string { return strings.ToLower(r.Host) }
	}
	return func(r *http.Request) string {
		if values := r.Header[name]; len(values) > 0 {
			return values[0]
		}
		return ""
	}
}

// Prefixed is key behind a prefix, "" where key is.
func Prefixed(prefix string, key Func) Func {
	return func(r *http.Request) string {
		k := key(r)
		if k == "" {
			return ""
		}
		return prefix + k
	}
}

// First is the first of keys that is not "".
func First(keys ...Func) Func {
	return func(r *http.Request) string {
		for _, key := range keys {
			if k := key(r); k != "" {
				return k
			}
		}
		return ""
	}
}

// SHA256 is the hash of key, 64 hexadecimal digits, "" where key is: the API keys of clients, once they were checked,
// then do not get into Redis, its files, its slow log and its CL.TOP. `printf %s "$API_KEY" | sha256sum` shows which
// one is whose. What can be guessed, such as an e-mail address, can be found by its hash as well: take HMAC for that.
func SHA256(key Func) Func { return hashed(key, Hash) }

// HMAC is the HMAC-SHA256 of key under secret, 64 hexadecimal digits, "" where key is. Only processes that have
// the secret can tell what was hashed. All processes that share limits need the same one. It panics when secret is
// empty.
func HMAC(secret []byte, key Func) Func {
	if len(secret) == 0 {
		panic("keyby: HMAC needs a secret")
	}
	secret = append([]byte(nil), secret...)
	return hashed(key, func(k string) string {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte(k))
		return hex.EncodeToString(mac.Sum(nil))
	})
}

func hashed(key Func, hash func(string) string) Func {
	return func(r *http.Request) string {
		k := key(r)
		if k == "" {
			return ""
		}
		return hash(k)
	}
}

// AtMost shortens keys, so that clients cannot fill the memory of Redis with long ones. A key of up to n bytes stays as
// it is. A longer key, and one that looks like a hash, becomes "sha256:" and its hash (71 bytes). Different keys stay
// different.
func AtMost(n int, key Func) Func {
	return func(r *http.Request) string { return Shorten(n, key(r)) }
}

// Shorten is what AtMost does to a key.
func Shorten(n int, key string) string {
	const mark = "sha256:"
	if len(key) <= n && !strings.HasPrefix(key, mark) {
		return key
	}
	return mark + Hash(key)
}

// Hash is what SHA256 does to a key.
func Hash(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}
