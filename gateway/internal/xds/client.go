// Package xds receives the configuration from a management server, by the state-of-the-world protocol of xDS: each
// response has everything. What the server sent last and was right stays in force while it is away, hangs, or sends
// what has mistakes. One that sends without end costs little: a response a second is taken, the newest.
package xds

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/time/rate"
	"google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	grpcstatus "google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"redis-throttle/gateway/internal/config"
	"redis-throttle/gateway/internal/settings"
)

// Client asks one management server.
type Client struct {
	Settings *settings.Xds
	// TLS is the configuration of the next connection; nil without TLS.
	TLS func() *tls.Config
	// Load takes a configuration, or says what is wrong with it.
	Load func(config.Files) error
	// Connected is told when a stream begins and ends.
	Connected func(bool)
	// Version tells the server which program asks.
	Version string

	mistakes *rate.Limiter // of lines about mistakes
	leftOut  int           // how many mistakes have none yet
}

const (
	// silence is how long a server may leave the first request unanswered before the log says so.
	silence = 15 * time.Second
	// pingPatience is how long a ping may stay unanswered. Linux also ends a connection by it on which no byte was
	// acknowledged.
	pingPatience = 10 * time.Second
	// pause is how long each answer waits but the first of a stream. Servers that wait for it send the newest then; one
	// of go-control-plane sends what was refused again at once.
	pause = time.Second
	// readRate is how many bytes a second are read from a server that does not wait for answers, and frame what each
	// response counts in addition. The window of a stream, which is what may wait unread, is a quarter of it: what is
	// read is never old.
	readRate, frame = 4 * window, 32
	window          = 64 << 10
	// connectionWindow has large responses come fast.
	connectionWindow = 1 << 20
	// mistakesAtOnce have a line each: somebody tries to mend them. Then there is one in mistakesInterval.
	mistakesAtOnce   = 5
	mistakesInterval = 10 * time.Second
	// longestReason bounds what the server is told of mistakes, in bytes.
	longestReason = 4096
)

// probes notice that a host has gone, within half a minute. The pings of gRPC notice a server that hangs; a server may
// take them more often than each five minutes for an attack, so they come seldom.
var probes = net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3}

// Run receives until ctx ends. A value of again has it ask anew at once.
func (c *Client) Run(ctx context.Context, again <-chan os.Signal) {
	c.mistakes = rate.NewLimiter(rate.Every(mistakesInterval), mistakesAtOnce)
	connect, stream := c.backoff(c.Settings.ConnectRetry), c.backoff(c.Settings.BackoffInitial)
	for ctx.Err() == nil {
		attempt, cancel := context.WithCancel(ctx)
		ended := make(chan attemptEnd, 1)
		go func() { ended <- c.receive(attempt) }()
		select {
		case <-again:
			cancel()
			<-ended
			continue
		case end := <-ended:
			cancel()
			if ctx.Err() != nil {
				return
			}
			wait, what := connect, "the management server is not reached"
			if end.opened {
				connect.Reset()
				wait, what = stream, "the stream of the management server ended before it sent anything"
			}
			if end.answered {
				stream.Reset()
				what = "the stream of the management server ended"
			}
			next := min(wait.NextBackOff(), c.Settings.BackoffMax)
			slog.Warn(what+": the configuration stays as it was", "at", c.Settings.ServerURL, "again_in", next.Round(time.Millisecond), "error", c.explain(end.err))
			select {
			case <-ctx.Done():
			case <-again:
			case <-time.After(next):
			}
		}
	}
}

func (c *Client) backoff(initial time.Duration) *backoff.ExponentialBackOff {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval, b.MaxInterval, b.RandomizationFactor = initial, c.Settings.BackoffMax, c.Settings.BackoffRandom
	if !c.Settings.BackoffJitter {
		b.RandomizationFactor = 0
	}
	b.Reset()
	return b
}

// attemptEnd is how a connection ended, and how far it came.
type attemptEnd struct {
	opened, answered bool
	err              error
}

