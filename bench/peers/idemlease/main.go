// Command idemlease serves charges behind the interceptor of the library idemlease, whose records
// are in Postgres.
package main

import (
	"context"
	"database/sql"
	"flag"
	"log"
	"os/signal"
	"syscall"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/repenguin22/idemlease/grpcidem"
	"github.com/repenguin22/idemlease/pgstore"

	"peers/charges"
)

func serve(store string, connections int) error {
	pool, err := sql.Open("pgx", store)
	if err != nil {
		return err
	}
	defer pool.Close()
	pool.SetMaxOpenConns(connections)
	// The default of two would open connections anew under load.
	pool.SetMaxIdleConns(connections)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if _, err := pool.ExecContext(ctx, pgstore.Schema(pgstore.DefaultTable)); err != nil {
		return err
	}
	return charges.Serve(ctx, grpcidem.UnaryServerInterceptor(pgstore.New(pool)))
}

func main() {
	store := flag.String("store", "", "URL of the Postgres database")
	connections := flag.Int("connections", 16, "connections to Postgres")
	flag.Parse()
	if *connections < 1 || *connections > 1000 {
		log.Fatal("idemlease: -connections takes 1 to 1000")
	}
	if err := serve(*store, *connections); err != nil {
		log.Fatal("idemlease: ", err)
	}
}
