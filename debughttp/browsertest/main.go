// Browsertest shows the debug page with a made-up process, or takes a picture of it for the documentation:
//
//	go run . -listen localhost:6060
//	go run . -picture ../../docs/debughttp.png
//
// Its tests look at the page with a real browser.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/redimutex/redimutex/debughttp"
)

func main() {
	listen := flag.String("listen", "localhost:0", "address to show the page at")
	picture := flag.String("picture", "", "take a picture of the page to this file, and end")
	width := flag.Int("width", 1100, "of the picture, in pixels")
	height := flag.Int("height", 800, "of the picture, in pixels")
	dark := flag.Bool("dark", false, "take it in the dark")
	flag.Parse()
	if err := run(*listen, *picture, *width, *height, *dark); err != nil {
		fmt.Fprintln(os.Stderr, "browsertest:", err)
		os.Exit(1)
	}
}

func run(listen, picture string, width, height int, dark bool) error {
	s := newScene()
	defer s.close()
	os.Args[0] = "billing" // the program that the page shows
	page := debughttp.New(s.client)
	if err := s.play(); err != nil {
		return err
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	site := &http.Server{Handler: page, ReadHeaderTimeout: 10 * time.Second}
	if picture == "" {
		fmt.Println("http://" + l.Addr().String())
		return site.Serve(l)
	}
	defer site.Close()
	go site.Serve(l) //nolint:errcheck // it ends by Close
	return take("http://"+l.Addr().String(), picture, width, height, dark)
}

// take makes a screenshot of the page when a lease is about to run out.
func take(url, file string, width, height int, dark bool) error {
	ctx, cancel, err := browse(context.Background())
	if err != nil {
		return err
	}
	defer cancel()
	ctx, stop := context.WithTimeout(ctx, time.Minute) // a machine that is too slow may miss the moment
	defer stop()
	if err := view(ctx, width, height, dark); err != nil {
		return err
	}
	if err := chromedp.Do(ctx, chromedp.Navigate(url), chromedp.WaitVisible(chromedp.CSS(".live tr.ending"))); err != nil {
		return err
	}
	png, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	if err != nil {
		return err
	}
	return os.WriteFile(file, png, 0o644)
}
