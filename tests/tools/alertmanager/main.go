// Command alertmanager serves Alertmanager's own API and its store of alerts, without notifications and without its page, which
// the Go module leaves out.
//
// It prints the address that it listens at, on loopback, and ends with standard input.
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/route"

	"github.com/prometheus/alertmanager/api"
	"github.com/prometheus/alertmanager/config"
	"github.com/prometheus/alertmanager/dispatch"
	"github.com/prometheus/alertmanager/eventrecorder"
	"github.com/prometheus/alertmanager/provider/mem"
	"github.com/prometheus/alertmanager/silence"
	"github.com/prometheus/alertmanager/types"
)

func main() {
	registry, logger := prometheus.NewRegistry(), slog.New(slog.NewTextHandler(os.Stderr, nil))
	var recorder eventrecorder.Recorder
	// Ended alerts are kept until the next collection.
	alerts, err := mem.NewAlerts(context.Background(), time.Hour, 0, nil, logger, recorder, registry, nil)
	check(err)
	silences, err := silence.New(silence.Options{Metrics: registry, Logger: logger})
	check(err)
	handler, err := api.New(api.Options{
		Alerts:         alerts,
		Silences:       silences,
		GroupMutedFunc: func(string, string) ([]string, bool) { return nil, false },
		GroupFunc: func(context.Context, func(*dispatch.Route) bool, func(*types.Alert, time.Time) bool) (
			dispatch.AlertGroups, map[model.Fingerprint][]string, error) {
			return nil, nil, nil
		},
		Registry: registry,
		RequestDuration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "request_duration_seconds"},
			[]string{"handler", "method", "code"}),
		Logger: logger,
	})
	check(err)
	parsed, err := config.Load("route: {receiver: none}\nreceivers: [{name: none}]\n")
	check(err)
	handler.Update(parsed, func(context.Context, model.LabelSet) {})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	check(http.Serve(listener, handler.Register(route.New(), "/")))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
