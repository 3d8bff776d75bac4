// elector.go - client-go's leader election as controllers use it, for mixed elections.
//
//	elector -kubeconfig FILE -namespace NS -lease NAME -id ID -acts FILE [-hold 300ms] [-terms 10]
//
// While it leads it appends lines "NANOSECONDS ID TERM" to the file of acts; after -hold it gives
// the Lease back as client-go does and campaigns again, -terms times (0: until it is ended).
// With -stuck it leads until it is killed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "")
	namespace := flag.String("namespace", "default", "")
	lease := flag.String("lease", "", "")
	id := flag.String("id", "", "")
	acts := flag.String("acts", "/dev/stdout", "")
	hold := flag.Duration("hold", 300*time.Millisecond, "")
	pause := flag.Duration("pause", 100*time.Millisecond, "")
	terms := flag.Int("terms", 0, "")
	stuck := flag.Bool("stuck", false, "")
	duration := flag.Duration("duration", 4*time.Second, "")
	renew := flag.Duration("renew", 3*time.Second, "")
	retry := flag.Duration("retry", 200*time.Millisecond, "")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	config.QPS, config.Burst = 100, 100
	client := kubernetes.NewForConfigOrDie(config)
	out, err := os.OpenFile(*acts, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	lock := &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Name: *lease, Namespace: *namespace},
		Client:     client.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: *id},
	}
	for term := 1; *terms == 0 || term <= *terms; term++ {
		ctx, cancel := context.WithCancel(context.Background())
		worked := make(chan struct{})
		leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock:            lock,
			ReleaseOnCancel: true,
			LeaseDuration:   *duration,
			RenewDeadline:   *renew,
			RetryPeriod:     *retry,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(leading context.Context) {
					defer close(worked)
					until := time.Now().Add(*hold)
					for leading.Err() == nil && (*stuck || time.Now().Before(until)) {
						fmt.Fprintf(out, "%d %s %d\n", time.Now().UnixNano(), *id, term)
						time.Sleep(20 * time.Millisecond)
					}
					cancel() // The work has stopped; now the Lease may go.
				},
				OnStoppedLeading: func() {},
			},
		})
		<-worked
		cancel()
		time.Sleep(*pause)
	}
}
