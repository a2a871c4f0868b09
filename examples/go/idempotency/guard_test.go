package idempotency_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"example.org/payments/gen/paymentsv1"
	"example.org/payments/gen/testingv1"
	"example.org/payments/idempotency"
	"github.com/google/uuid"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
)

const (
	chargeMethod = paymentsv1.Payments_Charge_FullMethodName
	world        = "idempotency-test-world"
	within       = 20 * time.Second
)

// daemon starts a serve-testing and returns its address; the program is $IDEMPOTENCYD, or that of
// PATH.
func daemon(t *testing.T) string {
	t.Helper()
	program := os.Getenv("IDEMPOTENCYD")
	if program == "" {
		program = "idempotencyd"
	}
	command := exec.Command(program, "serve-testing", "--exit_with_parent=false", "--exit_with_stdin")
	command.Stderr = os.Stderr
	if _, err := command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	output, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = command.Process.Kill()
		_ = command.Wait()
	})
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil {
		t.Fatalf("%s: %v", program, err)
	}
	return line[strings.LastIndex(line, " ")+1 : len(line)-1]
}

// charges is a payments service whose work a test sets.
type charges struct {
	paymentsv1.UnimplementedPaymentsServer
	work func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error)
	runs atomic.Int32
}

func (c *charges) Charge(ctx context.Context, request *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
	run := c.runs.Add(1)
	if c.work != nil {
		return c.work(ctx, request)
	}
	return &paymentsv1.ChargeReply{ChargeId: fmt.Sprint("charge ", run), Notes: request.GetNotes()}, nil
}

// setup is a guarded server, its client, and the service behind the guard, in a world of its own.
type setup struct {
	*charges
	t       *testing.T
	guard   *idempotency.Guard
	callers chan context.Context // of the calls, in their order
	client  *grpc.ClientConn
	service pb.IdempotencyServiceClient
	testing testingv1.TestingServiceClient
}

func inWorld(name string) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		return invoke(metadata.AppendToOutgoingContext(ctx, world, name), method, request, reply, channel, options...)
	}
}

func dial(t *testing.T, target string, options ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	options = append(options, grpc.WithTransportCredentials(insecure.NewCredentials()))
	channel, err := grpc.NewClient(target, options...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = channel.Close() })
	return channel
}

// start adjusts the configuration, and puts faults between the guard and the service.
func start(t *testing.T, adjust func(*idempotency.Config), faults ...grpc.UnaryClientInterceptor) *setup {
	t.Helper()
	return startWith(t, func(*grpc.Server) {}, adjust, faults...)
}

// startWith has further services.
func startWith(t *testing.T, register func(*grpc.Server), adjust func(*idempotency.Config),
	faults ...grpc.UnaryClientInterceptor) *setup {
	t.Helper()
	name := uuid.NewString()
	target := daemon(t)
	channel := dial(t, target, append(idempotency.DialOptions(),
		grpc.WithChainUnaryInterceptor(append([]grpc.UnaryClientInterceptor{inWorld(name)}, faults...)...))...)
	own := dial(t, target, grpc.WithChainUnaryInterceptor(inWorld(name)))
	config := idempotency.Config{
		Service:   pb.NewIdempotencyServiceClient(channel),
		Namespace: "payments",
		Services:  []*grpc.ServiceDesc{&paymentsv1.Payments_ServiceDesc},
		Scope:     func(context.Context) (string, error) { return "tenant-1", nil },
		MaxWait:   time.Millisecond,
	}
	if adjust != nil {
		adjust(&config)
	}
	guard, err := idempotency.New(config)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	made := &setup{charges: &charges{}, t: t, guard: guard, callers: make(chan context.Context, 1000), service: pb.NewIdempotencyServiceClient(own),
		testing: testingv1.NewTestingServiceClient(own)}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(made.outer, guard.Intercept), grpc.WaitForHandlers(true))
	paymentsv1.RegisterPaymentsServer(server, made.charges)
	register(server)
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(listener) }()
	made.client = dial(t, listener.Addr().String())
	t.Cleanup(func() {
		server.Stop()
		made.wait()
		if err := <-serving; err != nil {
			t.Error(err)
		}
	})
	return made
}

// wait waits for the guard's work in the background.
func (s *setup) wait() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := s.guard.Wait(ctx); err != nil {
		s.t.Error(err)
	}
}

