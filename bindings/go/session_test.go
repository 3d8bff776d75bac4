package tenure_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"tenure.example/tenure"
	"tenure.example/tenure/internal/heap"
)

// TENURE_GO_ELECTIONS is how many elections one process holds in the tests of that name.
func electionCount(t *testing.T) int {
	text := os.Getenv("TENURE_GO_ELECTIONS")
	if text == "" {
		return 10000
	}
	count, err := strconv.Atoi(text)
	must(t, err)
	return count
}

func storeURL(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "store.db") }

func memoryURL(t *testing.T) string { return "memory:" + t.Name() }

// What the heap of C may grow by: caches and queues.
const growth = 64 << 10

// count is what a process that held many elections says of itself.
type count struct {
	Terms int
	C, Go int // Bytes allocated more than after a third of the elections.
}

func (c count) hasGrown() bool { return c.C > growth || c.Go > 32*growth }

func holdElections(t *testing.T, terms, leak int) count {
	worker := startWorker(t, "elections", "MALLOC_ARENA_MAX=1", memoryURL(t), strconv.Itoa(terms),
		strconv.Itoa(leak))
	var told count
	worker.hear(t, &told)
	must(t, worker.command.Wait())
	if told.Terms != terms {
		t.Errorf("%d terms, not %d", told.Terms, terms)
	}
	t.Logf("%+v", told)
	return told
}

// Term after term in one process: tokens rise, nothing is left behind.
func TestManyElections(t *testing.T) {
	if told := holdElections(t, electionCount(t), 0); told.hasGrown() {
		t.Errorf("it has grown: %+v", told)
	}
}

// The same with a few bytes lost in each term.
func TestLeakIsFound(t *testing.T) {
	terms := electionCount(t) / 10
	if told := holdElections(t, terms, 3*growth/terms); !told.hasGrown() {
		t.Errorf("nobody has noticed: %+v", told)
	}
}

// elections is the worker's part: term after term, with so many bytes lost in each.
func elections(url, terms, leak string) error {
	session, err := tenure.Open(url, &tenure.Options{TTL: 20 * time.Second})
	if err != nil {
		return err
	}
	told := count{}
	if told.Terms, err = strconv.Atoi(terms); err != nil {
		return err
	}
	lost, err := strconv.Atoi(leak)
	if err != nil {
		return err
	}
	last := uint64(0)
	var inC, inGo int
	for i := 0; i < told.Terms; i++ {
		term, err := session.Campaign(context.Background(), fmt.Sprintf("name-%d", i%7),
			&tenure.CampaignOptions{Wait: time.Minute})
		if err != nil {
			return err
		}
		if term.Number() <= last {
			return fmt.Errorf("token %d after %d", term.Number(), last)
		}
		last = term.Number()
		if err := term.Close(); err != nil {
			return err
		}
		if lost != 0 {
			heap.Lose(lost)
		}
		if i == told.Terms/3 {
			inC, inGo = heap.InUse(), goHeap()
		}
	}
	told.C, told.Go = heap.InUse()-inC, goHeap()-inGo
	if err := json.NewEncoder(os.Stdout).Encode(told); err != nil {
		return err
	}
	return session.Close()
}

func goHeap() int {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

// Many names in one session, all led at the same time.
func TestManyAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	session := open(t, memoryURL(t), &tenure.Options{TTL: 30 * time.Second})
	var group sync.WaitGroup
	count := electionCount(t)
	terms := make([]*tenure.Term, count)
	for i := range terms {
		i := i
		group.Add(1)
		go func() {
			defer group.Done()
			term, err := session.Campaign(context.Background(), fmt.Sprintf("name-%d", i),
				&tenure.CampaignOptions{Wait: 2 * time.Minute})
			if err != nil {
				t.Error(err)
				return
			}
			terms[i] = term
		}()
	}
	group.Wait()
	if t.Failed() {
		return
	}
	for i, term := range terms {
		if term.Token() == 0 {
			t.Fatalf("name-%d: %v", i, term.Err())
		}
	}
	for i, term := range terms {
		if i%2 == 0 { // Close ends the others.
			must(t, term.Close())
		}
	}
	go func() { // The work of the others stops when it is asked to.
		for i := 1; i < count; i += 2 {
			<-terms[i].Context().Done()
			_ = terms[i].Close()
		}
	}()
	must(t, session.Close())
	for i, term := range terms {
		if term.Token() != 0 || term.Context().Err() == nil {
			t.Fatalf("name-%d is valid after Close", i)
		}
	}
	until(t, "no goroutine is left", func() bool { return runtime.NumGoroutine() <= before+5 })
}

