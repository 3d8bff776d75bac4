// redsync - a worker of bench/compare: github.com/go-redsync/redsync, extended at a third of the
// expiry, and trusted only until Until(), as its documentation advises.
//
// usage: redsync HOST:PORT NAME ID TTL-SECONDS COUNT
//
// bench/compare/run says what a worker prints. There is no token.
package main

import (
	"context"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"tenure/bench/compare/act"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
)

func campaign(ctx context.Context, worker *act.Worker, id string, ttl time.Duration) {
	connections := &redis.Pool{MaxIdle: 3, Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", worker.Address, redis.DialConnectTimeout(ttl))
	}}
	pool := redsync.New(redigo.NewPool(connections))
	worker.Say("wait", id, 0)
	for ctx.Err() == nil {
		mutex := pool.NewMutex(worker.Name, redsync.WithExpiry(ttl), redsync.WithTries(1<<30))
		if mutex.LockContext(ctx) != nil {
			continue
		}
		var until atomic.Int64
		until.Store(mutex.Until().UnixNano())
		done := make(chan struct{})
		go func() {
			for range time.Tick(ttl / 3) {
				select {
				case <-done:
					return
				default:
				}
				if ok, err := mutex.Extend(); err == nil && ok {
					until.Store(mutex.Until().UnixNano())
				}
			}
		}()
		worker.Lead(ctx, id, 0, func() bool { return time.Now().UnixNano() < until.Load() })
		close(done)
		if ctx.Err() != nil {
			worker.Say("resign", id, 0)
			mutex.Unlock()
		}
	}
}

func main() {
	worker := act.New()
	seconds, _ := strconv.Atoi(os.Args[4])
	worker.Run(func(ctx context.Context, id string) {
		campaign(ctx, worker, id, time.Duration(seconds)*time.Second)
	})
}
