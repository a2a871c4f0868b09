package idempotency

import (
	"context"
	"strconv"
	"strings"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	errorDomain = "grpc-idempotency.dev"
	pushback    = "grpc-retry-pushback-ms"
	maxPushback = time.Second // of gRPC's own retries; RetryInfo has the whole delay
	noRetries   = -1
)

// refusal is an error of docs/errors.md.
type refusal struct {
	code     codes.Code
	reason   string
	message  string
	metadata map[string]string
	delay    time.Duration // none if 0; negative: no retries
}

// send sets the trailers of the refusal and returns its status.
func (r refusal) send(ctx context.Context, record string) error {
	details := []protoadapt.MessageV1{&errdetails.ErrorInfo{Reason: r.reason, Domain: errorDomain, Metadata: r.metadata}}
	trailer := metadata.MD{}
	if record != "" {
		trailer.Set("idempotency-record", record)
	}
	switch {
	case r.delay < 0:
		trailer.Set(pushback, strconv.Itoa(noRetries))
	case r.delay > 0:
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(r.delay)})
		trailer.Set(pushback, strconv.FormatInt(max(1, min(r.delay, maxPushback).Milliseconds()), 10))
	}
	_ = grpc.SetTrailer(ctx, trailer) // fails only if the call has ended
	failure, err := status.New(r.code, r.message).WithDetails(details...)
	if err != nil { // a string that is no UTF-8
		return status.Error(r.code, r.message)
	}
	return failure.Err()
}

func outcomeUnknown(unknown *pb.OutcomeUnknown) refusal {
	return refusal{code: codes.FailedPrecondition, reason: "OUTCOME_UNKNOWN",
		message: "the outcome is unknown: do not retry, find out", delay: noRetries,
		metadata: map[string]string{
			"cause":   strings.TrimPrefix(unknown.GetCause().String(), "CAUSE_"),
			"reason":  unknown.GetReason(),
			"since":   unknown.GetSince().AsTime().Format(time.RFC3339Nano),
			"attempt": strconv.FormatUint(uint64(unknown.GetAttempt()), 10),
		}}
}
