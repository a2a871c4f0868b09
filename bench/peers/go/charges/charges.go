// Package charges serves the charges of every contender in Go, so that they differ in their
// interceptor alone.
package charges

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"

	"peers/chargesv1"
)

const receiptBytes = 256

// service numbers its receipts, so that a second execution shows.
type service struct {
	chargesv1.UnimplementedChargesServer
	executions atomic.Uint64
}

// Charge costs nothing itself.
func (service *service) Charge(context.Context,
	*chargesv1.ChargeRequest) (*chargesv1.ChargeReply, error) {
	receipt := bytes.Repeat([]byte("Z"), receiptBytes)
	copy(receipt, strconv.FormatUint(service.executions.Add(1), 10)+" ")
	return &chargesv1.ChargeReply{Receipt: receipt}, nil
}

// Serve serves behind interceptor on a free port of loopback, which it prints, until ctx ends.
func Serve(ctx context.Context, interceptor grpc.UnaryServerInterceptor) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(interceptor))
	chargesv1.RegisterChargesServer(server, &service{})
	context.AfterFunc(ctx, server.Stop)
	fmt.Printf("charges: serving on %s\n", listener.Addr())
	return server.Serve(listener)
}
