package logs

import (
	"bytes"
	"compress/bzip2"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// Stdin is the path of standard input.
const Stdin = "-"

// File is a log that is read, decompressed if it begins as gzip, zstd, bzip2 and xz do.
type File struct {
	Path string
	// Size is its length in bytes as it lies there, 0 if that is not known.
	Size int64

	read   atomic.Int64
	raw    *os.File
	unzip  *zstd.Decoder
	out    io.Reader
	outer  *ahead // reads from a decompressor; nil without one
	cancel context.CancelFunc
}

// Open opens a log. Reading ends with the context.
func Open(ctx context.Context, path string) (*File, error) {
	f := &File{Path: path, raw: os.Stdin}
	ctx, f.cancel = context.WithCancel(ctx)
	if path != Stdin {
		opened, err := os.Open(path)
		if err != nil {
			f.cancel()
			return nil, err
		}
		f.raw = opened
	}
	info, err := f.raw.Stat()
	if err == nil && info.IsDir() {
		err = fmt.Errorf("%s is a folder: name the files in it", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	if info.Mode().IsRegular() {
		f.Size = info.Size()
	}
	if err := f.decompress(ctx, &counted{f.raw, &f.read}); err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return f, nil
}

// decompress looks at the first bytes, whatever the file is called.
func (f *File) decompress(ctx context.Context, raw io.Reader) error {
	ahead := newAhead(ctx, raw)
	magic := make([]byte, 4)
	n, err := io.ReadFull(ahead, magic)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return err
	}
	whole := io.MultiReader(bytes.NewReader(magic[:n]), ahead)
	switch {
	case n >= 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		unzip, err := gzip.NewReader(whole)
		if err != nil {
			return err
		}
		f.decompressed(ctx, unzip)
	case bytes.Equal(magic[:n], []byte{0x28, 0xb5, 0x2f, 0xfd}):
		unzip, err := zstd.NewReader(whole, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(128<<20))
		if err != nil {
			return err
		}
		f.unzip = unzip
		f.decompressed(ctx, unzip)
	case bytes.Equal(magic[:min(n, 3)], []byte("BZh")):
		f.decompressed(ctx, bzip2.NewReader(whole))
	case bytes.Equal(magic[:n], []byte{0xfd, '7', 'z', 'X'}):
		unzip, err := xz.NewReader(whole)
		if err != nil {
			return err
		}
		f.decompressed(ctx, unzip)
	case n >= 2 && (magic[0] == 0xff && magic[1] == 0xfe || magic[0] == 0xfe && magic[1] == 0xff):
		return errors.New("written in UTF-16, which has to be undone first: iconv -f utf-16 -t utf-8 FILE | throttle-replay -")
	default:
		f.out = whole
	}
	return nil
}

func (f *File) decompressed(ctx context.Context, r io.Reader) {
	f.outer = newAhead(ctx, r)
	f.out = f.outer
}

// Read reads what the log says.
func (f *File) Read(to []byte) (int, error) { return f.out.Read(to) }

// Progress is how many bytes were read of Size.
func (f *File) Progress() int64 { return f.read.Load() }

// Close ends reading. A read from standard input that hangs is left alone.
func (f *File) Close() {
	f.cancel()
	if f.outer != nil {
		<-f.outer.ended
	}
	if f.unzip != nil {
		f.unzip.Close()
	}
	if f.raw != os.Stdin {
		_ = f.raw.Close()
	}
}

// counted counts what is read.
type counted struct {
	from io.Reader
	read *atomic.Int64
}

func (c *counted) Read(to []byte) (int, error) {
	n, err := c.from.Read(to)
	c.read.Add(int64(n))
	return n, err
}

// ahead reads in a goroutine of its own, so that decompressing and reading lines go on at the same time, and so that a
// read that hangs ends with the context.
type ahead struct {
	ctx    context.Context
	filled chan chunk
	empty  chan []byte
	now    chunk
	at     int
	ended  chan struct{}
}

type chunk struct {
	bytes []byte
	err   error
}

// aheadBytes is the length of a chunk. Two of them are on their way.
const aheadBytes = 256 << 10

func newAhead(ctx context.Context, from io.Reader) *ahead {
	a := &ahead{ctx: ctx, filled: make(chan chunk, 1), empty: make(chan []byte, 2), ended: make(chan struct{})}
	a.empty <- make([]byte, aheadBytes)
	a.empty <- make([]byte, aheadBytes)
	go a.run(from)
	return a
}

func (a *ahead) run(from io.Reader) {
	defer close(a.ended)
	for {
		var room []byte
		select {
		case room = <-a.empty:
		case <-a.ctx.Done():
			return
		}
		n, err := from.Read(room[:aheadBytes])
		select {
		case a.filled <- chunk{room[:n], err}:
		case <-a.ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (a *ahead) Read(to []byte) (int, error) {
	for a.at == len(a.now.bytes) {
		if a.now.err != nil {
			return 0, a.now.err
		}
		if a.now.bytes != nil {
			a.empty <- a.now.bytes
		}
		select {
		case a.now = <-a.filled:
			a.at = 0
		case <-a.ctx.Done():
			return 0, a.ctx.Err()
		}
	}
	n := copy(to, a.now.bytes[a.at:])
	a.at += n
	return n, nil
}
