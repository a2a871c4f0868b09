package idempotency

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	pb "example.org/payments/gen/idempotencyv1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// held is a reservation.
type held struct {
	method        *method
	key           *pb.RecordKey
	token, record string
	leaseEnd      time.Time
}

// keeper extends a lease (rule 3).
type keeper struct {
	work       context.Context // ends when the reservation is lost
	halt       context.CancelFunc
	done       chan struct{}
	superseded bool        // another attempt may have a reply; read it after done
	worked     atomic.Bool // the handler has returned
}

func (g *Guard) keepLease(ctx context.Context, held *held) *keeper {
	running, halt := context.WithCancel(ctx)
	work, lose := context.WithCancelCause(running)
	k := &keeper{work: work, halt: halt, done: make(chan struct{})}
	go func() {
		defer close(k.done)
		lose(k.extend(running, g, held))
	}()
	return k
}

// stop ends the extensions, and reports whether another attempt may have a reply. Without a keeper
// nothing ran.
func (k *keeper) stop() bool {
	if k == nil {
		return false
	}
	k.halt()
	<-k.done
	return k.superseded
}

// extend returns the reason for which the lease is not kept any longer.
func (k *keeper) extend(ctx context.Context, g *Guard, held *held) error {
	end := held.leaseEnd
	pause := time.Until(end) / 3
	// A handler that ignores the end of its context does not hold its key for ever.
	worksUntil := time.Now().Add(g.config.MaxWork + g.config.Lease)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(min(pause, time.Until(end))):
		}
		sent := time.Now()
		if !k.worked.Load() && sent.After(worksUntil) {
			return fmt.Errorf("%w: the handler does not end", ErrReservationLost)
		}
		try, cancel := context.WithDeadline(ctx, earlier(end, sent.Add(tryTimeout)))
		extended, err := g.config.Service.Extend(try, &pb.ExtendRequest{
			RecordKey: held.key, ReservationToken: held.token, Lease: durationpb.New(g.config.Lease)})
		cancel()
		switch {
		case err == nil:
			remaining := extended.GetLeaseRemaining().AsDuration()
			end, pause = sent.Add(remaining), remaining/3
		case ctx.Err() != nil:
			return ctx.Err()
		case isLost(err):
			cause := causeOf(err)
			k.superseded = cause != "OUTCOME_UNKNOWN" && cause != "RECORD_EXPIRED"
			return fmt.Errorf("%w: %w", ErrReservationLost, err)
		case !time.Now().Before(end):
			return fmt.Errorf("%w: the lease is over: %w", ErrReservationLost, err)
		default:
			pause = g.config.Lease / 30
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