// receive takes what the server sends until the stream ends. Each stream begins without a version: the versions of a
// server that was restarted may begin anew, and one that we know would then be taken for another.
func (c *Client) receive(ctx context.Context) attemptEnd {
	conn, err := c.dial()
	if err != nil {
		return attemptEnd{err: err}
	}
	defer conn.Close()
	stream, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(metadata.NewOutgoingContext(ctx,
		metadata.New(c.Settings.Headers)))
	if err != nil {
		return attemptEnd{err: err}
	}
	request := &discovery.DiscoveryRequest{TypeUrl: config.ResourceType, Node: c.node()}
	_ = stream.Send(request) // an error ends the stream, and Recv says why
	c.Connected(true)
	defer c.Connected(false)
	slog.Info("connected to the management server", "at", c.Settings.ServerURL, "node", c.Settings.NodeID)
	in := &inbox{newest: make(chan *discovery.DiscoveryResponse, 1), end: attemptEnd{opened: true}}
	go in.fill(stream, c.Settings.NodeID)
	var last *config.Files
	for response := range in.newest {
		files, first := config.Resources(response.Resources), last == nil
		if first || files.Version != last.Version {
			request.ErrorDetail = c.load(files)
		}
		last = &files
		request.Node, request.ResponseNonce = nil, response.Nonce
		if request.ErrorDetail == nil {
			request.VersionInfo = response.VersionInfo
		}
		if !first {
			select {
			case <-stream.Context().Done():
			case <-time.After(pause):
			}
		}
		_ = stream.Send(request)
	}
	return in.end
}

// inbox holds the newest response of a stream that was not taken yet.
type inbox struct {
	newest chan *discovery.DiscoveryResponse // closed when end is known
	end    attemptEnd
}

// fill reads the stream until it ends, no faster than readRate.
func (in *inbox) fill(stream discovery.AggregatedDiscoveryService_StreamAggregatedResourcesClient, node string) {
	defer close(in.newest)
	silent := time.AfterFunc(silence, func() {
		slog.Warn("the management server has nothing for this node yet: it knows the node by CONFIG_GRPC_XDS_NODE_ID", "node", node)
	})
	defer silent.Stop()
	read, told := rate.NewLimiter(readRate, readRate), false
	for {
		response, err := stream.Recv()
		if err != nil {
			in.end.err = err
			return
		}
		silent.Stop()
		in.end.answered = true
		if response.TypeUrl == config.ResourceType {
			select {
			case <-in.newest:
			default:
			}
			in.newest <- response
		} else if !told {
			told = true
			slog.Warn("the management server sent what was not asked for", "type", response.TypeUrl)
		}
		_ = read.WaitN(stream.Context(), min(proto.Size(response)+frame, readRate)) // once the stream has ended, Recv says so
	}
}

// load has the configuration loaded, and returns what is wrong with it, which the log tells too.
func (c *Client) load(files config.Files) *status.Status {
	err := c.Load(files)
	if err == nil {
		return nil
	}
	if c.mistakes.Allow() {
		attrs := []any{"error", err}
		if c.leftOut > 0 {
			attrs = append(attrs, "left_out", c.leftOut)
		}
		slog.Error("the configuration stays as it was", attrs...)
		c.leftOut = 0
	} else {
		c.leftOut++
	}
	reason := strings.ToValidUTF8(err.Error()[:min(len(err.Error()), longestReason)], "")
	return &status.Status{Code: int32(codes.InvalidArgument), Message: reason}
}

// explain names the setting that keeps a response out.
func (c *Client) explain(err error) error {
	if grpcstatus.Code(err) == codes.ResourceExhausted {
		return fmt.Errorf("%w: XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES is %d", err, c.Settings.MaxMessageBytes)
	}
	return err
}

func (c *Client) node() *core.Node {
	values, _ := c.Settings.Metadata() // which the settings have checked
	fields, _ := structpb.NewStruct(values)
	return &core.Node{
		Id: c.Settings.NodeID, Metadata: fields, UserAgentName: "throttle-gateway",
		UserAgentVersionType: &core.Node_UserAgentVersion{UserAgentVersion: c.Version},
	}
}

func (c *Client) dial() (*grpc.ClientConn, error) {
	secure := insecure.NewCredentials()
	if c.TLS != nil {
		secure = credentials.NewTLS(c.TLS())
	}
	dialer := &net.Dialer{KeepAliveConfig: probes}
	return grpc.NewClient(c.Settings.ServerURL,
		grpc.WithTransportCredentials(secure),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(c.Settings.MaxMessageBytes)),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(connectionWindow),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: c.Settings.ServerKeepalive, Timeout: pingPatience}),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			if path, ok := strings.CutPrefix(address, "unix:///"); ok {
				return dialer.DialContext(ctx, "unix", path)
			}
			return dialer.DialContext(ctx, "tcp", address)
		}),
	)
}
