package tenure_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"tenure.example/tenure"
)

// The list that every binding passes, against SQLite, tenured and etcd.

func TestConformance(t *testing.T) {
	for kind, begin := range kinds {
		kind, begin := kind, begin
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := begin(t)
			t.Run("win", func(t *testing.T) { win(t, s) })
			t.Run("lose by pause", func(t *testing.T) { loseByPause(t, s) })
			t.Run("resign", func(t *testing.T) { resign(t, s) })
			t.Run("drain", func(t *testing.T) { drain(t, s) })
			t.Run("fence refused", func(t *testing.T) { fenceRefused(t, s) })
			t.Run("store gone", func(t *testing.T) { storeGone(t, s) })
		})
	}
}

func open(t *testing.T, url string, options *tenure.Options) *tenure.Session {
	t.Helper()
	if options == nil {
		options = &tenure.Options{TTL: ttl}
	}
	session, err := tenure.Open(url, options)
	must(t, err)
	t.Cleanup(func() { _ = session.Close() })
	return session
}

func lead(t *testing.T, s *tenure.Session, name string, fences ...tenure.Fence) *tenure.Term {
	t.Helper()
	term, err := s.Campaign(context.Background(), name,
		&tenure.CampaignOptions{Wait: time.Minute, Fences: fences})
	must(t, err)
	return term
}

// leadFails campaigns for a moment and must not win.
func leadFails(t *testing.T, s *tenure.Session, name string, wait time.Duration,
	fences ...tenure.Fence) error {
	t.Helper()
	term, err := s.Campaign(context.Background(), name,
		&tenure.CampaignOptions{Wait: wait, Fences: fences})
	if err == nil {
		t.Fatalf("there are two leaders: token %d", term.Token())
	}
	if !errors.Is(err, tenure.ErrNotAcquired) || !errors.Is(err, tenure.ErrNotHeld) ||
		!errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a wrong error: %v", err)
	}
	return err
}

// One leads, the other waits and follows with a higher token.
func win(t *testing.T, s store) {
	one, two := open(t, s.url(), &tenure.Options{TTL: ttl, ID: "first"}), open(t, s.url(), nil)
	term := lead(t, one, "win")
	if token := term.Token(); token == 0 || token != term.Number() {
		t.Fatalf("token %d, number %d", token, term.Number())
	}
	if left := term.Remaining(); left <= 0 || left > ttl {
		t.Fatalf("%v left", left)
	}
	if err := leadFails(t, two, "win", ttl*6/5); !strings.Contains(err.Error(), "first leads") {
		t.Error(err)
	}
	if err := term.Err(); err != nil {
		t.Fatalf("it was renewed meanwhile: %v", err)
	}
	must(t, term.Close())
	if term.Token() != 0 || term.Context().Err() == nil || term.Reason() != tenure.ReasonReleased {
		t.Fatalf("after Close: %v", term.Err())
	}
	if err := term.Err(); !errors.Is(err, tenure.ErrLost) || errors.Is(err, tenure.ErrExpired) {
		t.Fatalf("a wrong error: %v", err)
	}
	began := time.Now()
	later := lead(t, two, "win")
	if later.Token() <= term.Number() || term.Token() != 0 {
		t.Fatalf("%d after %d", later.Token(), term.Number())
	}
	if waited := time.Since(began); waited >= ttl {
		t.Errorf("the lease was given back, but took %v", waited)
	}
	must(t, later.Close())
}

// Stopped for three TTLs between check and write: the term is over, both writes are refused.
func loseByPause(t *testing.T, s store) {
	ctx := context.Background()
	path, db := database(t)
	journal := tenure.FileFence(filepath.Join(t.TempDir(), "journal"))
	must(t, os.WriteFile(string(journal), nil, 0o600))
	// No goroutine runs between the pause and the first statement after it: one processor, which
	// neither preemption nor a call of the system takes away. So what that statement learns is what
	// it looked up itself.
	worker := startWorker(t, "pause", "GODEBUG=asyncpreemptoff=1", s.url(), path, string(journal))
	var told said
	worker.hear(t, &told)
	old := told.Token
	until(t, "the worker stopped itself", worker.isStopped)
	end := time.Now().Add(3 * ttl)
	fence, err := tenure.NewSQLiteFence(ctx, db, "orders")
	must(t, err)
	term := lead(t, open(t, s.url(), nil), "pause", fence, journal)
	token := term.Token()
	if token <= old {
		t.Fatalf("token %d after %d", token, old)
	}
	must(t, fence.Tx(ctx, token, write(ctx, token, "second")))
	must(t, journal.Append(ctx, token, []byte("second\n")))
	until(t, "three TTLs", func() bool { return time.Now().After(end) })
	must(t, worker.command.Process.Signal(syscall.SIGCONT))
	told = said{}
	worker.hear(t, &told)
	must(t, worker.command.Wait())
	if err := term.Err(); err != nil {
		t.Errorf("the new leader was disturbed: %v", err)
	}
	must(t, term.Close())
	want := said{Cancelled: true, Selected: true, Reason: "expired", Refused: "sqlite file"}
	if told != want {
		t.Errorf("the worker said %+v, not %+v", told, want)
	}
	if all := writers(t, db); !reflect.DeepEqual(all, []string{"first", "second"}) {
		t.Errorf("rows of %v", all)
	}
	if text, err := os.ReadFile(string(journal)); err != nil || string(text) != "first\nsecond\n" {
		t.Errorf("the journal: %q, %v", text, err)
	}
}

