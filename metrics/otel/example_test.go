package redimutexotel_test

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redimutex/redimutex"
	redimutexotel "github.com/redimutex/redimutex/metrics/otel"
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

	locks, err := redimutexotel.New(client) // to the global providers
	if err != nil {
		fmt.Println(err)
		return
	}
	defer locks.Close()

	// The wait and the hold are children of "close the month".
	ctx, span := otel.Tracer("billing").Start(context.Background(), "close the month")
	defer span.End()
	err = client.Mutex("invoices:2026-11").Do(ctx, func(ctx context.Context) error { return nil })
	fmt.Println(err)
}

func ExampleWithTracerProvider() {
	var client *redimutex.Client
	// Metrics, but no spans.
	_, err := redimutexotel.New(client, redimutexotel.WithTracerProvider(noop.NewTracerProvider()))
	fmt.Println(err)
}