// answer is all that a client gets.
type answer struct {
	body            []byte
	err             error
	header, trailer metadata.MD
}

func (a answer) reason() string {
	for _, detail := range status.Convert(a.err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "grpc-idempotency.dev" {
			return info.GetReason()
		}
	}
	return ""
}

// call sends a charge, and keeps the bytes of its reply.
func (s *setup) call(key string, request *paymentsv1.ChargeRequest, deadline time.Duration) answer {
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	var got answer
	reply := new(emptypb.Empty)
	got.err = s.client.Invoke(ctx, chargeMethod, request, reply, grpc.Header(&got.header), grpc.Trailer(&got.trailer))
	got.body = reply.ProtoReflect().GetUnknown()
	return got
}

func (s *setup) charge(key string) answer { return s.call(key, order(500), within) }

func order(cents int64) *paymentsv1.ChargeRequest {
	return &paymentsv1.ChargeRequest{Account: "alice", AmountCents: cents}
}

// refused fails the test unless the answer is an error of the catalogue.
func (s *setup) refused(got answer, code codes.Code, reason, delay string) {
	s.t.Helper()
	if status.Code(got.err) != code || got.reason() != reason {
		s.t.Errorf("%v (%s), want %v (%s)", got.err, got.reason(), code, reason)
	}
	if found := strings.Join(got.trailer.Get("grpc-retry-pushback-ms"), ","); found != delay {
		s.t.Errorf("%s: pushback %q, want %q", reason, found, delay)
	}
}

// replayed fails the test unless the answer is the recorded one of the first answer.
func (s *setup) replayed(got, first answer) {
	s.t.Helper()
	if !proto.Equal(status.Convert(got.err).Proto(), status.Convert(first.err).Proto()) {
		s.t.Errorf("%v, want %v", got.err, first.err)
	}
	if string(got.body) != string(first.body) {
		s.t.Errorf("body %x, want %x", got.body, first.body)
	}
	if !slices.Equal(got.trailer.Get("idempotency-replayed"), []string{"true"}) {
		s.t.Errorf("it is no replay: %v", got.trailer)
	}
	for _, name := range []string{"idempotency-record", "idempotency-expires", "shop-trailer", "shop-trailer-bin"} {
		if !slices.Equal(got.trailer.Get(name), first.trailer.Get(name)) {
			s.t.Errorf("%s: %q, want %q", name, got.trailer.Get(name), first.trailer.Get(name))
		}
	}
	if !slices.Equal(got.header.Get("shop-header"), first.header.Get("shop-header")) {
		s.t.Errorf("header %v, want %v", got.header, first.header)
	}
}

func (s *setup) ran(times int32) {
	s.t.Helper()
	if runs := s.runs.Load(); runs != times {
		s.t.Errorf("it ran %d times, want %d", runs, times)
	}
}

func (s *setup) advance(by time.Duration) {
	s.t.Helper()
	request := &testingv1.AdvanceClockRequest{By: durationpb.New(by)}
	if _, err := s.testing.AdvanceClock(s.t.Context(), request); err != nil {
		s.t.Fatal(err)
	}
}

// record returns the record of a key.
func (s *setup) record(key string) *pb.Record {
	s.t.Helper()
	got, err := s.service.Get(s.t.Context(), &pb.GetRequest{RecordKey: recordKey(key)})
	if err != nil {
		s.t.Fatal(err)
	}
	return got.GetRecord()
}

func recordKey(key string) *pb.RecordKey {
	return &pb.RecordKey{Namespace: "payments", Scope: "tenant-1", Operation: chargeMethod, Key: key}
}

// received waits for a signal.
func received[T any](t *testing.T, signal <-chan T) T {
	t.Helper()
	select {
	case value := <-signal:
		return value
	case <-time.After(within):
		t.Fatal("no signal")
		panic("unreachable")
	}
}

func setMetadata(ctx context.Context) error {
	if err := grpc.SendHeader(ctx, metadata.Pairs("shop-header", "a", "shop-header", "b")); err != nil {
		return err
	}
	return grpc.SetTrailer(ctx, metadata.Pairs("shop-trailer", "c", "shop-trailer-bin", "\x00\xff"))
}

