// Package idempotency guards the unary methods of a gRPC server with the plain calls of
// idempotencyd: an operation runs once for each key, and its retries get the recorded reply.
//
// It is an example of docs/other_languages.md, whose rules its comments name. An outcome that is
// not known is never run again: each record has LEASE_EXPIRY_REQUIRE_RECOVERY, and a record of
// another guard that has not is not run after its first attempt.
package idempotency

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	noVerdictDelay = time.Second
	lostDelay      = 100 * time.Millisecond

	nothingHappened = pb.ReleaseOutcome_RELEASE_OUTCOME_NOTHING_HAPPENED
	unknownOutcome  = pb.ReleaseOutcome_RELEASE_OUTCOME_OUTCOME_UNKNOWN
)

// ErrReservationLost is the cause (context.Cause) of the end of a handler's context when its
// reservation is lost or its lease is over. Begin no further effect then. Return OK for an effect
// that took place: it is recorded unless another attempt was granted.
var ErrReservationLost = errors.New("the reservation is lost")

var (
	errNotYet  = errors.New("it goes on in the background")
	errTooMany = errors.New("too many reservations are settled in the background")
)

// Config is the configuration of a Guard.
type Config struct {
	// Service is on a channel with DialOptions. Required.
	Service pb.IdempotencyServiceClient
	// Namespace of the records. Required.
	Namespace string
	// Scope returns the authenticated identity of the caller, whose keys no other caller meets. Its
	// error is the status of the call. Required.
	Scope func(context.Context) (string, error)
	// Services are the guarded ones of the server. New refuses a method whose policy
	// (idempotency.v1.policy) sets what this guard cannot do. Calls of other services are refused, but
	// for health checks and channelz. Required.
	Services []*grpc.ServiceDesc
	// Unguarded are the full methods, also of other services, that run without a key: those without an
	// effect. A policy with KEY_NONE and an idempotency_level are the same.
	Unguarded []string
	// Retention is how long a record is kept, after which its key runs again; ReplyRetention, how long
	// its reply; Tombstone, how long its key is refused afterwards. A policy that sets one decides for
	// its method. Default 24 h, as long as the record, and not at all.
	Retention, ReplyRetention, Tombstone time.Duration
	// Released are, beside those of the policy, by full method, the codes that the handler returns only if nothing happened: not
	// after an effect, and not by passing on the status of a call. Such a call may run again. An entry
	// of the recorded codes, such as PERMISSION_DENIED, is released instead. A code that gRPC or Go
	// makes, such as UNAVAILABLE, cannot be one.
	Released map[string][]codes.Code
	// Lease of a reservation; it is extended while the handler runs. Default 30 s.
	Lease time.Duration
	// MaxWait for another attempt before a duplicate is refused, under 5 s and under ReserveFor.
	// Default 2 s, or half of ReserveFor if that is shorter.
	MaxWait time.Duration
	// MaxWork ends the context of the handler, which has no deadline of its caller. A handler that
	// ignores that loses its reservation two leases later at most. Default 5 minutes.
	MaxWork time.Duration
	// ReserveFor is how long Reserve is repeated: half of Lease at most. Default 10 s, or half of
	// Lease if that is shorter.
	ReserveFor time.Duration
	// AnswerWithin is how long a caller waits for Complete and Release. Default 5 s.
	AnswerWithin time.Duration
	// SettleFor is how long Complete and Release are repeated, also in the background. Default 1 hour.
	SettleFor time.Duration
	// Background are the grants that are given back at the same time, and the outcomes that are
	// repeated after their callers were answered, each with its reply in memory. Others are given up
	// (Unsettled). Default 1,024.
	Background int
	// Logger has the errors whose text no caller may see. Default slog.Default().
	Logger *slog.Logger
}

// Guard is a unary server interceptor; make it with New.
type Guard struct {
	config      Config
	methods     map[string]*method
	giveBacks   chan struct{} // has an element for each one that runs
	settlements chan struct{} // the same, without those whose caller waits
	running     sync.WaitGroup
	unsettled   atomic.Int64
	open        context.Context // ends the work in the background
	close       context.CancelFunc
}

