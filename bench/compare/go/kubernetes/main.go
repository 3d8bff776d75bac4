// kubernetes - a worker of bench/compare: client-go's leaderelection, with the proportions of its
// defaults (15 s, 10 s, 2 s), and the work stopped before the Lease is given back.
//
// usage: kubernetes KUBECONFIG NAME ID TTL-SECONDS COUNT
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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// term campaigns until a term ends, or the context before there is one.
func term(ctx context.Context, worker *act.Worker, id string, ttl time.Duration,
	client *kubernetes.Clientset) {
	election, cancel := context.WithCancel(context.Background())
	defer cancel()
	var leads atomic.Bool
	// A leader stops its work first: OnStartedLeading cancels then.
	defer context.AfterFunc(ctx, func() {
		if !leads.Load() {
			cancel()
		}
	})()
	leaderelection.RunOrDie(election, leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: worker.Name, Namespace: "default"},
			Client:     client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: id},
		},
		ReleaseOnCancel: true,
		LeaseDuration:   ttl,
		RenewDeadline:   ttl * 2 / 3,
		RetryPeriod:     ttl * 2 / 15,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) {
				leads.Store(true)
				worker.Lead(ctx, id, 0, func() bool { return leading.Err() == nil })
				if ctx.Err() != nil {
					worker.Say("resign", id, 0)
				}
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
}

func campaign(ctx context.Context, worker *act.Worker, id string, ttl time.Duration) {
	config, err := clientcmd.BuildConfigFromFlags("", worker.Address)
	if err != nil {
		worker.Fail(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		worker.Fail(err)
	}
	worker.Say("wait", id, 0)
	for ctx.Err() == nil {
		term(ctx, worker, id, ttl, client)
	}
}

func main() {
	worker := act.New()
	seconds, _ := strconv.Atoi(os.Args[4])
	worker.Run(func(ctx context.Context, id string) {
		campaign(ctx, worker, id, time.Duration(seconds)*time.Second)
	})
}
