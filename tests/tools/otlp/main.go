// Command otlp-receiver serves the receiver of the OpenTelemetry Collector for OTLP over HTTP, and prints what it takes.
//
// It prints the address that it listens at, on loopback, then a line of JSON for each request: "traces" or "metrics" as OTLP
// writes them in JSON, and "token", the header X-Token. It ends with standard input.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"os"

	"go.opentelemetry.io/collector/client"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pmetric"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
)

func main() {
	ctx, factory := context.Background(), otlpreceiver.NewFactory()
	address := freeAddress()
	config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
	http := config.Protocols.HTTP.GetOrInsertDefault()
	http.ServerConfig.NetAddr.Endpoint = address
	http.ServerConfig.IncludeMetadata = true
	config.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
	settings := receiver.Settings{
		ID:                component.NewID(factory.Type()),
		TelemetrySettings: componenttest.NewNopTelemetrySettings(),
	}

	traceJSON, metricJSON := ptrace.JSONMarshaler{}, pmetric.JSONMarshaler{}
	traces, err := consumer.NewTraces(func(ctx context.Context, traces ptrace.Traces) error {
		body, err := traceJSON.MarshalTraces(traces)
		return printed(ctx, "traces", body, err)
	})
	check(err)
	metrics, err := consumer.NewMetrics(func(ctx context.Context, metrics pmetric.Metrics) error {
		body, err := metricJSON.MarshalMetrics(metrics)
		return printed(ctx, "metrics", body, err)
	})
	check(err)

	// Both are parts of one server.
	ofTraces, err := factory.CreateTraces(ctx, settings, config, traces)
	check(err)
	ofMetrics, err := factory.CreateMetrics(ctx, settings, config, metrics)
	check(err)
	check(ofTraces.Start(ctx, componenttest.NewNopHost()))
	check(ofMetrics.Start(ctx, componenttest.NewNopHost()))
	fmt.Println(address)
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// freeAddress returns an address that nobody listens at; the receiver does not tell which one it was given.
func freeAddress() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	defer listener.Close()
	return listener.Addr().String()
}

func printed(ctx context.Context, signal string, body []byte, err error) error {
	if err != nil {
		return err
	}
	token := client.FromContext(ctx).Metadata.Get("X-Token")
	line, err := json.Marshal(map[string]any{signal: json.RawMessage(body), "token": token})
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(line, '\n'))
	return err
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
