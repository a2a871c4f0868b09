// Command middleware serves charges behind a middleware of two statements on Postgres.
package main

import (
	"context"
	"flag"
	"log"
	"os/signal"
	"syscall"

	"github.com/jackc/pgx/v5/pgxpool"

	"peers/charges"
)

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
	return charges.Serve(ctx, (&Idempotency{pool}).Intercept)
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
