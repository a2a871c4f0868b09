// The service of grpc's interoperability tests, as grpc-go has it, and a counter in front of it: a
// line "executed METHOD KEY" for each execution, whose number is a trailer.
package main

import (
	"context"
	"fmt"
	"log"
	"net"
	"strconv"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/interop"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/reflection"
)

var executions atomic.Int64

func count(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
	number := executions.Add(1)
	md, _ := metadata.FromIncomingContext(ctx)
	fmt.Println("executed", info.FullMethod, append(md.Get("idempotency-key"), "-")[0])
	if err := grpc.SetTrailer(ctx, metadata.Pairs("x-execution", strconv.FormatInt(number, 10))); err != nil {
		return nil, err
	}
	return handler(ctx, request)
}

func main() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := grpc.NewServer(grpc.UnaryInterceptor(count))
	pb.RegisterTestServiceServer(server, interop.NewTestServer())
	reflection.Register(server)
	fmt.Println("serving on", listener.Addr())
	log.Fatal(server.Serve(listener))
}
