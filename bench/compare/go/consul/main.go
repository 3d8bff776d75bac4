// consul - a worker of bench/compare: Consul's own api.Lock, which `consul lock` is made of.
//
// usage: consul HOST:PORT NAME ID TTL-SECONDS COUNT
//
// bench/compare/run says what a worker prints. There is no token.
package main

import (
	"context"
	"os"
	"time"

	"tenure/bench/compare/act"

	"github.com/hashicorp/consul/api"
)

func campaign(ctx context.Context, worker *act.Worker, id, ttl string) {
	client, err := api.NewClient(&api.Config{Address: worker.Address})
	if err != nil {
		worker.Fail(err)
	}
	worker.Say("wait", id, 0)
	for ctx.Err() == nil {
		lock, err := client.LockOpts(&api.LockOptions{Key: "c/" + worker.Name, SessionTTL: ttl})
		if err != nil {
			worker.Fail(err)
		}
		lost, err := lock.Lock(ctx.Done())
		if err != nil || lost == nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		leads := func() bool {
			select {
			case <-lost:
				return false
			default:
				return true
			}
		}
		worker.Lead(ctx, id, 0, leads)
		if ctx.Err() != nil {
			worker.Say("resign", id, 0)
		}
		lock.Unlock()
	}
}

func main() {
	worker := act.New()
	worker.Run(func(ctx context.Context, id string) { campaign(ctx, worker, id, os.Args[4]+"s") })
}
