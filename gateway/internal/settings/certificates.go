package settings

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"sync"
	"time"
)

// Certificates are the files with certificates and keys. Connections read them when they need them, and Watch now and
// then, so that a mistake is logged when a file changes and not when the last connection has gone.
type Certificates struct{ all []interface{ look() } }

// lookInterval is how often the files are looked at.
const lookInterval = time.Second

// Watch looks at the files until ctx ends.
func (c *Certificates) Watch(ctx context.Context) {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for len(c.all) > 0 {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for _, one := range c.all {
			one.look()
		}
	}
}

// kept is what a file holds. It is read again whenever it is needed. While that fails, the last one that was right
// stays, so that a certificate that is replaced before its key ends no connection.
type kept[T any] struct {
	what string
	load func() (T, error)

	mu   sync.Mutex
	last T
	seen string // the error of the last look
	told string // the error that was logged last
}

func keep[T any](in *Certificates, what string, load func() (T, error)) (*kept[T], error) {
	first, err := load()
	k := &kept[T]{what: what, load: load, last: first}
	in.all = append(in.all, k)
	return k, err
}

func (k *kept[T]) get() T {
	now, err := k.load()
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		if k.told != "" {
			slog.Info("the certificate is right again", "of", k.what)
		}
		k.last, k.told = now, ""
	case k.told != err.Error():
		k.told = err.Error()
		slog.Error("the certificate stays as it was", "of", k.what, "error", err)
	}
	return k.last
}

// look takes a mistake for one when it is there twice: between a new certificate and its key there is a moment.
func (k *kept[T]) look() {
	text := ""
	if _, err := k.load(); err != nil {
		text = err.Error()
	}
	k.mu.Lock()
	isSettled := text == "" || text == k.seen
	k.seen = text
	k.mu.Unlock()
	if isSettled {
		k.get()
	}
}

func keepPair(in *Certificates, what, cert, key string) (*kept[*tls.Certificate], error) {
	return keep(in, what, func() (*tls.Certificate, error) {
		if cert == "" && key == "" {
			return nil, nil
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		return &pair, err
	})
}

func keepPool(in *Certificates, what, file string) (*kept[*x509.CertPool], error) {
	return keep(in, what, func() (*x509.CertPool, error) { return pool(file) })
}
