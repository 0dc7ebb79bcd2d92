# Tools are pinned here and in .ci/run.
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TIME ?= 1m
# make man completion PREFIX=/usr/local puts them where the system looks.
PREFIX ?= .

.PHONY: help test race servers cover lint fuzz bench faults demo man completion ci

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

test: ## run the tests
	go test ./...

race: ## run the tests with the race detector
	go test -race ./...

servers: ## run tests and faults on each of REDIMUTEX_SERVERS, paths as in PATH
	@IFS=:; for server in $${REDIMUTEX_SERVERS:?names no servers}; do \
		export REDIMUTEX_SERVERS="$$server" && "$$server" --version && go test ./... && \
		(cd topologies && go test ./...) && (cd faults && go run .) || exit 1; done

cover: ## show the coverage of the root package, by function
	go test -coverprofile=cover.out .
	go tool cover -func=cover.out

lint: ## run the linters of .golangci.yml
	go run $(GOLANGCI) run ./...

fuzz: ## fuzz URLs, keys, options and arguments, each for TIME=1m
	for target in $$(grep -ho '^func Fuzz[A-Za-z]*' *_test.go | cut -c 6-); do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(TIME) . || exit 1; done
	for target in $$(grep -ho '^func Fuzz[A-Za-z]*' cmd/redimutex/internal/servers/*_test.go | cut -c 6-); do \
		go test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(TIME) ./cmd/redimutex/internal/servers || exit 1; done

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem .

faults: ## break servers, networks, clocks and processes for half an hour, and see what holds
	cd faults && go run . -long -time 30m

demo: ## see processes race, without a lock and with it
	go run ./cmd/redimutex demo

man: ## write the manual page to PREFIX/share
	mkdir -p $(PREFIX)/share/man/man1
	go run ./cmd/redimutex man >$(PREFIX)/share/man/man1/redimutex.1

completion: ## write the completion of bash, zsh and fish to PREFIX/share
	cd $(PREFIX) && mkdir -p share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d
	go run ./cmd/redimutex completion bash >$(PREFIX)/share/bash-completion/completions/redimutex
	go run ./cmd/redimutex completion zsh >$(PREFIX)/share/zsh/site-functions/_redimutex
	go run ./cmd/redimutex completion fish >$(PREFIX)/share/fish/vendor_completions.d/redimutex.fish

ci: ## all that has to pass
	bash .ci/run