// Goroutines ask for the token and the context while another one ends the term.
func TestAskWhileClosing(t *testing.T) {
	session := open(t, memoryURL(t), &tenure.Options{TTL: 10 * time.Second})
	for i := 0; i < 50; i++ {
		term := lead(t, session, "report")
		var group sync.WaitGroup
		for j := 0; j < 4; j++ {
			group.Add(1)
			go func() {
				defer group.Done()
				for term.Context().Err() == nil {
					_, _, _ = term.Token(), term.Remaining(), term.Err()
					term.CheckIn()
				}
				if term.Token() != 0 && term.Reason() == tenure.ReasonNone {
					t.Error("cancelled without a reason")
				}
			}()
		}
		must(t, term.Close())
		group.Wait()
	}
}

// A session that closes waits for work that stops when it is asked to, and not for ever.
func TestCloseWithOpenTerm(t *testing.T) {
	url := storeURL(t)
	session := open(t, url, &tenure.Options{TTL: 5 * time.Second, Grace: 500 * time.Millisecond})
	term := lead(t, session, "polite")
	stubborn := lead(t, session, "stubborn")
	stopped := make(chan struct{})
	go func() {
		<-term.Context().Done()
		close(stopped)
		_ = term.Close()
	}()
	must(t, session.Close())
	select {
	case <-stopped:
	default:
		t.Error("Close did not wait for the work")
	}
	if err := stubborn.Err(); !errors.Is(err, tenure.ErrClosed) || stubborn.Token() != 0 {
		t.Errorf("after Close: %v", err)
	}
	must(t, stubborn.Close())
	must(t, session.Close())
	if _, err := session.Campaign(context.Background(), "report", nil); !errors.Is(err,
		tenure.ErrClosed) {
		t.Errorf("a wrong error: %v", err)
	}
	if err := session.Health(); !errors.Is(err, tenure.ErrClosed) || session.Warning() != "" {
		t.Errorf("a wrong error: %v", err)
	}
}

// Close of the session ends a wait.
func TestCloseWhileWaiting(t *testing.T) {
	url := storeURL(t)
	one, two := open(t, url, nil), open(t, url, nil)
	term := lead(t, one, "report")
	result := make(chan error, 1)
	go func() {
		_, err := two.Campaign(context.Background(), "report", nil)
		result <- err
	}()
	leaders, err := two.Observe(context.Background(), "report")
	must(t, err)
	if leader := <-leaders; leader.Token != term.Number() || leader.Vacant || leader.ID == "" {
		t.Errorf("the leader is %+v", leader)
	}
	must(t, two.Close())
	if err := <-result; !errors.Is(err, tenure.ErrClosed) {
		t.Errorf("a wrong error: %v", err)
	}
	for range leaders { // Ends: the channel is closed.
	}
	must(t, term.Close())
}

func TestObserve(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	session := open(t, storeURL(t), &tenure.Options{TTL: ttl, ID: "me"})
	leaders, err := session.Observe(ctx, "report")
	must(t, err)
	term := lead(t, session, "report")
	for leader := range leaders {
		if leader.ID == "me" && leader.Token == term.Number() {
			break
		}
	}
	must(t, term.Close())
	for leader := range leaders {
		if leader.Vacant {
			break
		}
	}
	cancel()
	for range leaders {
	}
}

// Without CheckIn the term ends, although renewals go on.
func TestStalled(t *testing.T) {
	session := open(t, storeURL(t), &tenure.Options{TTL: 5 * time.Second})
	term, err := session.Campaign(context.Background(), "report",
		&tenure.CampaignOptions{Wait: time.Minute, StallAfter: time.Second})
	must(t, err)
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
		time.Sleep(50 * time.Millisecond)
		term.CheckIn()
	}
	must(t, term.Err())
	<-term.Context().Done()
	until(t, "the reason", func() bool { return term.Reason() == tenure.ReasonStalled })
	must(t, term.Close())
}

