package idempotency

import (
	"context"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"google.golang.org/grpc/status"
)

// complete records a reply (rule 4).
func (g *Guard) complete(ctx context.Context, held *held, keeper *keeper, reply *pb.Reply) (*pb.CompleteResponse, error) {
	request := &pb.CompleteRequest{RecordKey: held.key, ReservationToken: held.token, Reply: recorded(reply)}
	return settle(ctx, g, held, keeper, func(own context.Context) (*pb.CompleteResponse, error) {
		completed, err := repeat(own, g.config.Service.Complete, request, untilFinal)
		if reasonOf(err) != "REQUEST_INVALID" {
			return completed, err
		}
		// The operation has run all the same.
		g.config.Logger.Error("a reply is recorded without its content", "record", held.record, "error", err)
		request.Reply = withoutContent(reply)
		return repeat(own, g.config.Service.Complete, request, untilFinal)
	})
}

// release ends a reservation without a reply (rule 5). The keeper is nil if nothing ran.
func (g *Guard) release(ctx context.Context, held *held, keeper *keeper, outcome pb.ReleaseOutcome, reason string) error {
	_, err := settle(ctx, g, held, keeper, func(own context.Context) (*pb.ReleaseResponse, error) {
		return repeat(own, g.config.Service.Release, &pb.ReleaseRequest{
			RecordKey: held.key, ReservationToken: held.token, Outcome: outcome, Reason: reason}, untilFinal)
	})
	if outcome == nothingHappened && causeOf(err) == "RECORD_EXPIRED" && !keeper.stop() {
		return nil // a retry may run
	}
	return err
}

// settle waits for a settlement, for AnswerWithin at most: it goes on in the background then, with the
// lease extended.
func settle[A any](ctx context.Context, g *Guard, held *held, keeper *keeper,
	call func(context.Context) (*A, error)) (*A, error) {
	type result struct {
		answer *A
		err    error
	}
	results := make(chan result, 1)
	own, end := g.inBackground(ctx, g.config.SettleFor)
	g.running.Go(func() {
		defer end()
		answer, err := call(own)
		keeper.stop()
		if err != nil {
			g.config.Logger.Error("a reservation was not settled", "record", held.record, "error", err)
			if !isLost(err) { // another attempt, or nothing, holds the record
				g.unsettled.Add(1)
			}
		}
		results <- result{answer, err}
	})
	select {
	case got := <-results:
		return got.answer, got.err
	case <-time.After(g.config.AnswerWithin):
	}
	select {
	case g.settlements <- struct{}{}:
		context.AfterFunc(own, func() { <-g.settlements })
	default: // too many
		end()
	}
	return nil, errNotYet
}

// giveBack releases, in the background, a grant whose answer was lost: its lease would end as an
// unknown outcome although nothing ran.
func (g *Guard) giveBack(ctx context.Context, request *pb.ReserveRequest) {
	select {
	case g.giveBacks <- struct{}{}:
	default: // too many: the lease ends by itself
		g.notGivenBack(errTooMany)
		return
	}
	own, end := g.inBackground(ctx, g.config.Lease)
	g.running.Go(func() {
		defer func() { <-g.giveBacks }()
		defer end()
		verdict, err := repeat(own, g.config.Service.Reserve, request, untilFinal)
		if reserved := verdict.GetReserved(); err == nil && reserved != nil {
			outcome := nothingHappened
			if isUndecided(reserved) {
				outcome = unknownOutcome
			}
			_, err = repeat(own, g.config.Service.Release, &pb.ReleaseRequest{
				RecordKey: request.GetRecordKey(), ReservationToken: reserved.GetReservationToken(),
				Outcome: outcome, Reason: "its caller gave up"}, untilFinal)
		}
		if err != nil && !isFinal(err) { // no grant, or none any more
			g.notGivenBack(err)
		}
	})
}

func (g *Guard) notGivenBack(err error) {
	g.unsettled.Add(1)
	g.config.Logger.Warn("a reservation was not given back", "code", status.Code(err), "error", err)
}

// inBackground is a context that the caller's call does not end: with its values, until Wait gives up.
func (g *Guard) inBackground(ctx context.Context, within time.Duration) (context.Context, context.CancelFunc) {
	own, cancel := context.WithTimeout(context.WithoutCancel(ctx), within)
	unhook := context.AfterFunc(g.open, cancel)
	return own, func() {
		unhook()
		cancel()
	}
}

// Unsettled is the number of reservations that this guard gave up since its start: of outcomes that
// are not recorded, and of grants that are not given back. Each is a key whose callers may get
// OUTCOME_UNKNOWN until an operator settles it. Alert on it.
func (g *Guard) Unsettled() int64 { return g.unsettled.Load() }

// Wait waits for the work in the background. Call it after Server.GracefulStop. What has not
// ended when the context ends is given up: that is an error.
func (g *Guard) Wait(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.running.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		g.close()
		<-done
		return ctx.Err()
	}
}
