// A unary call of grpc-go with bytes: client TARGET METHOD KEY REQUEST_HEX. Prints the reply as JSON.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

type raw struct{}

func (raw) Marshal(value any) ([]byte, error)      { return *value.(*[]byte), nil }
func (raw) Unmarshal(data []byte, value any) error { *value.(*[]byte) = data; return nil }
func (raw) Name() string                           { return "proto" }

func main() {
	target, method, key := os.Args[1], os.Args[2], os.Args[3]
	request, err := hex.DecodeString(os.Args[4])
	if err != nil {
		log.Fatal(err)
	}
	connection, err := grpc.NewClient(target, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", key, "x-tenant", "shop")
	var reply []byte
	var trailer metadata.MD
	err = connection.Invoke(ctx, method, &request, &reply, grpc.ForceCodec(raw{}), grpc.Trailer(&trailer))
	out, _ := json.Marshal(map[string]any{"code": int(status.Code(err)), "message": status.Convert(err).Message(),
		"reply": hex.EncodeToString(reply), "execution": append(trailer.Get("x-execution"), "")[0],
		"replayed": len(trailer.Get("idempotency-replayed")) > 0})
	fmt.Println(string(out))
}
