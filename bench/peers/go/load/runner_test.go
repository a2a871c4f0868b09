package main

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// ledger answers each key with a receipt of its own; its faults are those of servers that a load
// has to reveal.
type ledger struct {
	mutex    sync.Mutex
	receipts map[string]int
	runs     int
	forgets  bool
	fails    bool
	marksAll bool
	marksNo  bool
}

func (server *ledger) Call(key string) ([]byte, bool, error) {
	server.mutex.Lock()
	defer server.mutex.Unlock()
	if server.fails {
		return nil, false, errors.New("unavailable")
	}
	receipt, seen := server.receipts[key]
	if key == "" || !seen || server.forgets {
		server.runs++
		receipt = server.runs
		server.receipts[key] = receipt
	}
	return fmt.Appendf(nil, "receipt %d", receipt), (seen || server.marksAll) && !server.marksNo, nil
}

func (server *ledger) marksReplays() bool { return true }

func newLedger() *ledger { return &ledger{receipts: map[string]int{}} }

func run(t *testing.T, server *ledger, load string) *Report {
	t.Helper()
	runner := &Runner{keyed: server, bare: server}
	report, err := runner.Run(Order{Load: load, InFlight: 4, DurationMs: 20, Keys: 50})
	if err != nil {
		return &Report{Failures: 1, FirstFailure: err.Error()}
	}
	return report
}

func TestEveryLoadOfARightServerSucceeds(t *testing.T) {
	for _, load := range []string{"bare", "first", "replay", "hot"} {
		report := run(t, newLedger(), load)
		if report.Failures != 0 || report.Measured == 0 || report.P99Us < report.P50Us {
			t.Errorf("%s: %+v", load, report)
		}
	}
}

func TestReplaysRunNoHandler(t *testing.T) {
	server := newLedger()
	run(t, server, "replay")
	if server.runs != 50 {
		t.Errorf("the handler ran %d times for 50 keys", server.runs)
	}
}

func TestAServerThatRunsTheHandlerAgainIsFound(t *testing.T) {
	for _, load := range []string{"replay", "hot"} {
		server := newLedger()
		server.forgets = true
		if report := run(t, server, load); !strings.Contains(report.FirstFailure, "another answer") {
			t.Errorf("%s: %+v", load, report)
		}
	}
}

func TestAServerThatReplaysNewKeysIsFound(t *testing.T) {
	server := newLedger()
	server.marksAll = true
	if report := run(t, server, "first"); !strings.Contains(report.FirstFailure, "key that is new") {
		t.Errorf("%+v", report)
	}
}

func TestAServerThatDoesNotMarkReplaysIsFound(t *testing.T) {
	server := newLedger()
	server.marksNo = true
	if report := run(t, server, "hot"); !strings.Contains(report.FirstFailure, "not replayed") {
		t.Errorf("%+v", report)
	}
}

func TestFailuresEndALoadAndDoNotCount(t *testing.T) {
	server := newLedger()
	server.fails = true
	report := run(t, server, "first")
	if report.Measured != 0 || report.Failures < failureLimit || report.FirstFailure != "unavailable" {
		t.Errorf("%+v", report)
	}
}

func TestOrdersAreBounded(t *testing.T) {
	right := Order{Load: "replay", InFlight: 1, DurationMs: 1, Keys: 1}
	if err := right.valid(); err != nil {
		t.Error(err)
	}
	for name, wrong := range map[string]func(*Order){
		"load":     func(order *Order) { order.Load = "all" },
		"crowd":    func(order *Order) { order.InFlight = 0 },
		"duration": func(order *Order) { order.DurationMs = 1 << 30 },
		"keys":     func(order *Order) { order.Keys = 0 },
	} {
		order := right
		wrong(&order)
		if order.valid() == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func TestQuantilesAreOfTheNearestRank(t *testing.T) {
	var sorted []time.Duration
	for i := 1; i <= 200; i++ {
		sorted = append(sorted, time.Duration(i)*time.Microsecond)
	}
	if p50, p99 := quantile(sorted, 0.5), quantile(sorted, 0.99); p50 != 100 || p99 != 198 {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	if quantile(nil, 0.5) != 0 {
		t.Error("no calls have no latency")
	}
}