func TestARetryIsReplayedByteForByte(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.work = func(ctx context.Context, request *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		return &paymentsv1.ChargeReply{ChargeId: "charge 1", Notes: request.GetNotes()}, setMetadata(ctx)
	}
	// The order of map entries on the wire differs from call to call.
	request := order(500)
	request.Notes = map[string]string{}
	for i := range 20 {
		request.Notes[fmt.Sprint(i)] = "note"
	}
	key := uuid.Must(uuid.NewV7()).String()
	first := s.call(key, request, within)
	if first.err != nil || len(first.body) == 0 || len(first.header.Get("shop-header")) != 2 {
		t.Fatalf("%+v", first)
	}
	if first.trailer.Get("idempotency-replayed") != nil {
		t.Error("the first reply is marked as a replay")
	}
	for range 5 {
		s.replayed(s.call(key, request, within), first)
	}
	s.replayed(s.call(strings.ToUpper(key), request, within), first)
	s.replayed(s.call(`"`+key+`"`, request, within), first)
	s.ran(1)
}

func TestMetadataThatCannotBeRecordedIsLeftOut(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		incoming, _ := metadata.FromIncomingContext(ctx) // has :authority
		if err := grpc.SetHeader(ctx, metadata.Join(incoming, metadata.Pairs("x-merchant", "M\u00fcller",
			"x merchant", "a", "x-line", "a\nb", "shop-header", "a", "shop-header-bin", "\xff"))); err != nil {
			return nil, err
		}
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, setMetadata(ctx)
	}
	first := s.charge("order-1")
	if first.err != nil || len(first.header.Get("shop-header")) != 3 || len(first.header.Get("shop-header-bin")) != 1 {
		t.Fatalf("%+v", first)
	}
	for _, name := range []string{"x-merchant", "x merchant", "x-line"} {
		if first.header.Get(name) != nil {
			t.Errorf("%s is sent, although a replay has not got it", name)
		}
	}
	s.replayed(s.charge("order-1"), first)
	s.ran(1)
}

func TestAReplyThatTheServiceRefusesIsRecordedWithoutItsContent(t *testing.T) {
	t.Parallel()
	s := start(t, nil, func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if complete, ok := request.(*pb.CompleteRequest); ok && complete.GetReply().GetBody() != nil {
			return ofTheService(codes.InvalidArgument, "REQUEST_INVALID") // by a rule of a newer service
		}
		return invoke(ctx, method, request, reply, channel, options...)
	})
	if got := s.charge("order-1"); got.err != nil {
		t.Error(got.err)
	}
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "REPLY_NOT_KEPT", "")
	s.ran(1)
}

func TestAnEmptyReplyIsReplayed(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		return &paymentsv1.ChargeReply{}, nil
	}
	first := s.charge("order-1")
	s.replayed(s.charge("order-1"), first)
	s.ran(1)
}

func TestAFailureIsReplayedWithItsDetails(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		failure, err := status.New(codes.FailedPrecondition, "declined").WithDetails(
			&errdetails.ErrorInfo{Reason: "NO_MONEY", Domain: "example.org"})
		if err != nil {
			return nil, err
		}
		if err := setMetadata(ctx); err != nil {
			return nil, err
		}
		return nil, failure.Err()
	}
	first := s.charge("order-1")
	if status.Code(first.err) != codes.FailedPrecondition || len(status.Convert(first.err).Details()) != 1 {
		t.Fatal(first.err)
	}
	s.replayed(s.charge("order-1"), first)
	s.ran(1)
}

func TestAnotherRequestIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.charge("order-1")
	got := s.call("order-1", order(900), within)
	s.refused(got, codes.FailedPrecondition, "KEY_REUSED", "")
	if len(got.trailer.Get("idempotency-record")) != 1 {
		t.Errorf("no record in %v", got.trailer)
	}
	s.ran(1)
}

func TestACallWithoutAValidKeyIsRefused(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.refused(s.charge(""), codes.InvalidArgument, "KEY_MISSING", "")
	for _, key := range []string{"a b", `"a`, `a"b`, "a,b", `""`, `"a"b"`, `"a\b"`, strings.Repeat("a", 256)} {
		s.refused(s.charge(key), codes.InvalidArgument, "KEY_INVALID", "")
	}
	s.ran(0)
}

