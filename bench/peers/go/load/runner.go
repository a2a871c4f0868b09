package main

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// Calls that fail before the loops end.
const failureLimit = 100

// A prime: keys are taken in an order that is not that of their making.
const stride = 2654435761

// Report is a line of the output. Latencies are of the calls that ended after the warm-up.
type Report struct {
	Seconds      float64 `json:"seconds"`
	Measured     int     `json:"measured"`
	PerSecond    float64 `json:"per_second"`
	P50Us        float64 `json:"p50_us"`
	P99Us        float64 `json:"p99_us"`
	Ended        int64   `json:"ended"`
	Failures     int64   `json:"failures"`
	FirstFailure string  `json:"first_failure"`
}

type completed struct {
	key    string
	answer []byte
}

// Runner runs loads one after the other.
type Runner struct {
	keyed, bare Server
	// Keys with the answer that each call with it has to get.
	keys []completed
}

// Run lasts for the order's warm-up and duration, and as long as it takes to complete the keys.
func (runner *Runner) Run(order Order) (*Report, error) {
	switch order.Load {
	case "bare":
		if runner.bare == nil {
			return nil, errors.New("this server takes no call without a key")
		}
		return loop(order, func(uint64) error {
			_, _, err := runner.bare.Call("")
			return err
		}), nil
	case "first":
		return loop(order, func(uint64) error {
			_, err := first(runner.keyed)
			return err
		}), nil
	case "replay":
		if err := runner.complete(order.Keys); err != nil {
			return nil, err
		}
		count := uint64(order.Keys)
		return loop(order, func(number uint64) error {
			return replay(runner.keyed, runner.keys[number%count*stride%count])
		}), nil
	default:
		hot, err := first(runner.keyed)
		if err != nil {
			return nil, err
		}
		return loop(order, func(uint64) error { return replay(runner.keyed, hot) }), nil
	}
}

func (runner *Runner) complete(count int) error {
	const callers = 64
	var mutex sync.Mutex
	var wait sync.WaitGroup
	var failure error
	missing := make(chan struct{}, count)
	for i := len(runner.keys); i < count; i++ {
		missing <- struct{}{}
	}
	close(missing)
	for range callers {
		wait.Go(func() {
			for range missing {
				one, err := first(runner.keyed)
				mutex.Lock()
				if err != nil {
					failure = err
				} else {
					runner.keys = append(runner.keys, one)
				}
				stop := failure != nil
				mutex.Unlock()
				if stop {
					return
				}
			}
		})
	}
	wait.Wait()
	return failure
}

func first(server Server) (completed, error) {
	key, err := uuid.NewV7()
	if err != nil {
		return completed{}, err
	}
	answer, replayed, err := server.Call(key.String())
	switch {
	case err != nil:
		return completed{}, err
	case len(answer) == 0:
		return completed{}, errors.New("an answer without a receipt")
	case replayed:
		return completed{}, errors.New("a replay of a key that is new")
	}
	return completed{key.String(), answer}, nil
}

func replay(server Server, want completed) error {
	answer, replayed, err := server.Call(want.key)
	switch {
	case err != nil:
		return err
	case !bytes.Equal(answer, want.answer):
		return fmt.Errorf("key %s got another answer than its first one", want.key)
	case server.marksReplays() && !replayed:
		return fmt.Errorf("key %s was not replayed", want.key)
	}
	return nil
}

// loop keeps order.InFlight calls in flight, each followed by the next one.
func loop(order Order, call func(number uint64) error) *Report {
	var number atomic.Uint64
	var ended, failures atomic.Int64
	var firstFailure atomic.Pointer[string]
	begin := time.Now().Add(time.Duration(order.WarmupMs) * time.Millisecond)
	end := begin.Add(time.Duration(order.DurationMs) * time.Millisecond)
	latencies := make([][]time.Duration, order.InFlight)
	var wait sync.WaitGroup
	for caller := range order.InFlight {
		wait.Go(func() {
			for started := time.Now(); started.Before(end) && failures.Load() < failureLimit; {
				err := call(number.Add(1))
				now := time.Now()
				ended.Add(1)
				if err != nil {
					text := err.Error()
					firstFailure.CompareAndSwap(nil, &text)
					failures.Add(1)
				} else if now.After(begin) && now.Before(end) {
					latencies[caller] = append(latencies[caller], now.Sub(started))
				}
				started = now
			}
		})
	}
	wait.Wait()
	all := slices.Concat(latencies...)
	slices.Sort(all)
	report := &Report{
		Seconds:   float64(order.DurationMs) / 1e3,
		Measured:  len(all),
		PerSecond: float64(len(all)) / (float64(order.DurationMs) / 1e3),
		P50Us:     quantile(all, 0.5),
		P99Us:     quantile(all, 0.99),
		Ended:     ended.Load(),
		Failures:  failures.Load(),
	}
	if text := firstFailure.Load(); text != nil {
		report.FirstFailure = *text
	}
	return report
}

// quantile is in microseconds, by the nearest rank; 0 of nothing.
func quantile(sorted []time.Duration, share float64) float64 {
	if len(sorted) == 0 {
		return 0
	}
	rank := int(share*float64(len(sorted))+0.999999) - 1
	return float64(sorted[max(0, min(rank, len(sorted)-1))]) / 1e3
}