// Resign cancels the context at once; the write under way keeps its token; the next one leads.
func resign(t *testing.T, s store) {
	term := lead(t, open(t, s.url(), nil), "resign")
	go term.Resign()
	<-term.Context().Done()
	if term.Token() != term.Number() {
		t.Error("the write under way lost its token")
	}
	if term.Reason() != tenure.ReasonReleased {
		t.Error(term.Err())
	}
	must(t, term.Close())
	later := lead(t, open(t, s.url(), nil), "resign")
	if later.Token() <= term.Number() {
		t.Errorf("%d after %d", later.Token(), term.Number())
	}
	must(t, later.Close())
}

// The lease is given back when the work has stopped, and not before.
func drain(t *testing.T, s store) {
	one := open(t, s.url(), &tenure.Options{TTL: 4 * ttl})
	two := open(t, s.url(), nil)
	ctx, cancel := context.WithCancel(context.Background())
	term, err := one.Campaign(ctx, "drain", &tenure.CampaignOptions{Wait: time.Minute})
	must(t, err)
	cancel()
	<-term.Context().Done()
	if err := term.Err(); !errors.Is(err, context.Canceled) || !errors.Is(err, tenure.ErrLost) {
		t.Errorf("a wrong error: %v", err)
	}
	leadFails(t, two, "drain", ttl/4)
	if term.Token() != term.Number() {
		t.Errorf("the term is valid while the work stops: %v, %v", term.Err(), one.Health())
	}
	must(t, term.Close())
	later := lead(t, two, "drain")
	if later.Token() <= term.Number() {
		t.Errorf("%d after %d", later.Token(), term.Number())
	}
	must(t, later.Close())
}

// A later leader's fence refuses an older token; without its fence there is no term.
func fenceRefused(t *testing.T, s store) {
	ctx := context.Background()
	_, db := database(t)
	fence, err := tenure.NewSQLiteFence(ctx, db, "orders")
	must(t, err)
	session := open(t, s.url(), nil)
	term := lead(t, session, "fence", fence)
	old := term.Token()
	must(t, term.Close())
	term = lead(t, session, "fence", fence)
	if highest, err := fence.Highest(ctx); err != nil || highest != term.Token() || highest <= old {
		t.Fatalf("the fence stands at %d: %v", highest, err)
	}
	err = fence.Tx(ctx, old, write(ctx, old, "late"))
	if !errors.Is(err, tenure.ErrStale) || errors.Is(err, tenure.ErrOutcomeUnknown) {
		t.Errorf("a wrong error: %v", err)
	}
	// In a transaction of the caller's own.
	tx, err := db.Begin()
	must(t, err)
	if err := fence.Admit(ctx, tx, old); !errors.Is(err, tenure.ErrStale) {
		t.Errorf("a wrong error: %v", err)
	}
	must(t, tx.Rollback())
	must(t, term.Close())
	missing := tenure.URLFence("sqlite:" + filepath.Join(t.TempDir(), "misspelt.db") + "#orders")
	if err := leadFails(t, session, "fence", ttl, missing); !strings.Contains(err.Error(),
		"misspelt.db") {
		t.Error(err)
	}
	// A fence that stands higher than the store's tokens: the store went back.
	must(t, fence.Raise(ctx, 1<<63))
	if _, err := session.Campaign(ctx, "fence", &tenure.CampaignOptions{
		Wait: time.Minute, Fences: []tenure.Fence{fence},
	}); !errors.Is(err, tenure.ErrStale) {
		t.Errorf("a wrong error: %v", err)
	}
	if all := writers(t, db); len(all) != 0 {
		t.Errorf("rows of %v", all)
	}
}

