package redimutexprom_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/redimutex/redimutex"
	redimutexprom "github.com/redimutex/redimutex/metrics/prometheus"
)

func Example() {
	pool, err := redimutex.NewPool(os.Getenv("REDIS_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	client := redimutex.NewClient([]redimutex.Pool{pool})
	defer client.Close()

	collector := redimutexprom.New(client)
	defer collector.Close()
	prometheus.MustRegister(collector)
	http.Handle("/metrics", promhttp.Handler())

	err = client.Mutex("invoices:2026-11").Do(context.Background(), func(ctx context.Context) error {
		return nil // counted, and its wait and hold measured
	})
	fmt.Println(err)
}

func ExampleWithKeyLabel() {
	pool, err := redimutex.NewPool(os.Getenv("REDIS_URL"))
	if err != nil {
		fmt.Println(err)
		return
	}
	client := redimutex.NewClient([]redimutex.Pool{pool})
	// Keys are like "invoices:4711", and there are a million of them, but a handful of kinds.
	collector := redimutexprom.New(client, redimutexprom.WithKeyLabel(func(key string) string {
		kind, _, _ := strings.Cut(key, ":")
		return kind
	}))
	prometheus.MustRegister(collector)
}

func ExampleWithLabels() {
	var orders, users *redimutex.Client // each over servers of its own
	for name, client := range map[string]*redimutex.Client{"orders": orders, "users": users} {
		prometheus.MustRegister(redimutexprom.New(client, redimutexprom.WithLabels(prometheus.Labels{"client": name})))
	}
}
