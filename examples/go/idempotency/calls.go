package idempotency

import (
	"context"
	"strconv"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	tryTimeout = 5 * time.Second // of one call of the service, above MaxWait
	firstPause = 100 * time.Millisecond
	maxPause   = 5 * time.Second
)

// DialOptions are those of the channel to idempotencyd, beside its credentials.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(16 << 20)),
		grpc.WithConnectParams(grpc.ConnectParams{MinConnectTimeout: 5 * time.Second, Backoff: backoff.Config{
			BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 500 * time.Millisecond}}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 5 * time.Second}),
		grpc.WithDefaultServiceConfig(`{"loadBalancingConfig": [{"round_robin": {}}]}`),
	}
}

// rpc is a method of the service's client.
type rpc[Q, A any] func(context.Context, *Q, ...grpc.CallOption) (*A, error)

// callError is the error of the last try of a call.
type callError struct {
	err   error
	open  bool          // a try may have been done, whatever the last one got
	delay time.Duration // that the service requests
}

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// GRPCStatus is the status of the service, as it is.
func (e *callError) GRPCStatus() *status.Status { return status.Convert(e.err) }

// repeat sends the same message again while its outcome is open, until the context ends.
func repeat[Q, A any](ctx context.Context, call rpc[Q, A], request *Q) (*A, error) {
	open := false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var trailer metadata.MD
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		answer, err := call(try, request, grpc.Trailer(&trailer))
		cancel()
		if err == nil {
			return answer, nil
		}
		code := status.Code(err)
		open = open || isOpen(code)
		delay := pushbackOf(trailer)
		failed := &callError{err: err, open: open, delay: delay}
		if delay < 0 || (!isOpen(code) && code != codes.ResourceExhausted) {
			return nil, failed
		}
		pause = max(pause, delay)
		if end, bounded := ctx.Deadline(); bounded && time.Until(end) < pause {
			return nil, failed
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, failed
		}
	}
}

func isOpen(code codes.Code) bool {
	return code == codes.Unavailable || code == codes.DeadlineExceeded || code == codes.Canceled
}

// pushbackOf is 0 without a delay, and negative if the call must not be repeated.
func pushbackOf(trailer metadata.MD) time.Duration {
	values := trailer.Get(pushback)
	if len(values) == 0 {
		return 0
	}
	milliseconds, err := strconv.Atoi(values[0])
	if err != nil {
		return noRetries
	}
	return time.Duration(milliseconds) * time.Millisecond
}

// causeOf is the cause in the metadata of a RESERVATION_LOST.
func causeOf(err error) string {
	return errorInfo(status.Convert(err)).GetMetadata()["cause"]
}

func errorInfo(failure *status.Status) *errdetails.ErrorInfo {
	for _, detail := range failure.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			return info
		}
	}
	return nil
}
