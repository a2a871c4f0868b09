package idempotency_test

import (
	"context"
	"fmt"
	"testing"

	pb "example.org/payments/gen/idempotencyv1"
	"example.org/payments/gen/paymentsv1"
	"example.org/payments/idempotency"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// jsonCodec is that of a server for callers without protobuf.
type jsonCodec struct{}

func (jsonCodec) Name() string { return "json" }

func (jsonCodec) Marshal(value any) ([]byte, error) {
	message, ok := value.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("%T is no message", value)
	}
	return protojson.Marshal(message)
}

func (jsonCodec) Unmarshal(data []byte, value any) error {
	message, ok := value.(proto.Message)
	if !ok {
		return fmt.Errorf("%T is no message", value)
	}
	return protojson.Unmarshal(data, message)
}

func init() { encoding.RegisterCodec(jsonCodec{}) }

func TestACallerWithAnotherCodecGetsTheReply(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", "order-1")
	for _, codec := range []string{"json", "json", "proto", "JSON"} {
		reply := new(paymentsv1.ChargeReply)
		err := s.client.Invoke(ctx, chargeMethod, order(500), reply, grpc.CallContentSubtype(codec))
		if err != nil || reply.GetChargeId() != "charge 1" {
			t.Errorf("%s: %v %v", codec, reply, err)
		}
	}
	s.ran(1)
}

func TestTheHandlersPushbackIsKept(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) {
		config.Released = map[string][]codes.Code{chargeMethod: {codes.ResourceExhausted}}
	})
	code := codes.ResourceExhausted
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		if err := grpc.SetTrailer(ctx, metadata.Pairs("grpc-retry-pushback-ms", "-1", "shop-trailer", "a")); err != nil {
			return nil, err
		}
		return nil, status.Error(code, "not now")
	}
	got := s.charge("order-1") // released
	s.refused(got, code, "", "-1")
	if len(got.trailer.Get("shop-trailer")) != 1 {
		t.Error(got.trailer)
	}
	code = codes.Internal // unknown
	s.refused(s.charge("order-1"), code, "", "-1")
	code = codes.NotFound // recorded
	s.refused(s.charge("order-2"), code, "", "")
}

type okError struct{}

func (okError) Error() string              { return "an error of the code OK" }
func (okError) GRPCStatus() *status.Status { return status.New(codes.OK, "") }

func TestAnErrorOfTheCodeOKIsNoReply(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		return nil, okError{}
	}
	s.refused(s.charge("order-1"), codes.Unavailable, "OUTCOME_NOT_RECORDED", "")
	s.state("order-1", pb.RecordState_RECORD_STATE_UNKNOWN)
}