// A derived context hears of the end, too; values of the caller's context are there.
func TestDerivedContext(t *testing.T) {
	type key struct{}
	session := open(t, memoryURL(t), &tenure.Options{TTL: 10 * time.Second})
	parent := context.WithValue(context.Background(), key{}, "value")
	term, err := session.Campaign(parent, "report", nil)
	must(t, err)
	child, cancel := context.WithTimeout(term.Context(), time.Minute)
	defer cancel()
	if child.Value(key{}) != "value" {
		t.Error("the values of the caller are lost")
	}
	term.Resign()
	<-child.Done()
	if child.Err() != context.Canceled {
		t.Error(child.Err())
	}
	must(t, term.Close())
	must(t, term.Close())
}

func TestBadInput(t *testing.T) {
	ctx := context.Background()
	for _, url := range []string{"nowhere:x", "sqlite:a\x00b"} {
		if _, err := tenure.Open(url, nil); !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%q: a wrong error: %v", url, err)
		}
	}
	_, err := tenure.Open(storeURL(t), &tenure.Options{TTL: time.Millisecond})
	if !errors.Is(err, tenure.ErrInvalid) || !strings.Contains(err.Error(), "from 1s to 24h") {
		t.Errorf("a wrong error: %v", err)
	}
	session := open(t, memoryURL(t), nil)
	for _, name := range []string{"", "a//b", "a\x00b"} {
		if _, err := session.Campaign(ctx, name, nil); !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%q: a wrong error: %v", name, err)
		}
		if _, err := session.Observe(ctx, name); !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%q: a wrong error: %v", name, err)
		}
	}
	if _, err := session.Observe(ctx, "a//b"); !strings.Contains(err.Error(), "empty segment") {
		t.Errorf("it does not say why: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	_, err = session.Campaign(over, "report", nil)
	if !errors.Is(err, tenure.ErrNotAcquired) || !errors.Is(err, context.Canceled) {
		t.Errorf("a wrong error: %v", err)
	}
	_, err = session.Campaign(ctx, "report", &tenure.CampaignOptions{
		Fences: []tenure.Fence{tenure.URLFence("nowhere")},
	})
	if !errors.Is(err, tenure.ErrInvalid) {
		t.Errorf("a wrong error: %v", err)
	}
}

// The sentinels have the codes and the texts of tenure/error.h, all of them.
func TestErrors(t *testing.T) {
	header, err := os.ReadFile("../../include/tenure/error.h")
	must(t, err)
	sentinels := []error{
		tenure.ErrInvalid, tenure.ErrConflict, tenure.ErrStale, tenure.ErrTimeout,
		tenure.ErrUnavailable, tenure.ErrExpired, tenure.ErrNotHeld, tenure.ErrDenied,
		tenure.ErrFull, tenure.ErrDamaged, tenure.ErrNoMemory, tenure.ErrClosed,
		tenure.ErrUnsupported,
	}
	table := regexp.MustCompile(`X\([A-Z_]+, (-\d+), ([A-Z]+), +"([^"]+)"\)`).
		FindAllStringSubmatch(string(header), -1)
	if len(table) != len(sentinels) {
		t.Fatalf("%d codes, %d sentinels", len(table), len(sentinels))
	}
	for i, row := range table {
		code, err := strconv.Atoi(row[1])
		must(t, err)
		failure := &tenure.Error{Code: code}
		for j, sentinel := range sentinels {
			if errors.Is(failure, sentinel) != (i == j) {
				t.Errorf("code %d and %v", code, sentinel)
			}
		}
		if errors.Is(failure, tenure.ErrOutcomeUnknown) != (row[2] == "UNKNOWN") {
			t.Errorf("code %d is %s", code, row[2])
		}
		if !strings.HasSuffix(sentinels[i].Error(), row[3]) {
			t.Errorf("%q is not %q", sentinels[i], row[3])
		}
	}
	if tenure.Version() == "" {
		t.Error("no version")
	}
}

func BenchmarkToken(b *testing.B) {
	session, err := tenure.Open("memory:bench", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = session.Close() }()
	term, err := session.Campaign(context.Background(), "report", nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := 0; i < b.N; i++ {
		if term.Token() == 0 {
			b.Fatal(term.Err())
		}
	}
	_ = term.Close()
}
