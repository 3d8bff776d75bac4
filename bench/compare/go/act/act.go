// Package act is what the Go workers of bench/compare share: the arguments, and the lines that a
// leader writes.
package act

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// Worker is one process with one candidate or several.
type Worker struct {
	Address, Name, id string
	count             int
}

// New reads the arguments HOST:PORT NAME ID TTL COUNT.
func New() *Worker {
	if len(os.Args) != 6 {
		fmt.Fprintln(os.Stderr, "usage: HOST:PORT NAME ID TTL COUNT")
		os.Exit(64)
	}
	count, _ := strconv.Atoi(os.Args[5])
	return &Worker{os.Args[1], os.Args[2], os.Args[3], count}
}

// Say writes one line in one piece: several processes share the pipe.
func (w *Worker) Say(word, id string, token uint64) {
	os.Stdout.WriteString(fmt.Sprintf("%s %s %d %d\n", word, id, token, time.Now().UnixNano()))
}

// Fail ends the process.
func (w *Worker) Fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Lead acts every 5 ms while leads says so.
func (w *Worker) Lead(ctx context.Context, id string, token uint64, leads func() bool) {
	for ctx.Err() == nil && leads() {
		w.Say("act", id, token)
		time.Sleep(5 * time.Millisecond)
	}
}

// Run starts the candidates, and cancels their context at SIGTERM.
func (w *Worker) Run(campaign func(context.Context, string)) {
	var all sync.WaitGroup
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	for i := 0; i < w.count; i++ {
		id := w.id
		if w.count > 1 {
			id = fmt.Sprintf("%s%d", w.id, i)
		}
		all.Add(1)
		go func() {
			defer all.Done()
			campaign(ctx, id)
		}()
	}
	all.Wait()
}
