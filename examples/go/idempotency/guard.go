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
	"slices"
	"strconv"
	"strings"
	"sync"
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
	maxGiveBacks   = 64

	nothingHappened = pb.ReleaseOutcome_RELEASE_OUTCOME_NOTHING_HAPPENED
	unknownOutcome  = pb.ReleaseOutcome_RELEASE_OUTCOME_OUTCOME_UNKNOWN
)

// ErrReservationLost is the cause (context.Cause) of the end of a handler's context when its
// reservation is lost or its lease is over. Begin no further effect then. Return OK for an effect
// that took place: it is recorded unless another attempt was granted.
var ErrReservationLost = errors.New("the reservation is lost")

// Config is the configuration of a Guard.
type Config struct {
	// Service is on a channel with DialOptions. Required.
	Service pb.IdempotencyServiceClient
	// Namespace of the records. Required.
	Namespace string
	// Scope returns the authenticated identity of the caller, whose keys no other caller meets. Its
	// error is the status of the call. Required.
	Scope func(context.Context) (string, error)
	// Unguarded are the full methods that run without a key: those without an effect.
	Unguarded []string
	// Released are, by full method, the codes that the handler returns only if nothing happened: not
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
	// SettleFor is how long Complete and Release are repeated. Default 1 minute.
	SettleFor time.Duration
	// Logger has the errors whose text no caller may see. Default slog.Default().
	Logger *slog.Logger
}

// Guard is a unary server interceptor; make it with New.
type Guard struct {
	config    Config
	giveBacks chan struct{} // has an element for each one that runs
	running   sync.WaitGroup
}

// New checks the configuration and sets its defaults.
func New(config Config) (*Guard, error) {
	if config.Service == nil || config.Namespace == "" || config.Scope == nil {
		return nil, errors.New("idempotency: Service, Namespace and Scope are required")
	}
	if err := config.setDurations(); err != nil {
		return nil, err
	}
	for method, released := range config.Released {
		for _, code := range released {
			if !canBeReleased(code) {
				return nil, fmt.Errorf("idempotency: %s: %v cannot be released", method, code)
			}
		}
	}
	if config.Logger == nil {
		config.Logger = slog.Default()
	}
	return &Guard{config: config, giveBacks: make(chan struct{}, maxGiveBacks)}, nil
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
	defaultTo(&c.SettleFor, time.Minute)
	defaultTo(&c.ReserveFor, min(10*time.Second, c.Lease/2))
	defaultTo(&c.MaxWait, min(2*time.Second, c.ReserveFor/2))
	if min(c.Lease, c.MaxWork, c.SettleFor, c.ReserveFor, c.MaxWait) < 0 {
		return errors.New("idempotency: a duration is negative")
	}
	if most := c.Lease / 2; c.ReserveFor > most { // a handler would begin late in its lease
		return fmt.Errorf("idempotency: ReserveFor is %v, and may be %v, half of Lease", c.ReserveFor, most)
	}
	if most := min(tryTimeout, c.ReserveFor); c.MaxWait >= most {
		return fmt.Errorf("idempotency: MaxWait is %v, and has to be under %v", c.MaxWait, most)
	}
	return nil
}

// Wait waits for the work in the background. Call it after Server.GracefulStop.
func (g *Guard) Wait() { g.running.Wait() }

// Intercept is a grpc.UnaryServerInterceptor. Install it last in the chain: the response that it
// returns has the recorded bytes and no Go type of the method.
func (g *Guard) Intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo,
	handler grpc.UnaryHandler) (any, error) {
	if slices.Contains(g.config.Unguarded, info.FullMethod) {
		return handler(ctx, request)
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
		return replay(ctx, record, verdict.Replay)
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
	return &pb.ReserveRequest{
		RecordKey:     &pb.RecordKey{Namespace: g.config.Namespace, Scope: scope, Operation: method, Key: key},
		Fingerprints:  []*pb.Fingerprint{fingerprint},
		RequestToken:  token.String(),
		Lease:         durationpb.New(g.config.Lease),
		MaxWait:       durationpb.New(g.config.MaxWait),
		OnLeaseExpiry: pb.LeaseExpiry_LEASE_EXPIRY_REQUIRE_RECOVERY,
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
	}, request)
	var failed *callError
	if errors.As(err, &failed) && failed.open {
		g.giveBack(context.WithoutCancel(ctx), request)
	}
	return verdict, sent, err
}

