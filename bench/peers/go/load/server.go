package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"peers/chargesv1"
)

const noteBytes = 256

// Server is the measured server. Safe for concurrent use.
type Server interface {
	// Call returns the answer's bytes. replayed is meaningful if marksReplays().
	// An empty key sends none.
	Call(key string) (answer []byte, replayed bool, err error)
	marksReplays() bool
}

type grpcServer struct {
	stub    chargesv1.ChargesClient
	request *chargesv1.ChargeRequest
	trailer string
	timeout time.Duration
}

func newGRPCServer(address, trailer string, timeout time.Duration) (*grpcServer, error) {
	connection, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		return nil, err
	}
	return &grpcServer{
		stub: chargesv1.NewChargesClient(connection),
		request: &chargesv1.ChargeRequest{
			Account: "alice", AmountCents: 4200, Note: bytes.Repeat([]byte("n"), noteBytes)},
		trailer: trailer,
		timeout: timeout,
	}, nil
}

func (server *grpcServer) Call(key string) ([]byte, bool, error) {
	ctx, cancel := context.WithTimeout(context.Background(), server.timeout)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key)
	}
	var trailers metadata.MD
	reply, err := server.stub.Charge(ctx, server.request, grpc.Trailer(&trailers))
	if err != nil {
		return nil, false, err
	}
	return reply.Receipt, len(trailers.Get(server.trailer)) > 0, nil
}

func (server *grpcServer) marksReplays() bool { return server.trailer != "" }

type httpServer struct {
	client *http.Client
	url    string
	body   []byte
}

func newHTTPServer(url string, timeout time.Duration) *httpServer {
	body, _ := json.Marshal(map[string]any{
		"account": "alice", "amount_cents": 4200, "note": strings.Repeat("n", noteBytes)})
	// HTTP/1.1 with a connection for each caller, which are kept.
	transport := &http.Transport{MaxIdleConnsPerHost: 4096, DisableCompression: true}
	return &httpServer{&http.Client{Transport: transport, Timeout: timeout}, url, body}
}

func (server *httpServer) Call(key string) ([]byte, bool, error) {
	request, err := http.NewRequest(http.MethodPost, server.url, bytes.NewReader(server.body))
	if err != nil {
		return nil, false, err
	}
	request.Header.Set("content-type", "application/json")
	if key != "" {
		request.Header.Set("idempotency-key", key)
	}
	response, err := server.client.Do(request)
	if err != nil {
		return nil, false, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d: %.200s", response.StatusCode, answer)
	}
	return answer, false, err
}

func (server *httpServer) marksReplays() bool { return false }