// New checks the configuration and sets its defaults.
func New(config Config) (*Guard, error) {
	if config.Service == nil || config.Namespace == "" || config.Scope == nil {
		return nil, errors.New("idempotency: Service, Namespace and Scope are required")
	}
	if err := config.setDurations(); err != nil {
		return nil, err
	}
	methods, err := methodsOf(&config)
	if err != nil {
		return nil, fmt.Errorf("idempotency: %w", err)
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	guard := &Guard{config: config, methods: methods, giveBacks: make(chan struct{}, config.Background),
		settlements: make(chan struct{}, config.Background)}
	guard.open, guard.close = context.WithCancel(context.Background())
	return guard, nil
}

// setDurations sets the defaults and checks the values.
func (c *Config) setDurations() error {
	defaultTo := func(value *time.Duration, standard time.Duration) {
		if *value == 0 {
			*value = standard
		}
	}
	defaultTo(&c.Lease, 30*time.Second)
	defaultTo(&c.MaxWork, 5*time.Minute)
	defaultTo(&c.AnswerWithin, 5*time.Second)
	defaultTo(&c.SettleFor, time.Hour)
	defaultTo(&c.ReserveFor, min(10*time.Second, c.Lease/2))
	defaultTo(&c.MaxWait, min(2*time.Second, c.ReserveFor/2))
	if c.Background == 0 {
		c.Background = 1024
	}
	if min(c.Lease, c.MaxWork, c.AnswerWithin, c.SettleFor, c.ReserveFor, c.MaxWait, c.Retention, c.ReplyRetention,
		c.Tombstone, time.Duration(c.Background)) < 0 {
		return errors.New("idempotency: a duration, or Background, is negative")
	}
	if most := c.Lease / 2; c.ReserveFor > most { // a handler would begin late in its lease
		return fmt.Errorf("idempotency: ReserveFor is %v, and may be %v, half of Lease", c.ReserveFor, most)
	}
	if most := min(tryTimeout, c.ReserveFor); c.MaxWait >= most {
		return fmt.Errorf("idempotency: MaxWait is %v, and has to be under %v", c.MaxWait, most)
	}
	return nil
}

// Intercept is a grpc.UnaryServerInterceptor. Install it last in the chain: the response that it
// returns has the recorded bytes and no Go type of the method.
func (g *Guard) Intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	method := g.methods[info.FullMethod]
	if g.isUnguarded(ctx, info.FullMethod, method) {
		return handler(ctx, request)
	}
	if method == nil {
		return nil, status.Errorf(codes.Internal, "%s is of no service of the guard's configuration", info.FullMethod)
	}
	reserve, err := g.reservation(ctx, info.FullMethod, request)
	if err != nil {
		return nil, err
	}
	verdict, sent, err := g.reserve(ctx, reserve)
	if err != nil {
		return nil, g.noVerdict(ctx, err)
	}
	record := verdict.GetRecordId()
	switch verdict := verdict.GetVerdict().(type) {
	case *pb.ReserveResponse_Reserved:
		held := &held{
			method:   method,
			key:      reserve.GetRecordKey(),
			token:    verdict.Reserved.GetReservationToken(),
			record:   record,
			leaseEnd: sent.Add(verdict.Reserved.GetLeaseRemaining().AsDuration()),
		}
		if err := g.mayRun(ctx, held, verdict.Reserved); err != nil {
			return nil, err
		}
		return g.run(ctx, held, request, handler)
	case *pb.ReserveResponse_Replay:
		return replay(ctx, method, record, verdict.Replay)
	case *pb.ReserveResponse_InFlight:
		return nil, refusal{code: codes.Aborted, reason: "IN_FLIGHT", message: "another attempt runs",
			delay: max(verdict.InFlight.GetRetryAfter().AsDuration(), time.Millisecond)}.send(ctx, record)
	case *pb.ReserveResponse_Mismatch:
		return nil, refusal{code: codes.FailedPrecondition, reason: "KEY_REUSED",
			message: "the key belongs to another request"}.send(ctx, record)
	case *pb.ReserveResponse_OutcomeUnknown:
		return nil, outcomeUnknown(verdict.OutcomeUnknown).send(ctx, record)
	case *pb.ReserveResponse_Expired:
		return nil, refusal{code: codes.FailedPrecondition, reason: "KEY_EXPIRED",
			message: "the key is too old"}.send(ctx, record)
	default:
		return nil, refusal{code: codes.Unavailable, reason: "STORE_UNAVAILABLE",
			message: "a verdict of a newer service", delay: noVerdictDelay}.send(ctx, record)
	}
}

