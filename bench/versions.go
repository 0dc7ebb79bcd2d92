package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const module = "github.com/redimutex/redimutex"

// makeVersions returns one version, whose workers are this program. If there is a commit to compare with, it returns two.
// Their workers are built in dir: with the library of the working tree, and with that of the commit. All else in them is
// from the working tree.
func makeVersions(ctx context.Context, commit, dir string) ([]*version, error) {
	if commit == "" {
		self, err := os.Executable()
		return []*version{{program: self}}, err
	}
	root, err := filepath.Abs("..")
	if err != nil {
		return nil, err
	}
	tree, err := command(ctx, nil, "git", "-C", root, "archive", "--format=tar", commit)
	if err != nil {
		return nil, err
	}
	old := filepath.Join(dir, "tree")
	if err := os.Mkdir(old, 0o755); err != nil {
		return nil, err
	}
	if _, err := command(ctx, tree, "tar", "-x", "-C", old); err != nil {
		return nil, err
	}
	after, err := build(ctx, filepath.Join(dir, "after"), root, root, "hand")
	if err != nil {
		return nil, err
	}
	before, err := build(ctx, filepath.Join(dir, "before"), root, old, "hand")
	if err != nil { // the commit may be older than the kinds of locks
		before, err = build(ctx, filepath.Join(dir, "before"), root, old, "hand,before")
	}
	return []*version{{name: "after", program: after}, {name: "before", program: before}}, err
}

// build builds the worker program with the library that is in a folder.
func build(ctx context.Context, program, root, library, tags string) (string, error) {
	for _, name := range []string{"go.mod", "go.sum"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(program+strings.TrimPrefix(name, "go"), text, 0o600); err != nil {
			return "", err
		}
	}
	if _, err := command(ctx, nil, "go", "mod", "edit", "-replace", module+"="+library,
		"-replace", module+"/internal/lab="+filepath.Join(root, "internal", "lab"), program+".mod"); err != nil {
		return "", err
	}
	_, err := command(ctx, nil, "go", "build", "-modfile", program+".mod", "-mod=mod", "-tags", tags, "-o", program, "./hand")
	return program, err
}

// command runs a program and returns what it printed.
func command(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	c := exec.CommandContext(ctx, name, args...)
	c.Stdin = bytes.NewReader(input)
	var trouble bytes.Buffer
	c.Stderr = &trouble
	output, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, &trouble)
	}
	return output, nil
}