func TestAKeyThatTheServiceRefuses(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	got := s.charge("0fffffff-ffff-7fff-8fff-ffffffffffff") // made in the year 2557
	s.refused(got, codes.InvalidArgument, "KEY_INVALID", "")
	if message := status.Convert(got.err).Message(); strings.Contains(message, "rpc error") {
		t.Error(message)
	}
	s.ran(0)
}

func TestAPanicLeavesTheOutcomeUnknown(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		panic("bug")
	}
	if got := s.charge("order-1"); status.Code(got.err) != codes.DataLoss {
		t.Error(got.err)
	}
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "OUTCOME_UNKNOWN", "-1")
	s.ran(1)
}

// outer stands for the interceptor of an application that survives panics.
func (s *setup) outer(ctx context.Context, request any, _ *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (_ any, err error) {
	s.callers <- ctx
	defer func() {
		if cause := recover(); cause != nil {
			err = status.Error(codes.DataLoss, "panic")
		}
	}()
	return handler(ctx, request)
}

func TestAClientWhoseDeadlineEndsGetsTheReplyWithItsRetry(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) { config.MaxWait = 4 * time.Second })
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		<-(<-s.callers).Done()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, nil
	}
	first := s.call("order-1", order(500), 2*time.Second)
	if status.Code(first.err) != codes.DeadlineExceeded {
		t.Fatal(first.err)
	}
	retry := s.charge("order-1")
	if retry.err != nil || len(retry.trailer.Get("idempotency-replayed")) != 1 {
		t.Errorf("%+v", retry)
	}
	s.ran(1)
}

func TestAConcurrentDuplicateIsRefusedWithADelay(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	began, finish := make(chan struct{}), make(chan struct{})
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		close(began)
		<-finish
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, nil
	}
	answered := make(chan answer, 1)
	go func() { answered <- s.charge("order-1") }()
	received(t, began)
	s.refused(s.charge("order-1"), codes.Aborted, "IN_FLIGHT", "1000")
	close(finish)
	first := received(t, answered)
	s.replayed(s.charge("order-1"), first)
	s.ran(1)
}

func TestALeaseIsKept(t *testing.T) {
	t.Parallel()
	extended := make(chan struct{}, 100)
	s := start(t, func(config *idempotency.Config) { config.Lease = 6 * time.Second }, signal("Extend", extended))
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		for range 4 { // longer than the lease
			select {
			case <-extended:
			case <-ctx.Done():
			}
		}
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, context.Cause(ctx)
	}
	if got := s.charge("order-1"); got.err != nil {
		t.Error(got.err)
	}
}

func TestALostReservationEndsTheHandlersContext(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) { config.Lease = 3 * time.Second })
	began, taken, cause := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		close(began)
		<-ctx.Done()
		cause <- context.Cause(ctx)
		<-taken
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, nil // it had begun the effect before
	}
	answered := make(chan answer, 1)
	go func() { answered <- s.charge("order-1") }()
	received(t, began)
	s.advance(time.Minute)
	// Another attempt is granted.
	request := &pb.ReserveRequest{RecordKey: recordKey("order-1"), Recover: true,
		Fingerprints: []*pb.Fingerprint{s.record("order-1").GetFingerprint()}}
	verdict, err := s.service.Reserve(t.Context(), request)
	close(taken)
	if err != nil || !verdict.GetReserved().GetRecovering() {
		t.Fatal(verdict, err)
	}
	if err := received(t, cause); !strings.Contains(err.Error(), idempotency.ErrReservationLost.Error()) {
		t.Error(err)
	}
	s.refused(received(t, answered), codes.Aborted, "RESERVATION_LOST", "100")
	s.ran(1)
}

func TestAnEffectAfterTheLeaseIsRecordedUnlessAnotherAttemptWasGranted(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) { config.Lease = 3 * time.Second })
	began := make(chan struct{})
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		close(began)
		<-ctx.Done()
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, nil
	}
	answered := make(chan answer, 1)
	go func() { answered <- s.charge("order-1") }()
	received(t, began)
	s.advance(time.Minute)
	first := received(t, answered)
	if first.err != nil {
		t.Fatal(first.err)
	}
	s.replayed(s.charge("order-1"), first)
	s.ran(1)
}

