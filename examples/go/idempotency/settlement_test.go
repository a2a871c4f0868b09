package idempotency_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"example.org/payments/gen/paymentsv1"
	"example.org/payments/gen/testingv1"
	"example.org/payments/idempotency"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// fault fails the calls of a method while it is on.
type fault struct {
	method string
	err    error
	done   bool // the service does the call, and its answer is lost
	left   atomic.Int32
	calls  atomic.Int32
}

const always = 1 << 30

func failing(method string, times int32, err error) *fault {
	made := &fault{method: method, err: err}
	made.left.Store(times)
	return made
}

func (f *fault) intercept(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
	invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
	if !strings.HasSuffix(method, "/"+f.method) {
		return invoke(ctx, method, request, reply, channel, options...)
	}
	f.calls.Add(1)
	if f.left.Add(-1) < 0 {
		return invoke(ctx, method, request, reply, channel, options...)
	}
	if f.done {
		if err := invoke(context.WithoutCancel(ctx), method, request, reply, channel, options...); err != nil {
			return err
		}
	}
	return f.err
}

func (s *setup) state(key string, want pb.RecordState) {
	s.t.Helper()
	if state := s.record(key).GetState(); state != want {
		s.t.Errorf("%s: %v, want %v", key, state, want)
	}
}

func (s *setup) unsettled(want int64) {
	s.t.Helper()
	if found := s.guard.Unsettled(); found != want {
		s.t.Errorf("%d reservations are not settled, want %d", found, want)
	}
}

func TestACompleteThatIsRefusedForNowIsRepeated(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]error{
		"an expired token":  ofTheService(codes.Unauthenticated, "CREDENTIALS_INVALID"),
		"a missing rule":    ofTheService(codes.PermissionDenied, "ACCESS_DENIED"),
		"a proxy's reset":   status.Error(codes.Internal, "RST_STREAM"),
		"a proxy's 500":     status.Error(codes.Unknown, "HTTP 500"),
		"a proxy's 404":     status.Error(codes.Unimplemented, "HTTP 404"),
		"a proxy's refusal": status.Error(codes.FailedPrecondition, "no"),
		"an abort":          status.Error(codes.Aborted, "again"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, nil, failing("Complete", 1, refused).intercept)
			first := s.charge("order-1")
			if first.err != nil {
				t.Fatal(first.err)
			}
			s.replayed(s.charge("order-1"), first)
			s.ran(1)
			s.unsettled(0)
		})
	}
}

func TestAReplyIsRecordedAfterItsCallerWasRefused(t *testing.T) {
	t.Parallel()
	refused := failing("Complete", always, ofTheService(codes.PermissionDenied, "ACCESS_DENIED"))
	s := start(t, func(config *idempotency.Config) { config.AnswerWithin = 50 * time.Millisecond }, refused.intercept)
	s.refused(s.charge("order-1"), codes.Unavailable, "OUTCOME_NOT_RECORDED", "")
	s.refused(s.charge("order-1"), codes.Aborted, "IN_FLIGHT", "1000")
	refused.left.Store(0) // the rule is back
	s.wait()
	if got := s.charge("order-1"); got.err != nil || len(got.trailer.Get("idempotency-replayed")) != 1 {
		t.Errorf("%+v", got)
	}
	s.ran(1)
	s.unsettled(0)
}

func TestAnUnknownOutcomeIsReportedAfterItsCallerWasRefused(t *testing.T) {
	t.Parallel()
	refused := failing("Release", always, status.Error(codes.Unauthenticated, "expired"))
	s := start(t, func(config *idempotency.Config) { config.AnswerWithin = 50 * time.Millisecond }, refused.intercept)
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		return nil, status.Error(codes.Internal, "the bank did not answer")
	}
	s.refused(s.charge("order-1"), codes.Unavailable, "OUTCOME_NOT_RECORDED", "")
	refused.left.Store(0)
	s.wait()
	s.state("order-1", pb.RecordState_RECORD_STATE_UNKNOWN)
}

func TestAFinalRefusalOfCompleteIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, reason := range []string{"RECORD_DAMAGED", "RECORD_ID_COLLISION"} {
		refused := failing("Complete", always, ofTheService(codes.DataLoss, reason))
		s := start(t, nil, refused.intercept)
		s.refused(s.charge("order-1"), codes.Unavailable, "OUTCOME_NOT_RECORDED", "")
		s.wait()
		if calls := refused.calls.Load(); calls != 1 {
			t.Errorf("%s: %d calls", reason, calls)
		}
		s.unsettled(1)
	}
}

func TestWaitGivesUpWhatHasNotEnded(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) { config.AnswerWithin = 50 * time.Millisecond },
		failing("Complete", always, status.Error(codes.Unauthenticated, "expired")).intercept)
	s.refused(s.charge("order-1"), codes.Unavailable, "OUTCOME_NOT_RECORDED", "")
	s.unsettled(0)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.guard.Wait(ended); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	s.unsettled(1)
}

func TestOutcomesInTheBackgroundAreBounded(t *testing.T) {
	t.Parallel()
	refused := failing("Complete", always, status.Error(codes.Unauthenticated, "expired"))
	s := start(t, func(config *idempotency.Config) {
		config.AnswerWithin = 50 * time.Millisecond
		config.Background = 1
	}, refused.intercept)
	s.charge("order-1")
	s.charge("order-2")
	refused.left.Store(0)
	s.wait()
	s.state("order-1", pb.RecordState_RECORD_STATE_COMPLETED)
	s.state("order-2", pb.RecordState_RECORD_STATE_RESERVED)
	s.unsettled(1)
}

func TestManyGrantsAreGivenBack(t *testing.T) {
	t.Parallel()
	const callers = 150
	lost := failing("Reserve", always, status.Error(codes.Unavailable, "frozen"))
	lost.done = true
	s := start(t, func(config *idempotency.Config) { config.ReserveFor = 50 * time.Millisecond }, lost.intercept)
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() { s.charge(fmt.Sprint("order-", i)) })
	}
	group.Wait()
	lost.left.Store(0)
	s.wait()
	for i := range callers {
		s.state(fmt.Sprint("order-", i), pb.RecordState_RECORD_STATE_RELEASED)
	}
	s.ran(0)
	s.unsettled(0)
}

func TestGrantsThatAreNotGivenBackAreCounted(t *testing.T) {
	t.Parallel()
	lost := failing("Reserve", always, status.Error(codes.Unavailable, "frozen"))
	lost.done = true
	s := start(t, func(config *idempotency.Config) {
		config.ReserveFor = 50 * time.Millisecond
		config.Background = 1
	}, lost.intercept)
	s.charge("order-1")
	s.charge("order-2")
	lost.left.Store(0)
	s.wait()
	s.state("order-1", pb.RecordState_RECORD_STATE_RELEASED)
	s.state("order-2", pb.RecordState_RECORD_STATE_RESERVED)
	s.unsettled(1)
}

func TestACallThatWasNotSentIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	tries := failing("Reserve", 0, nil)
	s := start(t, func(config *idempotency.Config) {
		config.Service = pb.NewIdempotencyServiceClient(dial(t, "127.0.0.1:1",
			append(idempotency.DialOptions(), grpc.WithUnaryInterceptor(tries.intercept))...))
	})
	s.refused(s.charge("order-1"), codes.Unavailable, "STORE_UNAVAILABLE", "1000")
	s.wait()
	if calls := tries.calls.Load(); calls != 1 { // and none to give back
		t.Errorf("%d calls", calls)
	}
	s.ran(0)
	s.unsettled(0)
}

func TestAReleasedFailureWhoseRecordIsGone(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) {
		config.Released = map[string][]codes.Code{chargeMethod: {codes.Aborted}}
	})
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		if _, err := s.testing.Reset(ctx, &testingv1.ResetRequest{}); err != nil {
			return nil, err
		}
		return nil, status.Error(codes.Aborted, "the bank is closed")
	}
	s.refused(s.charge("order-1"), codes.Aborted, "", "") // a retry may run
}
