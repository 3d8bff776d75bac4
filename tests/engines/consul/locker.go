// locker.go - Consul's own api.Lock as programs use it, for mixed elections.
//
//	locker -address HOST:PORT -key KEY -id ID -acts FILE [-hold 50ms] [-pause 0s] [-terms 10]
//	    [-ttl 10s]
//
// In each term it appends "NANOSECONDS begin ID" and "NANOSECONDS end ID" to the file of acts. With
// -stuck it never unlocks, and goes on appending "NANOSECONDS act ID" until it is killed, whether
// the lock is lost or not: as work does that does not look at the channel.
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/consul/api"
)

func main() {
	address := flag.String("address", "127.0.0.1:8500", "")
	key := flag.String("key", "", "")
	id := flag.String("id", "", "")
	acts := flag.String("acts", "/dev/stdout", "")
	hold := flag.Duration("hold", 50*time.Millisecond, "")
	pause := flag.Duration("pause", 0, "")
	terms := flag.Int("terms", 1, "")
	ttl := flag.String("ttl", "10s", "")
	stuck := flag.Bool("stuck", false, "")
	flag.Parse()

	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	out, err := os.OpenFile(*acts, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
	fail(err)
	client, err := api.NewClient(&api.Config{Address: *address})
	fail(err)
	say := func(word string) { fmt.Fprintf(out, "%d %s %s\n", time.Now().UnixNano(), word, *id) }
	for term := 0; term < *terms; term++ {
		lock, err := client.LockOpts(&api.LockOptions{Key: *key, SessionTTL: *ttl})
		fail(err)
		_, err = lock.Lock(nil)
		fail(err)
		say("begin")
		for *stuck {
			say("act")
			time.Sleep(20 * time.Millisecond)
		}
		time.Sleep(*hold)
		say("end")
		fail(lock.Unlock())
		time.Sleep(*pause)
	}
}