func TestAnUnknownOutcomeIsNotRunAgain(t *testing.T) {
	t.Parallel()
	behindItsOwn, err := status.New(codes.FailedPrecondition, "the bank failed").WithDetails(
		&errdetails.ErrorInfo{Reason: "BANK_FAILED", Domain: "shop.example"},
		&errdetails.ErrorInfo{Reason: "OUTCOME_UNKNOWN", Domain: "grpc-idempotency.dev"})
	if err != nil {
		t.Fatal(err)
	}
	for name, failure := range map[string]error{
		"a code that is no outcome": status.Error(codes.Internal, "the bank did not answer"),
		"no status":                 context.DeadlineExceeded,
		"another guard's refusal":   ofTheService(codes.Aborted, "IN_FLIGHT"),
		"one behind its own reason": behindItsOwn.Err(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, func(config *idempotency.Config) {
				config.Released = map[string][]codes.Code{chargeMethod: {codes.Aborted}}
			})
			s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) { return nil, failure }
			got := s.charge("order-1")
			want := status.Convert(failure)
			if errors.Is(failure, context.DeadlineExceeded) {
				want = status.FromContextError(failure)
			}
			if !proto.Equal(status.Convert(got.err).Proto(), want.Proto()) || len(got.trailer.Get("idempotency-record")) != 1 ||
				got.trailer.Get("idempotency-expires") != nil {
				t.Errorf("%v %v, want %v", got.err, got.trailer, want)
			}
			s.refused(s.charge("order-1"), codes.FailedPrecondition, "OUTCOME_UNKNOWN", "-1")
			s.ran(1)
		})
	}
}

// ofTheService is an error as the service or a guard makes it.
func ofTheService(code codes.Code, reason string) error {
	failure, err := status.New(code, "refused").WithDetails(
		&errdetails.ErrorInfo{Reason: reason, Domain: "grpc-idempotency.dev"})
	if err != nil {
		panic(err)
	}
	return failure.Err()
}

func TestAReleasedCodeRunsAgain(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) {
		config.Released = map[string][]codes.Code{chargeMethod: {codes.Aborted}}
	})
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		return nil, status.Error(codes.Aborted, "the bank is closed")
	}
	for range 2 {
		if got := s.charge("order-1"); status.Code(got.err) != codes.Aborted || got.reason() != "" {
			t.Error(got.err)
		}
	}
	s.ran(2)
}

func TestAReleasedCodeThatGRPCMadeIsAnUnknownOutcome(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) {
		config.Released = map[string][]codes.Code{chargeMethod: {codes.ResourceExhausted}}
	})
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		bank := status.Error(codes.ResourceExhausted, "grpc: received message larger than max (5000000 vs. 4194304)")
		return nil, fmt.Errorf("bank: %w", bank)
	}
	s.refused(s.charge("order-1"), codes.ResourceExhausted, "", "")
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "OUTCOME_UNKNOWN", "-1")
	s.ran(1)
}

// reserveElsewhere is the attempt of another guard.
func (s *setup) reserveElsewhere(key string, expiry pb.LeaseExpiry) *pb.Reserved {
	s.t.Helper()
	verdict, err := s.service.Reserve(s.t.Context(), &pb.ReserveRequest{RecordKey: recordKey(key),
		Fingerprints: []*pb.Fingerprint{fingerprint(s.t, order(500))}, OnLeaseExpiry: expiry})
	if err != nil || verdict.GetReserved() == nil {
		s.t.Fatal(verdict, err)
	}
	return verdict.GetReserved()
}

// releaseElsewhere reports that nothing happened, as a guard with TAKE_OVER does after any failure.
func (s *setup) releaseElsewhere(key string, expiry pb.LeaseExpiry) {
	s.t.Helper()
	if _, err := s.service.Release(s.t.Context(), &pb.ReleaseRequest{RecordKey: recordKey(key),
		ReservationToken: s.reserveElsewhere(key, expiry).GetReservationToken()}); err != nil {
		s.t.Fatal(err)
	}
}

func TestARecordThatPermitsASecondExecutionIsNotRunAgain(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.reserveElsewhere("order-1", pb.LeaseExpiry_LEASE_EXPIRY_TAKE_OVER)
	s.advance(time.Minute) // its process was lost
	s.releaseElsewhere("order-2", pb.LeaseExpiry_LEASE_EXPIRY_TAKE_OVER)
	for _, key := range []string{"order-1", "order-2"} {
		for range 2 {
			s.refused(s.charge(key), codes.FailedPrecondition, "OUTCOME_UNKNOWN", "-1")
		}
	}
	s.ran(0)
}

