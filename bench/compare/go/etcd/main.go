// etcd - a worker of bench/compare: go.etcd.io/etcd/client/v3/concurrency, used as its own
// documentation shows.
//
// usage: etcd HOST:PORT NAME ID TTL-SECONDS COUNT
//
// bench/compare/run says what a worker prints. The token is the election's revision.
package main

import (
	"context"
	"os"
	"strconv"
	"time"

	"tenure/bench/compare/act"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

func campaign(ctx context.Context, worker *act.Worker, id string, ttl int) {
	client, err := clientv3.New(clientv3.Config{
		Endpoints: []string{worker.Address}, DialTimeout: 5 * time.Second, Logger: zap.NewNop()})
	if err != nil {
		worker.Fail(err)
	}
	for ctx.Err() == nil {
		session, err := concurrency.NewSession(client, concurrency.WithTTL(ttl))
		if err != nil {
			time.Sleep(100 * time.Millisecond)
			continue
		}
		election := concurrency.NewElection(session, worker.Name)
		worker.Say("wait", id, 0)
		if election.Campaign(ctx, id) != nil {
			session.Close()
			continue
		}
		token := uint64(election.Rev())
		leads := func() bool {
			select {
			case <-session.Done():
				return false
			default:
				return true
			}
		}
		worker.Lead(ctx, id, token, leads)
		if ctx.Err() != nil {
			worker.Say("resign", id, token)
			if election.Resign(context.Background()) == nil {
				session.Close()
			}
		}
	}
}

func main() {
	worker := act.New()
	ttl, _ := strconv.Atoi(os.Args[4])
	worker.Run(func(ctx context.Context, id string) { campaign(ctx, worker, id, ttl) })
}
