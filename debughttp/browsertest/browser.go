package main

import (
	"context"
	"errors"
	"os/exec"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

var errNoBrowser = errors.New("needs a Chromium or Chrome on the PATH")

// installed returns the path of a browser.
func installed() (string, error) {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errNoBrowser
}

// browse starts a browser with an empty profile that reaches only this machine, and returns the function that ends it.
func browse(parent context.Context) (context.Context, context.CancelFunc, error) {
	path, err := installed()
	if err != nil {
		return nil, nil, err
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(path),
		chromedp.NoSandbox, // it sees only this program's page, and may run as root
		chromedp.DisableGPU,
		chromedp.Flag("disable-quic", true),
		chromedp.Flag("disable-component-update", true),
		chromedp.Flag("host-resolver-rules", "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost"),
		chromedp.WSURLReadTimeout(2*time.Minute), // on a busy machine it starts slowly
	)
	allocator, end := chromedp.NewExecAllocator(parent, opts...)
	ctx, closeTab := chromedp.NewContext(allocator)
	return ctx, func() { closeTab(); end() }, nil
}

// view sets the size of the window, and the user's preference for dark or light.
func view(ctx context.Context, width, height int, dark bool) error {
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	_, err := chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		return err
	}
	return chromedp.Do(ctx, chromedp.EmulateViewport(int64(width), int64(height)))
}
