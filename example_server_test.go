package redimutex_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/redimutex/redimutex"
)

// A web server makes a Mutex for each request. It shuts down in this order: first the requests, then the Client.
func ExampleClient_webServer() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	stop, terminate := context.WithCancel(context.Background()) // or signal.NotifyContext

	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := client.Mutex("order:"+r.URL.Path).Do(r.Context(), func(ctx context.Context) error {
			terminate() // in the middle of a request
			time.Sleep(50 * time.Millisecond)
			return ctx.Err()
		})
		fmt.Fprintln(w, "done:", err)
	})}
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-stop.Done()
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil { // waits for requests, and so for the locks that they hold
			fmt.Println(err)
		}
		client.Close()
	}()

	listener, _ := net.Listen("tcp", "127.0.0.1:0")
	answer := make(chan string, 1)
	go func() {
		response, err := http.Get("http://" + listener.Addr().String() + "/7")
		if err != nil {
			answer <- err.Error()
			return
		}
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answer <- string(body)
	}()
	err := server.Serve(listener)
	<-done // Serve returns as soon as Shutdown begins
	fmt.Println(err)
	fmt.Print(<-answer)
	// Output:
	// http: Server closed
	// done: <nil>
}
