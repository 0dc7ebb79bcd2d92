package debughttp_test

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"strings"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"

	"github.com/redimutex/redimutex"
	"github.com/redimutex/redimutex/debughttp"
)

// redisPool returns a pool for an empty embedded server, so that the examples run where no Redis is.
func redisPool() *redis.Pool {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	return &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", "embedded", redis.DialNetDial(func(string, string) (net.Conn, error) { return m.Dial() }))
	}}
}

// Mount the page where the profiles are: on a port that only operators reach.
func ExampleHandler() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()}) // or yours
	defer client.Close()

	internal := http.NewServeMux()
	internal.Handle("/debug/redimutex", debughttp.Handler(client))
	internal.HandleFunc("/debug/pprof/", pprof.Index)
	site := httptest.NewServer(internal) // or go http.ListenAndServe("localhost:6060", internal)
	defer site.Close()

	mu := client.Mutex("invoices:2026-11")
	mu.Lock()
	defer mu.Unlock()

	response, err := http.Get(site.URL + "/debug/redimutex?format=json")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status, response.Header.Get("Content-Type"))
	// Output: 200 OK application/json
}

// With only one port, put the page behind authentication. Use New to stop observing before the Client is closed.
func ExampleNew() {
	client := redimutex.NewClient([]redimutex.Pool{redisPool()})
	defer client.Close()
	page := debughttp.New(client)
	defer page.Close()

	operators := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") { // yours asks for more than that
				http.Error(w, "operators only", http.StatusUnauthorized)
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	site := httptest.NewServer(operators(page))
	defer site.Close()

	response, err := http.Get(site.URL)
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	fmt.Println(response.Status)
	// Output: 401 Unauthorized
}