// The context ends before the deadline and the token at the deadline, not later; the name can be
// won again when the store is back.
func storeGone(t *testing.T, s store) {
	session := open(t, s.url(), nil)
	term := lead(t, session, "gone")
	s.kill(t)
	killed := true
	defer func() {
		if killed {
			s.again(t)
		}
	}()
	began := time.Now()
	<-term.Context().Done()
	left, token := term.Remaining(), term.Token()
	if waited := time.Since(began); waited >= ttl {
		t.Errorf("cancelled after %v", waited)
	}
	// Before the deadline, while the token is still valid: the work has the grace to stop.
	if left <= 0 || left > ttl/5 {
		t.Errorf("cancelled %v before the deadline, token %d", left, token)
	}
	t.Logf("cancelled %v before the deadline", left)
	until(t, "the token is 0", func() bool { return term.Token() == 0 })
	if waited := time.Since(began); waited >= ttl {
		t.Errorf("over after %v", waited)
	}
	if err := term.Err(); !errors.Is(err, tenure.ErrExpired) || !errors.Is(err, tenure.ErrLost) {
		t.Errorf("a wrong error: %v", err)
	}
	until(t, "the session is not healthy", func() bool { return session.Health() != nil })
	leadFails(t, session, "gone-other", ttl/10)
	killed = false
	s.again(t)
	_ = term.Close()
	later := lead(t, session, "gone")
	if later.Token() <= term.Number() {
		t.Errorf("%d after %d", later.Token(), term.Number())
	}
	must(t, session.Health())
	must(t, later.Close())
}

// --- The processes that the tests start ----------------------------------------------------------

type said struct {
	Token     uint64
	Cancelled bool // The context says so, the first statement after the pause.
	Selected  bool // And so does a select on Done.
	Reason    string
	Refused   string
}

type worker struct {
	command *exec.Cmd
	lines   *bufio.Scanner
}

func startWorker(t *testing.T, mode, setting string, arguments ...string) *worker {
	command := exec.Command(os.Args[0], arguments...)
	command.Env = append(os.Environ(), "TENURE_GO_WORKER="+mode, setting)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	pipe, err := command.StdoutPipe()
	must(t, err)
	must(t, command.Start())
	t.Cleanup(func() { _ = command.Process.Kill() })
	return &worker{command, bufio.NewScanner(pipe)}
}

func (w *worker) hear(t *testing.T, what interface{}) {
	t.Helper()
	if !w.lines.Scan() {
		t.Fatalf("the worker said nothing: %v", w.lines.Err())
	}
	must(t, json.Unmarshal(w.lines.Bytes(), what))
}

func (w *worker) isStopped() bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.command.Process.Pid))
	after := stat[strings.LastIndexByte(string(stat), ')')+1:]
	return err == nil && strings.Fields(string(after))[0] == "T"
}

func TestMain(m *testing.M) {
	work := pause
	switch os.Getenv("TENURE_GO_WORKER") {
	case "":
		os.Exit(m.Run())
	case "elections":
		work = elections
	}
	if err := work(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, "worker:", err)
		os.Exit(1)
	}
}

// pause wins, and stops itself between the check and the write.
func pause(url, path, file string) error {
	ctx := context.Background()
	db, err := sql.Open("sqlite-test", path)
	if err != nil {
		return err
	}
	fence, err := tenure.NewSQLiteFence(ctx, db, "orders")
	if err != nil {
		return err
	}
	journal := tenure.FileFence(file)
	session, err := tenure.Open(url, &tenure.Options{TTL: ttl})
	if err != nil {
		return err
	}
	term, err := session.Campaign(ctx, "pause", &tenure.CampaignOptions{
		Wait: time.Minute, Fences: []tenure.Fence{fence, journal},
	})
	if err != nil {
		return err
	}
	token := term.Token()
	if err := fence.Tx(ctx, token, write(ctx, token, "first")); err != nil {
		return err
	}
	if err := journal.Append(ctx, token, []byte("first\n")); err != nil {
		return err
	}
	output := json.NewEncoder(os.Stdout)
	if err := output.Encode(said{Token: token}); err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	before := time.Now()
	_, _, errno := syscall.RawSyscall(syscall.SYS_KILL, uintptr(os.Getpid()),
		uintptr(syscall.SIGSTOP), 0)
	if errno != 0 {
		return errno
	}
	// kill may return before the signal has stopped this thread. The loop does not ask Tenure.
	for time.Since(before) < ttl {
	}
	// The first statements after the pause.
	told := said{Cancelled: term.Context().Err() != nil}
	told.Token = term.Token()
	select {
	case <-term.Context().Done():
		told.Selected = true
	default:
	}
	var refused []string
	if errors.Is(fence.Tx(ctx, token, write(ctx, token, "late")), tenure.ErrStale) {
		refused = append(refused, "sqlite")
	}
	if errors.Is(journal.Append(ctx, token, []byte("late\n")), tenure.ErrStale) {
		refused = append(refused, "file")
	}
	told.Refused, told.Reason = strings.Join(refused, " "), string(term.Reason())
	if err := output.Encode(told); err != nil {
		return err
	}
	_ = term.Close()
	return session.Close()
}
