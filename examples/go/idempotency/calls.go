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
	"google.golang.org/grpc/peer"
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
		grpc.WithDisableRetry(), // the guard repeats calls itself
	}
}

// rpc is a method of the service's client.
type rpc[Q, A any] func(context.Context, *Q, ...grpc.CallOption) (*A, error)

// callError is the error of the last try of a call.
type callError struct {
	err    error
	sent   bool          // the last try may have reached the service
	open   bool          // a try may have been done, whatever the last one got
	pushed time.Duration // the delay that the service requests; negative: no retries
}

func (e *callError) Error() string { return e.err.Error() }
func (e *callError) Unwrap() error { return e.err }

// GRPCStatus is the status of the service, as it is.
func (e *callError) GRPCStatus() *status.Status { return status.Convert(e.err) }

// repeat sends the same message again while the last error permits it, until the context ends.
func repeat[Q, A any](ctx context.Context, call rpc[Q, A], request *Q, again func(*callError) bool) (*A, error) {
	open := false
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		var trailer metadata.MD
		var server peer.Peer // has no address if no connection took the call
		try, cancel := context.WithTimeout(ctx, tryTimeout)
		answer, err := call(try, request, grpc.Trailer(&trailer), grpc.Peer(&server))
		cancel()
		if err == nil {
			return answer, nil
		}
		sent := server.Addr != nil
		open = open || sent && isOpen(err)
		failed := &callError{err: err, sent: sent, open: open, pushed: pushbackOf(trailer)}
		if !again(failed) {
			return nil, failed
		}
		pause = max(pause, failed.pushed)
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

// whileOpen is for a call before the handler: the caller waits, so an outage ends it at once.
func whileOpen(failed *callError) bool {
	if failed.pushed < 0 {
		return false
	}
	if status.Code(failed) == codes.ResourceExhausted {
		return true
	}
	return isOpen(failed) && (failed.sent || failed.open)
}

// untilFinal is for a call that settles a reservation (rule 4): a refusal of the guard may be corrected.
func untilFinal(failed *callError) bool { return !isFinal(failed) }

// isOpen reports whether a call that was sent may have been done. A proxy makes INTERNAL and UNKNOWN.
func isOpen(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Internal, codes.Unknown:
		return !isFinal(err)
	}
	return false
}

// isFinal reports whether the service gives each repetition the same answer.
func isFinal(err error) bool {
	switch reasonOf(err) {
	case "RESERVATION_LOST", "RECORD_DAMAGED", "RECORD_ID_COLLISION", "REQUEST_INVALID":
		return true
	}
	return false
}

func isLost(err error) bool { return reasonOf(err) == "RESERVATION_LOST" }

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

// reasonOf is empty for an error that is not of the service.
func reasonOf(err error) string { return errorInfo(status.Convert(err)).GetReason() }

// causeOf is the cause in the metadata of a RESERVATION_LOST.
func causeOf(err error) string {
	return errorInfo(status.Convert(err)).GetMetadata()["cause"]
}

// errorInfo is that of the service or of a guard, wherever it stands among others.
func errorInfo(failure *status.Status) *errdetails.ErrorInfo {
	for _, detail := range failure.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == errorDomain {
			return info
		}
	}
	return nil
}