// reservation makes the request of Reserve for a call, or the status that refuses the call.
func (g *Guard) reservation(ctx context.Context, method string, request any) (*pb.ReserveRequest, error) {
	key, err := keyOf(ctx)
	if err != nil {
		return nil, err
	}
	scope, err := g.config.Scope(ctx)
	if err != nil {
		return nil, err
	}
	message, ok := request.(proto.Message)
	if !ok {
		return nil, status.Errorf(codes.Internal, "the request of %s is no message of protobuf", method)
	}
	fingerprint, err := Fingerprint(method, message)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error())
	}
	token, err := uuid.NewRandom() // for this call alone: never derived from the key
	if err != nil {
		return nil, status.Errorf(codes.Internal, "request token: %v", err)
	}
	terms := g.methods[method]
	return &pb.ReserveRequest{
		RecordKey:     &pb.RecordKey{Namespace: g.config.Namespace, Scope: scope, Operation: method, Key: key},
		Fingerprints:  []*pb.Fingerprint{fingerprint},
		RequestToken:  token.String(),
		Lease:         durationpb.New(g.config.Lease),
		MaxWait:       durationpb.New(g.config.MaxWait),
		OnLeaseExpiry: pb.LeaseExpiry_LEASE_EXPIRY_REQUIRE_RECOVERY,

		Retention:      terms.retention,
		ReplyRetention: terms.replyRetention,
		Tombstone:      terms.tombstone,
	}, nil
}

// reserve returns the verdict (rule 1), and when the try that it answers was sent. It ends with the
// caller's call. What an unanswered try may have been granted is given back.
func (g *Guard) reserve(ctx context.Context, request *pb.ReserveRequest) (*pb.ReserveResponse, time.Time, error) {
	bounded, cancel := context.WithTimeout(ctx, g.config.ReserveFor)
	defer cancel()
	var sent time.Time
	verdict, err := repeat(bounded, func(ctx context.Context, request *pb.ReserveRequest,
		options ...grpc.CallOption) (*pb.ReserveResponse, error) {
		sent = time.Now()
		return g.config.Service.Reserve(ctx, request, options...)
	}, request, whileOpen)
	var failed *callError
	if errors.As(err, &failed) && failed.open {
		g.giveBack(ctx, request)
	}
	return verdict, sent, err
}

// mayRun returns nil if the handler may run under a grant. Otherwise it has settled the grant, and
// returns the status of the call.
func (g *Guard) mayRun(ctx context.Context, held *held, grant *pb.Reserved) error {
	if isUndecided(grant) {
		return g.undecided(ctx, held, grant, "an earlier attempt of another guard may have had an effect")
	}
	if grant.GetAttempt() > 1 {
		expiry, err := g.leaseExpiry(ctx, held)
		if err != nil {
			g.config.Logger.Error("no policy of a record", "record", held.record, "error", err)
			if err := g.release(ctx, held, nil, nothingHappened, "its policy is not known"); err != nil {
				return g.notSettled(ctx, held, err)
			}
			return refusal{code: codes.Unavailable, reason: "STORE_UNAVAILABLE",
				message: "no verdict of the idempotency service", delay: noVerdictDelay}.send(ctx, held.record)
		}
		if expiry != pb.LeaseExpiry_LEASE_EXPIRY_REQUIRE_RECOVERY {
			// The guard that made it releases attempts that may have had an effect.
			return g.undecided(ctx, held, grant, "another guard permits a second execution of this record")
		}
	}
	if ctx.Err() != nil {
		if err := g.release(ctx, held, nil, nothingHappened, "its caller gave up"); err != nil {
			return g.notSettled(ctx, held, err)
		}
		return status.FromContextError(ctx.Err()).Err()
	}
	if time.Now().Before(held.leaseEnd) {
		return nil
	}
	// The process was stopped, or the answer was late: another attempt may run.
	if err := g.release(ctx, held, nil, nothingHappened, "its lease ended before the handler began"); err != nil {
		g.config.Logger.Warn("a reservation was not given back", "record", held.record, "error", err)
	}
	return refusal{code: codes.Aborted, reason: "RESERVATION_LOST",
		message: "the lease ended before the handler began", delay: lostDelay}.send(ctx, held.record)
}

