// Command load puts one load at a time on a server that charges, over gRPC or over HTTP.
//
// It reads one load a line as JSON from its input and writes each result as one line of JSON, so
// that its connection and its completed keys outlast a load.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// Order is a line of the input.
type Order struct {
	// bare: no key. first: fresh keys. replay: distinct completed keys. hot: one completed key.
	Load       string `json:"load"`
	InFlight   int    `json:"in_flight"`
	WarmupMs   int    `json:"warmup_ms"`
	DurationMs int    `json:"duration_ms"`
	// For replay: this number of keys is completed before the first such load.
	Keys int `json:"keys"`
}

func (order Order) valid() error {
	switch order.Load {
	case "bare", "first", "replay", "hot":
	default:
		return fmt.Errorf("unknown load %q: use bare, first, replay or hot", order.Load)
	}
	if order.InFlight < 1 || order.InFlight > 4096 {
		return fmt.Errorf("in_flight is %d: use 1 to 4096", order.InFlight)
	}
	if order.DurationMs < 1 || order.DurationMs > 120_000 || order.WarmupMs < 0 ||
		order.WarmupMs > 120_000 {
		return fmt.Errorf("a load lasts from 1 ms to 120 s")
	}
	if order.Load == "replay" && (order.Keys < 1 || order.Keys > 1_000_000) {
		return fmt.Errorf("keys is %d: use 1 to 1000000", order.Keys)
	}
	return nil
}

func main() {
	address := flag.String("target", "", "HOST:PORT of the gRPC server")
	bare := flag.String("bare", "", "HOST:PORT of the server for loads without a key; empty: target")
	url := flag.String("url", "", "URL of the method, for a server of HTTP")
	trailer := flag.String("replayed_trailer", "",
		"this trailer has to be in replays, and in no first answer (gRPC)")
	timeout := flag.Duration("timeout", 10*time.Second, "time limit of one call")
	flag.Parse()

	keyed, unkeyed, err := dial(*address, *bare, *url, *trailer, *timeout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(2)
	}
	fmt.Println("load: ready")
	runner := &Runner{keyed: keyed, bare: unkeyed}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var order Order
		err := json.Unmarshal(lines.Bytes(), &order)
		if err == nil {
			err = order.valid()
		}
		var report *Report
		if err == nil {
			report, err = runner.Run(order)
		}
		if err != nil {
			report = &Report{Failures: 1, FirstFailure: err.Error()}
		}
		line, _ := json.Marshal(report)
		fmt.Printf("result: %s\n", line)
	}
}

func dial(address, bare, url, trailer string, timeout time.Duration) (Server, Server, error) {
	if url != "" {
		return newHTTPServer(url, timeout), nil, nil
	}
	if address == "" {
		return nil, nil, fmt.Errorf("name a -target or a -url")
	}
	keyed, err := newGRPCServer(address, trailer, timeout)
	if err != nil {
		return nil, nil, err
	}
	if bare == "" {
		return keyed, keyed, nil
	}
	unkeyed, err := newGRPCServer(bare, "", timeout)
	return keyed, unkeyed, err
}