func TestAReleasedRecordOfAnotherGuardThatRequiresRecoveryRuns(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.releaseElsewhere("order-1", pb.LeaseExpiry_LEASE_EXPIRY_REQUIRE_RECOVERY)
	if got := s.charge("order-1"); got.err != nil {
		t.Error(got.err)
	}
	s.ran(1)
}

func TestARecordWhosePolicyCannotBeReadIsNotRunAgain(t *testing.T) {
	t.Parallel()
	s := start(t, nil, func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if strings.HasSuffix(method, "/Get") {
			return status.Error(codes.PermissionDenied, "no READ")
		}
		return invoke(ctx, method, request, reply, channel, options...)
	})
	s.reserveElsewhere("order-1", pb.LeaseExpiry_LEASE_EXPIRY_TAKE_OVER)
	s.advance(time.Minute)
	s.releaseElsewhere("order-2", pb.LeaseExpiry_LEASE_EXPIRY_REQUIRE_RECOVERY)
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "OUTCOME_UNKNOWN", "-1") // whatever its policy
	s.refused(s.charge("order-2"), codes.Unavailable, "STORE_UNAVAILABLE", "1000")
	if state := s.record("order-2").GetState(); state != pb.RecordState_RECORD_STATE_RELEASED {
		t.Error(state)
	}
	s.ran(0)
}

func TestAHandlerDoesNotBeginAfterItsLease(t *testing.T) {
	t.Parallel()
	var stopped atomic.Bool
	stopped.Store(true)
	s := start(t, func(config *idempotency.Config) { config.Lease = 3 * time.Second },
		func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
			invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			err := invoke(ctx, method, request, reply, channel, options...)
			if strings.HasSuffix(method, "/Reserve") && stopped.Swap(false) {
				time.Sleep(3100 * time.Millisecond) // as if the process was stopped
			}
			return err
		})
	s.refused(s.charge("order-1"), codes.Aborted, "RESERVATION_LOST", "100")
	s.ran(0)
	if got := s.charge("order-1"); got.err != nil {
		t.Error(got.err)
	}
	s.ran(1)
}

func TestAHandlerThatHangsDoesNotHoldItsKey(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) {
		config.MaxWork = 100 * time.Millisecond
		config.Lease = 3 * time.Second
	})
	began, finish := make(chan struct{}), make(chan struct{})
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		close(began)
		<-finish // not the end of its context
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, nil
	}
	answered := make(chan answer, 1)
	go func() { answered <- s.charge("order-1") }()
	received(t, began)
	retry := s.charge("order-1")
	for end := time.Now().Add(within); retry.reason() == "IN_FLIGHT" && time.Now().Before(end); retry = s.charge("order-1") {
		time.Sleep(250 * time.Millisecond)
	}
	close(finish)
	s.refused(retry, codes.FailedPrecondition, "OUTCOME_UNKNOWN", "-1")
	first := received(t, answered) // recorded, since no other attempt was granted
	if first.err != nil {
		t.Error(first.err)
	}
	s.replayed(s.charge("order-1"), first)
	s.ran(1)
}

func TestTheAnswerOfCompleteMayBeLost(t *testing.T) {
	t.Parallel()
	var completes atomic.Int32
	s := start(t, nil, loseFirst("Complete", 2, codes.Unavailable, &completes))
	first := s.charge("order-1")
	if first.err != nil {
		t.Fatal(first.err)
	}
	s.replayed(s.charge("order-1"), first)
	s.ran(1)
	if completes.Load() != 3 {
		t.Errorf("%d tries", completes.Load())
	}
}

func TestTheAnswerOfReserveMayBeLost(t *testing.T) {
	t.Parallel()
	for _, code := range []codes.Code{codes.Unavailable, codes.Internal, codes.Unknown} {
		var reserves atomic.Int32
		s := start(t, nil, loseFirst("Reserve", 1, code, &reserves))
		if got := s.charge("order-1"); got.err != nil {
			t.Error(code, got.err)
		}
		s.ran(1)
		if attempt := s.record("order-1").GetAttempt(); attempt != 1 {
			t.Errorf("attempt %d", attempt)
		}
	}
}