// isUndecided reports whether an earlier attempt may have had an effect. Without `recover` only a
// record of another guard, with another policy, is granted then.
func isUndecided(grant *pb.Reserved) bool {
	previous := grant.GetPreviousAttempt()
	return grant.GetRecovering() || previous == pb.PreviousAttempt_PREVIOUS_ATTEMPT_LEASE_EXPIRED ||
		previous == pb.PreviousAttempt_PREVIOUS_ATTEMPT_OUTCOME_UNKNOWN
}

// leaseExpiry returns the policy that counts: that of the guard that made the record.
func (g *Guard) leaseExpiry(ctx context.Context, held *held) (pb.LeaseExpiry, error) {
	bounded, cancel := context.WithDeadline(ctx, held.leaseEnd)
	defer cancel()
	got, err := repeat(bounded, g.config.Service.Get, &pb.GetRequest{RecordKey: held.key}, whileOpen)
	return got.GetRecord().GetOnLeaseExpiry(), err
}

// undecided leaves the outcome of an operation unknown, without running it.
func (g *Guard) undecided(ctx context.Context, held *held, grant *pb.Reserved, reason string) error {
	if err := g.release(ctx, held, nil, unknownOutcome, reason); err != nil {
		return g.notSettled(ctx, held, err)
	}
	g.config.Logger.Error("an operation was not run: "+reason, "record", held.record)
	return outcomeUnknown(&pb.OutcomeUnknown{Attempt: grant.GetAttempt(), Reason: reason,
		Cause: pb.OutcomeUnknown_CAUSE_RELEASED, Since: timestamppb.Now()}).send(ctx, held.record)
}

// run executes the handler and settles the reservation.
func (g *Guard) run(ctx context.Context, held *held, request any, handler grpc.UnaryHandler) (any, error) {
	// A context of its own: the end of the caller's call, by its deadline or because it hangs up, is
	// the usual reason of a retry, and may neither end the work nor the recording of its reply.
	keeper := g.keepLease(context.WithoutCancel(ctx), held)
	returned := false
	defer func() {
		if !returned { // a panic goes on; the outcome is unknown
			_ = g.release(ctx, held, keeper, unknownOutcome, "the handler panicked") // it is in the log
		}
	}()

	work, cancel := context.WithTimeout(keeper.work, g.config.MaxWork)
	defer cancel()
	sent := &sentMetadata{method: held.key.GetOperation(), header: metadata.MD{}, trailer: metadata.MD{}}
	response, err := handler(grpc.NewContextWithServerTransportStream(work, sent), request)
	returned = true
	keeper.worked.Store(true)

	reply, replyErr := sent.reply(response, err)
	code := codes.Code(reply.GetCode())
	marks := []string{"idempotency-record", held.record}
	switch {
	case replyErr != nil:
		g.logUnknown(held, errors.Join(err, replyErr))
		if err := g.release(ctx, held, keeper, unknownOutcome, "the reply cannot be recorded"); err != nil {
			return nil, g.notSettled(ctx, held, err)
		}
		return nil, refusal{code: codes.Unavailable, reason: "OUTCOME_NOT_RECORDED",
			message: "the outcome is not known"}.send(ctx, held.record)
	case errorInfo(status.Convert(err)) != nil, !isOutcome(code) && !held.method.releases(reply):
		// Also the refusal of another guard, by a method that the handler called.
		g.logUnknown(held, err)
		if err := g.release(ctx, held, keeper, unknownOutcome, code.String()); err != nil {
			return nil, g.notSettled(ctx, held, err)
		}
		return answer(ctx, held.method, reply, append(marks, sent.pushback()...)...)
	case held.method.releases(reply):
		if err := g.release(ctx, held, keeper, nothingHappened, code.String()); err != nil {
			return nil, g.notSettled(ctx, held, err)
		}
		return answer(ctx, held.method, reply, append(marks, sent.pushback()...)...)
	}

	completed, err := g.complete(ctx, held, keeper, reply)
	if err == nil {
		return answer(ctx, held.method, reply, entries(held.record, completed.GetExpiresAt())...)
	}
	if causeOf(err) != "RECORD_EXPIRED" || keeper.stop() {
		return nil, g.notSettled(ctx, held, err)
	}
	// No record can contradict the reply, and a retry of an error would run again.
	if reply.GetCode() != 0 {
		marks = append(marks, pushback, strconv.Itoa(noRetries))
	}
	return answer(ctx, held.method, reply, marks...)
}

