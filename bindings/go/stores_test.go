package tenure_test

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	_ "tenure.example/tenure/internal/sqlite"
)

// The stores that the conformance list runs against, and helpers.

const ttl = 2 * time.Second

// until waits until the condition holds.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type store interface {
	url() string
	kill(t *testing.T)
	again(t *testing.T)
}

// sqliteStore is gone while somebody else keeps the file.
type sqliteStore struct {
	path   string
	keeper *sql.DB
}

func (s *sqliteStore) url() string { return "sqlite:" + s.path }

func (s *sqliteStore) kill(t *testing.T) {
	db, err := sql.Open("sqlite-test", s.path)
	must(t, err)
	db.SetMaxOpenConns(1)
	_, err = db.Exec("BEGIN EXCLUSIVE")
	must(t, err)
	s.keeper = db
}

func (s *sqliteStore) again(t *testing.T) { must(t, s.keeper.Close()) }

// server is a process that can be killed and started again on the same data.
type server struct {
	address []string // Network and address of a listener.
	command []string
	name    string
	process *exec.Cmd
}

func (s *server) url() string { return s.name }

func (s *server) kill(t *testing.T) {
	must(t, s.process.Process.Kill())
	_ = s.process.Wait()
}

func (s *server) again(t *testing.T) {
	s.process = exec.Command(s.command[0], s.command[1:]...)
	// The server must not outlive a test that is killed.
	s.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must(t, s.process.Start())
	until(t, s.name+" listens", func() bool {
		connection, err := net.Dial(s.address[0], s.address[1])
		if err == nil {
			_ = connection.Close()
		}
		return err == nil
	})
}

func start(t *testing.T, s *server) *server {
	s.again(t)
	t.Cleanup(func() { s.kill(t) })
	return s
}

func freePort(t *testing.T) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// shortDir is a folder whose path fits into the address of a Unix socket.
func shortDir(t *testing.T) string {
	folder, err := os.MkdirTemp("", "tngo")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	return folder
}

func buildDir() string {
	if folder := os.Getenv("TENURE_BUILD"); folder != "" {
		return folder
	}
	return "../../build"
}

var kinds = map[string]func(t *testing.T) store{
	"sqlite": func(t *testing.T) store {
		return &sqliteStore{path: filepath.Join(t.TempDir(), "store.db")}
	},
	"tenured": func(t *testing.T) store {
		program := filepath.Join(buildDir(), "tenured")
		if _, err := os.Stat(program); err != nil {
			t.Skip(err)
		}
		folder := shortDir(t)
		socket := folder + "/s"
		return start(t, &server{
			name: "unix:" + socket, address: []string{"unix", socket},
			command: []string{program, "--data", folder + "/data", "--listen", "unix:" + socket},
		})
	},
	"etcd": func(t *testing.T) store {
		program, err := exec.LookPath("etcd")
		if err != nil {
			t.Skip(err)
		}
		client := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		peer := fmt.Sprintf("http://127.0.0.1:%d", freePort(t))
		return start(t, &server{
			name: "etcd://" + client + "/go", address: []string{"tcp", client},
			command: []string{
				program, "--name", "one", "--data-dir", shortDir(t) + "/data",
				"--listen-client-urls", "http://" + client,
				"--advertise-client-urls", "http://" + client,
				"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
				"--initial-cluster", "one=" + peer,
			},
		})
	},
}

// database is one of the application's, with a table work in it.
func database(t *testing.T) (string, *sql.DB) {
	path := filepath.Join(t.TempDir(), "shop.db")
	db := openDatabase(t, path)
	_, err := db.Exec("CREATE TABLE work (id INTEGER PRIMARY KEY, token INTEGER, who TEXT)")
	must(t, err)
	return path, db
}

func openDatabase(t *testing.T, path string) *sql.DB {
	db, err := sql.Open("sqlite-test", path)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// write returns the work of a transaction: one row.
func write(ctx context.Context, token uint64, who string) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO work (token, who) VALUES (?, ?)",
			int64(token), who)
		return err
	}
}

func writers(t *testing.T, db *sql.DB) []string {
	rows, err := db.Query("SELECT who FROM work ORDER BY id")
	must(t, err)
	defer func() { _ = rows.Close() }()
	var all []string
	for rows.Next() {
		var who string
		must(t, rows.Scan(&who))
		all = append(all, who)
	}
	must(t, rows.Err())
	return all
}
