// Command payments is a payments server whose methods idempotencyd guards.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"

	"example.org/payments/gen/idempotencyv1"
	"example.org/payments/gen/paymentsv1"
	"example.org/payments/idempotency"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// payments charges accounts; a real one calls a bank.
type payments struct {
	paymentsv1.UnimplementedPaymentsServer
}

// Charge implements paymentsv1.PaymentsServer. It begins no effect once its context has ended.
func (payments) Charge(ctx context.Context, request *paymentsv1.ChargeRequest) (*paymentsv1.ChargeReply, error) {
	if request.GetAmountCents() <= 0 {
		return nil, status.Error(codes.InvalidArgument, "amount_cents has to be more than 0")
	}
	if ctx.Err() != nil {
		return nil, status.FromContextError(context.Cause(ctx)).Err()
	}
	return &paymentsv1.ChargeReply{ChargeId: uuid.NewString(), Notes: request.GetNotes()}, nil
}

func run(listen, idempotencyd string) error {
	// Use TLS in production, here and below.
	channel, err := grpc.NewClient(idempotencyd, append(idempotency.DialOptions(),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		return fmt.Errorf("channel to idempotencyd: %w", err)
	}
	defer channel.Close()
	guard, err := idempotency.New(idempotency.Config{
		Service:   idempotencyv1.NewIdempotencyServiceClient(channel),
		Namespace: "payments",
		Services:  []*grpc.ServiceDesc{&paymentsv1.Payments_ServiceDesc},
		// In production the authenticated identity of the caller, never a value that it may choose.
		Scope: func(context.Context) (string, error) { return "everybody", nil },
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	server := grpc.NewServer(grpc.ChainUnaryInterceptor(guard.Intercept), grpc.WaitForHandlers(true))
	paymentsv1.RegisterPaymentsServer(server, payments{})

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		server.GracefulStop() // waits for the handlers
		// Then for replies that are not recorded yet; less than the grace period of the platform.
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := guard.Wait(ctx); err != nil {
			fmt.Fprintln(os.Stderr, "reservations are not settled:", guard.Unsettled())
		}
	}()
	fmt.Println("serving on", listener.Addr())
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serve: %w", err)
	}
	<-stopped
	return nil
}

func main() {
	listen := flag.String("listen", "127.0.0.1:50051", "the address to listen on")
	idempotencyd := flag.String("idempotencyd", "127.0.0.1:7411", "the target of idempotencyd")
	flag.Parse()
	if err := run(*listen, *idempotencyd); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