func TestAReservationOfACallerThatGaveUpIsGivenBack(t *testing.T) {
	t.Parallel()
	var reserves atomic.Int32
	s := start(t, func(config *idempotency.Config) { config.ReserveFor = 50 * time.Millisecond },
		loseFirst("Reserve", 1, codes.Internal, &reserves))
	s.refused(s.charge("order-1"), codes.Unavailable, "STORE_UNAVAILABLE", "1000")
	s.wait()
	if state := s.record("order-1").GetState(); state != pb.RecordState_RECORD_STATE_RELEASED {
		t.Error(state)
	}
	s.ran(0)
}

func TestAnUndecidedReservationIsGivenBackAsUnknown(t *testing.T) {
	t.Parallel()
	var reserves atomic.Int32
	s := start(t, func(config *idempotency.Config) { config.ReserveFor = 50 * time.Millisecond },
		loseFirst("Reserve", 1, codes.Internal, &reserves))
	s.reserveElsewhere("order-1", pb.LeaseExpiry_LEASE_EXPIRY_TAKE_OVER)
	s.advance(time.Minute)
	s.refused(s.charge("order-1"), codes.Unavailable, "STORE_UNAVAILABLE", "1000")
	s.wait()
	if state := s.record("order-1").GetState(); state != pb.RecordState_RECORD_STATE_UNKNOWN {
		t.Error(state)
	}
	s.ran(0)
}

func TestNothingRunsWithoutTheDaemon(t *testing.T) {
	t.Parallel()
	s := start(t, func(config *idempotency.Config) {
		config.ReserveFor = 300 * time.Millisecond
		config.Lease = time.Second
		config.Service = pb.NewIdempotencyServiceClient(dial(t, "127.0.0.1:1", idempotency.DialOptions()...))
	})
	s.refused(s.charge("order-1"), codes.Unavailable, "STORE_UNAVAILABLE", "1000")
	s.ran(0)
}

func TestADaemonThatIsAwayDuringTheWork(t *testing.T) {
	t.Parallel()
	var away atomic.Bool
	s := start(t, func(config *idempotency.Config) {
		config.Lease = 3 * time.Second
		config.SettleFor = 300 * time.Millisecond
	}, func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if away.Load() {
			return status.Error(codes.Unavailable, "away")
		}
		return invoke(ctx, method, request, reply, channel, options...)
	})
	s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		away.Store(true)
		<-ctx.Done() // the lease is over
		return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, nil
	}
	s.refused(s.charge("order-1"), codes.Unavailable, "OUTCOME_NOT_RECORDED", "")
	away.Store(false)
	s.advance(time.Minute) // by the daemon's clock the lease may end later
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "OUTCOME_UNKNOWN", "-1")
	s.ran(1)
}

func TestAReplyWhoseRecordIsGone(t *testing.T) {
	t.Parallel()
	for _, failure := range []error{nil, status.Error(codes.FailedPrecondition, "declined")} {
		s := start(t, nil)
		s.work = func(ctx context.Context, _ *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
			if _, err := s.testing.Reset(ctx, &testingv1.ResetRequest{}); err != nil {
				return nil, err
			}
			return &paymentsv1.ChargeReply{ChargeId: "charge 1"}, failure
		}
		got := s.charge("order-1")
		pushback := "-1"
		if failure == nil {
			pushback = ""
		}
		s.refused(got, status.Code(failure), "", pushback)
		if len(got.trailer.Get("idempotency-record")) != 1 || got.trailer.Get("idempotency-expires") != nil {
			t.Error(got.trailer)
		}
	}
}

