# Tools are pinned here and in .ci/run.
GOLANGCI = github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0
TIME ?= 1m

.PHONY: help test race cover lint fuzz bench demo ci

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-6s %s\n", $$1, $$2 }' Makefile

test: ## run the tests
	go test ./...

race: ## run the tests with the race detector
	go test -race ./...

cover: ## show the coverage of the root package, by function
	go test -coverprofile=cover.out .
	go tool cover -func=cover.out

lint: ## run the linters of .golangci.yml
	go run $(GOLANGCI) run ./...

fuzz: ## fuzz the URL parser for TIME=1m
	go test -run '^$$' -fuzz '^FuzzNewPool$$' -fuzztime $(TIME) .

bench: ## run the benchmarks
	go test -run '^$$' -bench . -benchmem .

demo: ## see processes race, without a lock and with it
	go run ./cmd/redimutex demo

ci: ## all that has to pass
	bash .ci/run
