package tenure_test

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tenure.example/tenure"
)

func TestFileFence(t *testing.T) {
	ctx := context.Background()
	fence := tenure.FileFence(filepath.Join(t.TempDir(), "report"))
	must(t, fence.Raise(ctx, 3))
	must(t, fence.Append(ctx, 3, []byte("one\n")))
	must(t, fence.Append(ctx, 3, nil))
	for _, token := range []uint64{0, 2} {
		err := fence.Append(ctx, token, []byte("late\n"))
		if want := map[uint64]error{0: tenure.ErrInvalid, 2: tenure.ErrStale}[token]; !errors.Is(
			err, want) {
			t.Errorf("token %d: a wrong error: %v", token, err)
		}
	}
	must(t, fence.Replace(ctx, 1<<63, []byte("all\n")))
	if highest, err := fence.Highest(); err != nil || highest != 1<<63 {
		t.Errorf("the fence stands at %d: %v", highest, err)
	}
	if text, err := os.ReadFile(string(fence)); err != nil || string(text) != "all\n" {
		t.Errorf("%q: %v", text, err)
	}
	missing := tenure.FileFence("/nowhere/at/all")
	if err := missing.Append(ctx, 1, nil); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a wrong error: %v", err)
	}
	over, cancel := context.WithCancel(ctx)
	cancel()
	if err := fence.Append(over, 1<<63, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a wrong error: %v", err)
	}
}

func TestSQLiteFence(t *testing.T) {
	ctx := context.Background()
	path, db := database(t)
	fence, err := tenure.NewSQLiteFence(ctx, db, "orders/eu")
	must(t, err)
	if highest, err := fence.Highest(ctx); err != nil || highest != 0 {
		t.Errorf("the fence stands at %d: %v", highest, err)
	}
	must(t, fence.Raise(ctx, 7))
	must(t, fence.Tx(ctx, 7, write(ctx, 7, "seven")))
	failed := errors.New("on purpose")
	if err := fence.Tx(ctx, 9, func(*sql.Tx) error { return failed }); err != failed {
		t.Errorf("a wrong error: %v", err)
	}
	if highest, err := fence.Highest(ctx); err != nil || highest != 7 {
		t.Errorf("the fence was not rolled back: %d, %v", highest, err)
	}
	if err := fence.Tx(ctx, 0, write(ctx, 0, "none")); !errors.Is(err, tenure.ErrInvalid) {
		t.Errorf("a wrong error: %v", err)
	}
	// A transaction in another database.
	_, other := database(t)
	tx, err := other.Begin()
	must(t, err)
	if err := fence.Admit(ctx, tx, 9); !errors.Is(err, tenure.ErrInvalid) {
		t.Errorf("a wrong error: %v", err)
	}
	must(t, tx.Rollback())
	for _, resource := range []string{"", "a//b", "..", "a b"} {
		if _, err := tenure.NewSQLiteFence(ctx, db, resource); !errors.Is(err, tenure.ErrInvalid) {
			t.Errorf("%q: a wrong error: %v", resource, err)
		}
	}
	// Two names have two journals.
	must(t, os.Link(path, path+".too"))
	if err := fence.Raise(ctx, 8); !errors.Is(err, tenure.ErrDenied) {
		t.Errorf("a wrong error: %v", err)
	}
	must(t, os.Remove(path+".too"))
	// The command sees the same fence.
	command := exec.Command(filepath.Join(buildDir(), "tenure"), "fence", "show",
		"--at", "sqlite:"+path, "orders/eu")
	if told, err := command.CombinedOutput(); err != nil || !strings.Contains(string(told), "7") {
		t.Errorf("tenure fence show: %s%v", told, err)
	}
	if _, err := db.Exec("UPDATE tenure_fences SET token = '1'"); err == nil {
		t.Error("the table takes what is no token")
	}
}

// libtenure and the driver of the application must not share a file: they may be two copies of
// SQLite, which drop each other's locks.
func TestSQLiteFenceInStore(t *testing.T) {
	ctx := context.Background()
	path, db := database(t)
	fence, err := tenure.NewSQLiteFence(ctx, db, "orders")
	must(t, err)
	session := open(t, memoryURL(t), nil)
	_, err = session.Campaign(ctx, "report", &tenure.CampaignOptions{
		Wait: time.Minute, Fences: []tenure.Fence{tenure.URLFence("sqlite:" + path + "#orders")},
	})
	must(t, err)
	if err := fence.Raise(ctx, 9); !errors.Is(err, tenure.ErrUnsupported) {
		t.Errorf("a wrong error: %v", err)
	}
}
