package main

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"peers/chargesv1"
)

// trailers takes the place of a transport.
type trailers struct{ metadata.MD }

func (trailers) Method() string                          { return chargesv1.Charges_Charge_FullMethodName }
func (trailers) SetHeader(metadata.MD) error             { return nil }
func (trailers) SendHeader(metadata.MD) error            { return nil }
func (stream *trailers) SetTrailer(md metadata.MD) error { stream.MD = md; return nil }

type fixture struct {
	*testing.T
	idempotency *Idempotency
	runs        int
}

func newFixture(t *testing.T) *fixture {
	store := os.Getenv("PEERS_STORE")
	if store == "" {
		t.Skip("PEERS_STORE names no Postgres: bench/peers/programs_test.py starts one")
	}
	pool, err := pgxpool.New(context.Background(), store)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	if _, err := pool.Exec(context.Background(), schema); err != nil {
		t.Fatal(err)
	}
	return &fixture{t, &Idempotency{pool}, 0}
}

// call returns the receipt, whether it is marked as a replay, and the code.
func (fixture *fixture) call(key string, cents int64,
	handler grpc.UnaryHandler) (string, bool, codes.Code) {
	stream := &trailers{}
	ctx := grpc.NewContextWithServerTransportStream(context.Background(), stream)
	if key != "" {
		ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("idempotency-key", key))
	}
	reply, err := fixture.idempotency.Intercept(ctx, &chargesv1.ChargeRequest{AmountCents: cents},
		&grpc.UnaryServerInfo{FullMethod: chargesv1.Charges_Charge_FullMethodName}, handler)
	if err != nil {
		return "", false, status.Code(err)
	}
	replayed := len(stream.Get("idempotency-replayed")) > 0
	return string(reply.(*chargesv1.ChargeReply).Receipt), replayed, codes.OK
}

func (fixture *fixture) charge(context.Context, any) (any, error) {
	fixture.runs++
	return &chargesv1.ChargeReply{Receipt: []byte{byte('0' + fixture.runs)}}, nil
}

func TestASecondCallGetsTheFirstReply(t *testing.T) {
	fixture := newFixture(t)
	key := uuid.NewString()
	first, firstReplayed, _ := fixture.call(key, 1, fixture.charge)
	second, secondReplayed, code := fixture.call(key, 1, fixture.charge)
	if fixture.runs != 1 || code != codes.OK || first != second || firstReplayed || !secondReplayed {
		t.Errorf("%d runs, %v, %q %v, %q %v", fixture.runs, code, first, firstReplayed, second,
			secondReplayed)
	}
}

func TestAnotherRequestIsRefused(t *testing.T) {
	fixture := newFixture(t)
	key := uuid.NewString()
	fixture.call(key, 1, fixture.charge)
	if _, _, code := fixture.call(key, 2, fixture.charge); code != codes.InvalidArgument ||
		fixture.runs != 1 {
		t.Errorf("%v, %d runs", code, fixture.runs)
	}
}

func TestADuplicateInProgressIsRefused(t *testing.T) {
	fixture := newFixture(t)
	key := uuid.NewString()
	var inside codes.Code
	fixture.call(key, 1, func(ctx context.Context, request any) (any, error) {
		_, _, inside = fixture.call(key, 1, fixture.charge)
		return fixture.charge(ctx, request)
	})
	if inside != codes.Aborted || fixture.runs != 1 {
		t.Errorf("%v, %d runs", inside, fixture.runs)
	}
}

func TestAFailureIsNotRecorded(t *testing.T) {
	fixture := newFixture(t)
	key := uuid.NewString()
	fails := func(context.Context, any) (any, error) { return nil, errors.New("no funds") }
	fixture.call(key, 1, fails)
	if _, replayed, code := fixture.call(key, 1, fixture.charge); code != codes.OK || replayed {
		t.Errorf("%v, replayed %v", code, replayed)
	}
}

func TestCallsWithoutAKeyAllRun(t *testing.T) {
	fixture := newFixture(t)
	fixture.call("", 1, fixture.charge)
	fixture.call("", 1, fixture.charge)
	if fixture.runs != 2 {
		t.Errorf("%d runs", fixture.runs)
	}
}