func (g *Guard) logUnknown(held *held, cause error) {
	g.config.Logger.Error("the outcome of a call is unknown", "record", held.record, "error", cause)
}

// notSettled refuses a call whose Complete or Release was refused (rule 5). The code of that error
// is not the caller's: the operation may have run.
func (g *Guard) notSettled(ctx context.Context, held *held, err error) error {
	if !isLost(err) {
		return refusal{code: codes.Unavailable, reason: "OUTCOME_NOT_RECORDED",
			message: "the outcome is not recorded"}.send(ctx, held.record)
	}
	refused := refusal{code: codes.Aborted, reason: "RESERVATION_LOST",
		message: "the attempt does not hold the record any more", delay: lostDelay}
	if causeOf(err) == "RECORD_EXPIRED" {
		refused.message = "the record is gone: do not retry, find out"
		refused.metadata = map[string]string{"cause": "RECORD_EXPIRED"}
		refused.delay = noRetries
	}
	return refused.send(ctx, held.record)
}

// noVerdict refuses a call for which Reserve failed.
func (g *Guard) noVerdict(ctx context.Context, err error) error {
	switch failure := status.Convert(err); failure.Code() {
	case codes.InvalidArgument, codes.FailedPrecondition, codes.DataLoss:
		return failure.Err()
	}
	if isFinal(err) {
		return status.Convert(err).Err()
	}
	// Its text may have addresses and names of identities.
	g.config.Logger.Error("no verdict", "error", err)
	delay := noVerdictDelay
	var failed *callError
	if errors.As(err, &failed) && failed.pushed > 0 {
		delay = failed.pushed
	}
	return refusal{code: codes.Unavailable, reason: "STORE_UNAVAILABLE",
		message: "no verdict of the idempotency service", delay: delay}.send(ctx, "")
}

// isOutcome reports whether a code is recorded: after another one the effect may have happened.
func isOutcome(code codes.Code) bool {
	switch code {
	case codes.OK, codes.InvalidArgument, codes.NotFound, codes.AlreadyExists, codes.PermissionDenied,
		codes.FailedPrecondition, codes.OutOfRange:
		return true
	}
	return false
}

// canBeReleased reports whether a code can state that nothing happened: not one that gRPC or Go
// makes, as for a connection that is lost after the effect.
func canBeReleased(code codes.Code) bool {
	switch code {
	case codes.OK, codes.Canceled, codes.DeadlineExceeded, codes.Internal, codes.Unavailable,
		codes.Unimplemented, codes.Unknown:
		return false
	}
	return true
}

// isOverSizeLimit reports whether gRPC made the status, for a call of the handler whose reply was too
// large: that call may have had its effect.
func isOverSizeLimit(code codes.Code, message string) bool {
	return code == codes.ResourceExhausted && (strings.Contains(message, "larger than max") ||
		strings.Contains(message, "message too large") || strings.Contains(message, "metadata size exceeds"))
}
