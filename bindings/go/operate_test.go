package tenure_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"tenure.example/tenure"
)

// command runs the command of the same build and returns what it prints.
func command(t *testing.T, words ...string) string {
	t.Helper()
	told, _ := exec.Command(filepath.Join(buildDir(), "tenure"), words...).Output()
	return string(told)
}

// bootTime is the clock of Term.Proven.
func bootTime(t *testing.T) time.Duration {
	text, err := os.ReadFile("/proc/uptime")
	must(t, err)
	seconds, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64)
	must(t, err)
	return time.Duration(seconds * float64(time.Second)).Round(10 * time.Millisecond)
}

// waits reports whether somebody waits for name at the level of priority, as the store has it.
func waits(t *testing.T, url, name string, level int) bool {
	lease := "~tenure/priority/" + strconv.Itoa(level) + "/" + name
	return strings.Contains(command(t, "status", "-s", url, lease), ": held")
}

// A leader that yields is asked to stop when a higher one waits, and the higher one leads.
func TestYield(t *testing.T) {
	url, ctx := storeURL(t), context.Background()
	low := open(t, url, &tenure.Options{TTL: 3 * time.Second})
	high := open(t, url, &tenure.Options{TTL: 3 * time.Second})
	first, err := low.Campaign(ctx, "job",
		&tenure.CampaignOptions{Priority: 2, Yield: true, Wait: time.Minute})
	must(t, err)
	stays, err := low.Campaign(ctx, "stays",
		&tenure.CampaignOptions{Priority: 2, Wait: time.Minute})
	must(t, err)
	defer stays.Close()
	won := make(chan *tenure.Term)
	go func() {
		term, err := high.Campaign(ctx, "job",
			&tenure.CampaignOptions{Priority: 8, Wait: time.Minute})
		if err != nil {
			t.Error(err)
		}
		won <- term
	}()
	waiting, cancel := context.WithCancel(ctx)
	gone := make(chan error)
	go func() {
		_, err := high.Campaign(waiting, "stays", &tenure.CampaignOptions{Priority: 8})
		gone <- err
	}()
	<-first.Context().Done()
	var lost *tenure.LostError
	if !errors.As(first.Err(), &lost) || lost.Reason != tenure.ReasonAsked ||
		lost.Detail != "yield" {
		t.Errorf("asked to stop by %v", first.Err())
	}
	if first.Token() == 0 {
		t.Error("the term is over before its work has stopped")
	}
	must(t, first.Close())
	if term := <-won; term != nil {
		must(t, term.Close())
	}
	until(t, "a higher one waits", func() bool { return waits(t, url, "stays", 8) })
	if stays.Err() != nil {
		t.Errorf("a leader that does not yield: %v", stays.Err())
	}
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Two lead a semaphore of two at the same time, a third one waits.
func TestSlots(t *testing.T) {
	url, ctx := storeURL(t), context.Background()
	s := open(t, url, &tenure.Options{TTL: 3 * time.Second})
	other := open(t, url, &tenure.Options{TTL: 3 * time.Second})
	third := open(t, url, &tenure.Options{TTL: 3 * time.Second})
	options := &tenure.CampaignOptions{Slots: 2, Wait: time.Minute}
	one, err := s.Campaign(ctx, "pool", options)
	must(t, err)
	two, err := other.Campaign(ctx, "pool", options)
	must(t, err)
	if one.Token() == 0 || two.Token() == 0 || one.Token() == two.Token() ||
		one.Slot()+two.Slot() != 3 {
		t.Errorf("tokens %d and %d, slots %d and %d", one.Token(), two.Token(), one.Slot(),
			two.Slot())
	}
	_, err = third.Campaign(ctx, "pool", &tenure.CampaignOptions{Slots: 2, Wait: time.Second})
	if !errors.Is(err, tenure.ErrNotAcquired) {
		t.Errorf("a third one: %v", err)
	}
	must(t, two.Close())
	if two.Slot() != 0 {
		t.Error("a term that is over has a slot")
	}
	next, err := third.Campaign(ctx, "pool", options)
	must(t, err)
	if next.Token() <= two.Number() {
		t.Errorf("token %d behind %d", next.Token(), two.Number())
	}
	must(t, next.Close())
	must(t, one.Close())
	for _, wrong := range []tenure.CampaignOptions{{Slots: 65}, {Priority: 10},
		{Slots: 2, Priority: 1}} {
		if _, err := s.Campaign(ctx, "pool", &wrong); !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}

// A term that was taken away says up to when it was proven.
func TestProven(t *testing.T) {
	url := storeURL(t)
	began := bootTime(t)
	s := open(t, url, &tenure.Options{TTL: 3 * time.Second})
	term := lead(t, s, "job")
	if term.Proven() != 0 {
		t.Error("it is not over")
	}
	command(t, "revoke", "-s", url, "job")
	<-term.Context().Done()
	until(t, "the end is reported", func() bool { return term.Proven() != 0 })
	if term.Reason() != tenure.ReasonRevoked {
		t.Error(term.Reason())
	}
	if proven := term.Proven(); proven < began-10*time.Millisecond ||
		proven > bootTime(t)+10*time.Millisecond {
		t.Errorf("proven until %v, began at %v, now %v", proven, began, bootTime(t))
	}
	must(t, term.Close())
}

// The store keeps the lease for the hold-off longer.
func TestHoldOff(t *testing.T) {
	for _, holdOff := range []time.Duration{0, 5 * time.Second} {
		url := storeURL(t)
		s := open(t, url, &tenure.Options{TTL: 3 * time.Second, HoldOff: holdOff})
		term := lead(t, s, "job")
		_, text, _ := strings.Cut(command(t, "status", "-s", url, "--json", "job"), `"ttl_ms":`)
		text, _, _ = strings.Cut(text, ",")
		ttl, err := strconv.Atoi(text)
		must(t, err)
		if least := 3000 + int(holdOff.Milliseconds()); ttl < least || holdOff == 0 && ttl != least {
			t.Errorf("hold-off %v: %d ms", holdOff, ttl)
		}
		must(t, term.Close())
	}
}

// A leader that is stopped gives way at the soft limit, before its TTL is over.
func TestSoftLimit(t *testing.T) {
	url, ctx := storeURL(t), context.Background()
	file := "sqlite:" + filepath.Join(t.TempDir(), "shop.db")
	command(t, "fence", "install", "--at", file)
	fence := tenure.URLFence(file + "#orders")
	elect := exec.Command(filepath.Join(buildDir(), "tenure"), "elect", "-s", url, "--ttl", "12s",
		"--rho", "0.01", "--soft-limit", "6s", "--fence", file+"#orders", "job")
	told, err := elect.StdoutPipe()
	must(t, err)
	must(t, elect.Start())
	defer func() {
		_ = elect.Process.Kill()
		_ = elect.Wait()
	}()
	lines := bufio.NewScanner(told)
	for lines.Scan() && !strings.Contains(lines.Text(), `"won"`) {
	}
	must(t, elect.Process.Signal(syscall.SIGSTOP))
	stopped := time.Now()
	_, text, _ := strings.Cut(command(t, "status", "-s", url, "--json", "job"), `"remaining_ms":`)
	text, _, _ = strings.Cut(text, ",")
	left, err := strconv.Atoi(text)
	must(t, err)
	s := open(t, url, &tenure.Options{TTL: 12 * time.Second, RhoPPM: 10000})
	term, err := s.Campaign(ctx, "job", &tenure.CampaignOptions{
		Wait: time.Minute, Fences: []tenure.Fence{fence}, SoftLimit: 6 * time.Second,
	})
	must(t, err)
	if took := time.Since(stopped); term.Token() < 2 || took >= time.Duration(left)*time.Millisecond {
		t.Errorf("token %d behind %v of %d ms", term.Token(), took, left)
	}
	must(t, term.Close())
	for _, wrong := range []tenure.CampaignOptions{{SoftLimit: 6 * time.Second},
		{SoftLimit: -1, Fences: []tenure.Fence{fence}}} {
		if _, err := s.Campaign(ctx, "other", &wrong); !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%+v: %v", wrong, err)
		}
	}
}
