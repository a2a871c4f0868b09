// Command middleware serves charges behind a middleware of two statements on Postgres.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"os/signal"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"peers/chargesv1"
)

const receiptBytes = 256

// Charges numbers its receipts, so that a second execution shows.
type Charges struct {
	chargesv1.UnimplementedChargesServer
	executions atomic.Uint64
}

// Charge costs nothing itself.
func (charges *Charges) Charge(context.Context,
	*chargesv1.ChargeRequest) (*chargesv1.ChargeReply, error) {
	receipt := bytes.Repeat([]byte("Z"), receiptBytes)
	copy(receipt, strconv.FormatUint(charges.executions.Add(1), 10)+" ")
	return &chargesv1.ChargeReply{Receipt: receipt}, nil
}

func serve(store string, connections int) error {
	config, err := pgxpool.ParseConfig(store)
	if err != nil {
		return err
	}
	config.MaxConns = int32(connections)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	defer pool.Close()
	if _, err := pool.Exec(ctx, schema); err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	idempotency := &Idempotency{pool}
	server := grpc.NewServer(grpc.UnaryInterceptor(idempotency.Intercept))
	chargesv1.RegisterChargesServer(server, &Charges{})
	context.AfterFunc(ctx, server.Stop)
	fmt.Printf("charges: serving on %s\n", listener.Addr())
	return server.Serve(listener)
}

func main() {
	store := flag.String("store", "", "URL of the Postgres database")
	connections := flag.Int("connections", 16, "connections to Postgres")
	flag.Parse()
	if *connections < 1 || *connections > 1000 {
		log.Fatal("middleware: -connections takes 1 to 1000")
	}
	if err := serve(*store, *connections); err != nil {
		log.Fatal("middleware: ", err)
	}
}