func TestThePushbackIsAtMostASecond(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	released, err := s.service.Reserve(t.Context(), &pb.ReserveRequest{RecordKey: recordKey("order-1"),
		Fingerprints: []*pb.Fingerprint{fingerprint(t, order(500))}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.service.Release(t.Context(), &pb.ReleaseRequest{RecordKey: recordKey("order-1"),
		ReservationToken: released.GetReserved().GetReservationToken(), Pause: durationpb.New(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	got := s.charge("order-1")
	s.refused(got, codes.Aborted, "IN_FLIGHT", "1000")
	for _, detail := range status.Convert(got.err).Details() {
		if retry, ok := detail.(*errdetails.RetryInfo); ok && retry.GetRetryDelay().AsDuration() > 30*time.Second {
			return
		}
	}
	t.Error("RetryInfo has not the whole delay")
}

func fingerprint(t *testing.T, request proto.Message) *pb.Fingerprint {
	t.Helper()
	made, err := idempotency.Fingerprint(chargeMethod, request)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func TestACallerThatSendsItsKeyTwice(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	key := uuid.NewString()
	for _, other := range []string{strings.ToUpper(key), `"` + key + `"`} {
		ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", key, "idempotency-key", other)
		if err := s.client.Invoke(ctx, chargeMethod, order(500), new(emptypb.Empty)); err != nil {
			t.Error(err)
		}
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "idempotency-key", key, "idempotency-key", "order-1")
	err := s.client.Invoke(ctx, chargeMethod, order(500), new(emptypb.Empty))
	s.refused(answer{err: err}, codes.InvalidArgument, "KEY_INVALID", "")
	s.ran(1)
}

func TestAReplyThatIsTooLargeIsNotKept(t *testing.T) {
	t.Parallel()
	s := start(t, nil)
	s.client = dial(t, s.client.Target(), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(32<<20)))
	s.work = func(context.Context, *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
		return &paymentsv1.ChargeReply{ChargeId: strings.Repeat("a", 17<<20)}, nil
	}
	if got := s.charge("order-1"); got.err != nil || len(got.body) < 17<<20 {
		t.Error(got.err, len(got.body))
	}
	s.refused(s.charge("order-1"), codes.FailedPrecondition, "REPLY_NOT_KEPT", "")
	s.ran(1)
}

func TestAConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	if _, err := idempotency.New(idempotency.Config{}); err == nil {
		t.Error("an empty configuration is accepted")
	}
	complete := func() idempotency.Config {
		return idempotency.Config{
			Service:   pb.NewIdempotencyServiceClient(nil),
			Namespace: "payments",
			Services:  []*grpc.ServiceDesc{&paymentsv1.Payments_ServiceDesc},
			Scope:     func(context.Context) (string, error) { return "tenant-1", nil },
		}
	}
	for _, lease := range []time.Duration{0, 300 * time.Millisecond, 5 * time.Second, time.Hour} {
		config := complete()
		config.Lease = lease
		if _, err := idempotency.New(config); err != nil {
			t.Errorf("lease %v: %v", lease, err)
		}
	}
	for name, spoil := range map[string]func(*idempotency.Config){
		"a negative duration":           func(config *idempotency.Config) { config.MaxWork = -time.Second },
		"Reserve for most of the lease": func(config *idempotency.Config) { config.ReserveFor = 16 * time.Second },
		"a wait that no Reserve is for": func(config *idempotency.Config) {
			config.ReserveFor = 2 * time.Second
			config.MaxWait = 2 * time.Second
		},
		"a wait that no try is long for": func(config *idempotency.Config) { config.MaxWait = 5 * time.Second },
	} {
		config := complete()
		spoil(&config)
		if _, err := idempotency.New(config); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, code := range []codes.Code{codes.OK, codes.Internal, codes.Canceled, codes.DeadlineExceeded,
		codes.Unknown, codes.Unavailable, codes.Unimplemented} {
		config := complete()
		config.Released = map[string][]codes.Code{chargeMethod: {codes.Aborted, code}}
		if _, err := idempotency.New(config); err == nil {
			t.Errorf("%v is released", code)
		}
	}
}

// signal reports the calls of a method that succeeded.
func signal(name string, calls chan<- struct{}) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		err := invoke(ctx, method, request, reply, channel, options...)
		if err == nil && strings.HasSuffix(method, "/"+name) {
			calls <- struct{}{}
		}
		return err
	}
}

// loseFirst loses the answers of the first calls of a method, which the service has done.
func loseFirst(name string, losses int32, code codes.Code, calls *atomic.Int32) grpc.UnaryClientInterceptor {
	var mutex sync.Mutex
	return func(ctx context.Context, method string, request, reply any, channel *grpc.ClientConn,
		invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if !strings.HasSuffix(method, "/"+name) {
			return invoke(ctx, method, request, reply, channel, options...)
		}
		// Whatever the time that a loaded machine needs, it is done.
		if err := invoke(context.WithoutCancel(ctx), method, request, reply, channel, options...); err != nil {
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		if calls.Add(1) <= losses {
			return status.Error(code, "the answer was lost")
		}
		return nil
	}
}