// giveBack releases, in the background, a grant whose answer was lost: its lease would end as an
// unknown outcome although nothing ran.
func (g *Guard) giveBack(ctx context.Context, request *pb.ReserveRequest) {
	select {
	case g.giveBacks <- struct{}{}:
	default: // too many: the lease ends by itself
		return
	}
	g.running.Go(func() {
		defer func() { <-g.giveBacks }()
		bounded, cancel := context.WithTimeout(ctx, g.config.Lease)
		defer cancel()
		verdict, err := repeat(bounded, g.config.Service.Reserve, request)
		if reserved := verdict.GetReserved(); err == nil && reserved != nil {
			outcome := nothingHappened
			if isUndecided(reserved) {
				outcome = unknownOutcome
			}
			_, err = repeat(bounded, g.config.Service.Release, &pb.ReleaseRequest{
				RecordKey: request.GetRecordKey(), ReservationToken: reserved.GetReservationToken(),
				Outcome: outcome, Reason: "its caller gave up"})
		}
		if err != nil {
			g.config.Logger.Warn("a reservation was not given back", "error", err)
		}
	})
}

// mayRun returns nil if the handler may run under a grant. Otherwise it has settled the grant, and
// returns the status of the call.
func (g *Guard) mayRun(ctx context.Context, held *held, grant *pb.Reserved) error {
	own := context.WithoutCancel(ctx)
	if isUndecided(grant) {
		return g.undecided(ctx, held, grant, "an earlier attempt of another guard may have had an effect")
	}
	if grant.GetAttempt() > 1 {
		expiry, err := g.leaseExpiry(ctx, held)
		if err != nil {
			g.config.Logger.Error("no policy of a record", "record", held.record, "error", err)
			if err := g.release(own, held, nothingHappened, "its policy is not known"); err != nil {
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
		if err := g.release(own, held, nothingHappened, "its caller gave up"); err != nil {
			return g.notSettled(ctx, held, err)
		}
		return status.FromContextError(ctx.Err()).Err()
	}
	if time.Now().Before(held.leaseEnd) {
		return nil
	}
	// The process was stopped, or the answer was late: another attempt may run.
	if err := g.release(own, held, nothingHappened, "its lease ended before the handler began"); err != nil {
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
	got, err := repeat(bounded, g.config.Service.Get, &pb.GetRequest{RecordKey: held.key})
	return got.GetRecord().GetOnLeaseExpiry(), err
}

// undecided leaves the outcome of an operation unknown, without running it.
func (g *Guard) undecided(ctx context.Context, held *held, grant *pb.Reserved, reason string) error {
	if err := g.release(context.WithoutCancel(ctx), held, unknownOutcome, reason); err != nil {
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
	own := context.WithoutCancel(ctx)
	keeper := g.keepLease(own, held)
	defer keeper.stop()
	returned := false
	defer func() {
		if !returned { // a panic goes on; the outcome is unknown
			if err := g.release(own, held, unknownOutcome, "the handler panicked"); err != nil {
				g.config.Logger.Error("a reservation was not settled", "record", held.record, "error", err)
			}
		}
	}()

	work, cancel := context.WithTimeout(keeper.work, g.config.MaxWork)
	defer cancel()
	method := held.key.GetOperation()
	sent := &sentMetadata{method: method, header: metadata.MD{}, trailer: metadata.MD{}}
	response, err := handler(grpc.NewContextWithServerTransportStream(work, sent), request)
	returned = true
	keeper.worked.Store(true)

	reply, replyErr := sent.reply(response, err)
	code := codes.Code(reply.GetCode())
	switch {
	case replyErr != nil, errorInfo(status.Convert(err)).GetDomain() == errorDomain:
		// Also the refusal of another guard, by a method that the handler called.
		return nil, g.unknown(ctx, held, errors.Join(err, replyErr))
	case slices.Contains(g.config.Released[method], code) && !isOverSizeLimit(code, reply.GetMessage()):
		if err := g.release(own, held, nothingHappened, code.String()); err != nil {
			return nil, g.notSettled(ctx, held, err)
		}
		return answer(ctx, reply, "idempotency-record", held.record)
	case !isOutcome(code):
		return nil, g.unknown(ctx, held, err)
	}

	completed, err := g.complete(own, held, recorded(reply))
	if status.Code(err) == codes.InvalidArgument { // the operation has run all the same
		g.config.Logger.Error("a reply is recorded without its content", "record", held.record, "error", err)
		completed, err = g.complete(own, held, withoutContent(reply))
	}
	if err != nil {
		superseded := keeper.stop()
		if causeOf(err) != "RECORD_EXPIRED" || superseded {
			return nil, g.notSettled(ctx, held, err)
		}
		// No record can contradict the reply, and a retry of an error would run again.
		marks := []string{"idempotency-record", held.record}
		if reply.GetCode() != 0 {
			marks = append(marks, pushback, strconv.Itoa(noRetries))
		}
		return answer(ctx, reply, marks...)
	}
	return answer(ctx, reply, entries(held.record, completed.GetExpiresAt())...)
}

func (g *Guard) complete(ctx context.Context, held *held, reply *pb.Reply) (*pb.CompleteResponse, error) {
	return settle(ctx, g, g.config.Service.Complete, &pb.CompleteRequest{
		RecordKey: held.key, ReservationToken: held.token, Reply: reply})
}

// unknown settles a reservation whose handler may have had an effect (rule 4).
func (g *Guard) unknown(ctx context.Context, held *held, cause error) error {
	g.config.Logger.Error("the outcome of a call is unknown", "record", held.record, "error", cause)
	own := context.WithoutCancel(ctx)
	if err := g.release(own, held, unknownOutcome, status.Code(cause).String()); err != nil {
		return g.notSettled(ctx, held, err)
	}
	return refusal{code: codes.Unavailable, reason: "OUTCOME_NOT_RECORDED",
		message: "the outcome is not known"}.send(ctx, held.record)
}

func (g *Guard) release(ctx context.Context, held *held, outcome pb.ReleaseOutcome, reason string) error {
	_, err := settle(ctx, g, g.config.Service.Release, &pb.ReleaseRequest{
		RecordKey: held.key, ReservationToken: held.token, Outcome: outcome, Reason: reason})
	return err
}

// settle repeats Complete or Release until it is answered.
func settle[Q, A any](ctx context.Context, g *Guard, call rpc[Q, A], request *Q) (*A, error) {
	bounded, cancel := context.WithTimeout(ctx, g.config.SettleFor)
	defer cancel()
	return repeat(bounded, call, request)
}

// notSettled refuses a call whose Complete or Release was refused (rule 5). The code of that error
// is not the caller's: the operation may have run.
func (g *Guard) notSettled(ctx context.Context, held *held, err error) error {
	g.config.Logger.Error("a reservation was not settled", "record", held.record, "error", err)
	if status.Code(err) != codes.FailedPrecondition {
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
	// Its text may have addresses and names of identities.
	g.config.Logger.Error("no verdict", "error", err)
	delay := noVerdictDelay
	var failed *callError
	if errors.As(err, &failed) && failed.delay > 0 {
		delay = failed.delay
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
