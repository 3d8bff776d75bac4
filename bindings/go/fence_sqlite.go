package tenure

import (
	"context"
	"database/sql"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// SQLiteFence is a fence in the application's own SQLite database, in its own transaction.
//
// The check is made in SQL, through the driver that the application already uses, on the same table
// as tenure/fence_sqlite.h. Programs in C, Python and Go can share a fence. libtenure never opens
// the database: a driver often carries its own copy of SQLite, and two copies in one process drop
// each other's locks on a file. For the same reason a fence refuses the file of a "sqlite:" store
// that this process has open.
//
// Tables that "tenure fence install --table" protects refuse writes of Go: database/sql cannot
// present a token to their triggers.
type SQLiteFence struct {
	db       *sql.DB
	resource string
	path     string // "": in memory.
}

// The same table as in src/receivers/sqlite.c. Tokens are twenty digits, whose order is that of the
// numbers: SQLite's integers end at 2^63 - 1.
const (
	sqlCreate = "CREATE TABLE IF NOT EXISTS main.tenure_fences (resource TEXT PRIMARY KEY NOT NULL," +
		" token TEXT NOT NULL CHECK (typeof(token) = 'text' AND length(token) = 20" +
		" AND token NOT GLOB '*[^0-9]*' AND token <= '18446744073709551615')) WITHOUT ROWID"
	// Takes SQLite's right to write also when it changes nothing, so that nobody can come between
	// this and the caller's own statements.
	sqlMove = "INSERT INTO main.tenure_fences (resource, token) VALUES (?, ?)" +
		" ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token"
	sqlFind    = "SELECT token FROM main.tenure_fences WHERE resource = ?"
	sqlIsThere = "SELECT count(*) FROM main.sqlite_master" +
		" WHERE type = 'table' AND name = 'tenure_fences'"
	sqlFile = "SELECT coalesce(file, '') FROM pragma_database_list WHERE name = 'main'"
)

// querier is a *sql.DB or a *sql.Tx.
type querier interface {
	QueryRowContext(ctx context.Context, query string, arguments ...any) *sql.Row
}

// NewSQLiteFence returns the fence of resource in the database db. A resource has the form of a
// lease name.
func NewSQLiteFence(ctx context.Context, db *sql.DB, resource string) (*SQLiteFence, error) {
	if err := checkResource(resource); err != nil {
		return nil, err
	}
	path, err := fileOf(ctx, db)
	if err != nil {
		return nil, err
	}
	f := &SQLiteFence{db: db, resource: resource, path: path}
	return f, f.checkFile(path)
}

func (f *SQLiteFence) fenceURL() string { return "" }

func (f *SQLiteFence) raise(ctx context.Context, token uint64) error {
	return f.Raise(ctx, token)
}

// Tx runs one transaction: begin, Admit, work, commit. After an error of any of them it rolls back
// and returns that error. ErrStale means that a later leader exists: do not retry.
func (f *SQLiteFence) Tx(ctx context.Context, token uint64, work func(tx *sql.Tx) error) error {
	if err := checkToken(f.resource, token); err != nil {
		return err
	}
	tx, err := f.db.BeginTx(ctx, nil)
	if err != nil {
		return driverError(f.resource, err)
	}
	defer func() { _ = tx.Rollback() }() // Does nothing after a commit.
	if err := f.Admit(ctx, tx, token); err != nil {
		return err
	}
	if err := work(tx); err != nil {
		return err
	}
	return tx.Commit()
}

// Admit checks the token within a transaction of the caller's. nil: the token is the highest until
// the transaction ends; go on and commit. After any error, roll back. ErrStale means that a later
// leader exists.
func (f *SQLiteFence) Admit(ctx context.Context, tx *sql.Tx, token uint64) error {
	if err := checkToken(f.resource, token); err != nil {
		return err
	}
	path, err := fileOf(ctx, tx)
	if err != nil {
		return err
	}
	if err := f.checkFile(path); err != nil {
		return err
	}
	return f.move(ctx, tx, token)
}

// Raise admits nothing older than token from now on, in a transaction of its own. Campaign does it
// for the fences that it is given.
func (f *SQLiteFence) Raise(ctx context.Context, token uint64) error {
	return f.Tx(ctx, token, func(*sql.Tx) error { return nil })
}

// Highest returns the highest token that was admitted or raised; 0: none.
func (f *SQLiteFence) Highest(ctx context.Context) (uint64, error) {
	there, err := isThere(ctx, f.db)
	if err != nil || !there {
		return 0, err
	}
	return f.find(ctx, f.db)
}

func (f *SQLiteFence) move(ctx context.Context, tx *sql.Tx, token uint64) error {
	if _, err := tx.ExecContext(ctx, sqlMove, f.resource, digits(token)); err != nil {
		there, lookErr := isThere(ctx, tx)
		if lookErr != nil || there {
			return driverError(f.resource, err)
		}
		for _, step := range []struct {
			query     string
			arguments []any
		}{{sqlCreate, nil}, {sqlMove, []any{f.resource, digits(token)}}} {
			if _, err := tx.ExecContext(ctx, step.query, step.arguments...); err != nil {
				return driverError(f.resource, err)
			}
		}
	}
	highest, err := f.find(ctx, tx)
	switch {
	case err != nil:
		return err
	case highest > token:
		return staleError(f.resource, token)
	case highest < token: // After the upsert: not a table of ours.
		return newError(codeDamaged, "%s: tenure_fences did not take the token", f.resource)
	}
	return nil
}

func (f *SQLiteFence) find(ctx context.Context, from querier) (uint64, error) {
	var text string
	err := from.QueryRowContext(ctx, sqlFind, f.resource).Scan(&text)
	if err == sql.ErrNoRows {
		return 0, nil
	}
	if err != nil {
		return 0, driverError(f.resource, err)
	}
	token, err := strconv.ParseUint(text, 10, 64)
	if err != nil || len(text) != 20 {
		return 0, newError(codeDamaged, "%s: tenure_fences holds something else than a token",
			f.resource)
	}
	return token, nil
}

func isThere(ctx context.Context, from querier) (bool, error) {
	var count int
	if err := from.QueryRowContext(ctx, sqlIsThere).Scan(&count); err != nil {
		return false, driverError("tenure_fences", err)
	}
	return count > 0, nil
}

func fileOf(ctx context.Context, from querier) (string, error) {
	var path string
	if err := from.QueryRowContext(ctx, sqlFile).Scan(&path); err != nil {
		return "", driverError("pragma_database_list", err)
	}
	return path, nil
}

// driverError is for what a driver reports: nothing was admitted.
func driverError(what string, err error) error {
	return &Error{Code: codeUnavailable, Text: what + ": " + err.Error(), cause: err}
}

// checkFile refuses a connection to another file, a file with two names, and the file of a store.
// Each name of a database has a journal of its own, and what a killed writer left beside the one is
// not undone through the other: then the fence itself may go back.
func (f *SQLiteFence) checkFile(path string) error {
	if path != f.path {
		return newError(codeInvalid, "%s: the transaction is in %q, the fence in %q", f.resource,
			path, f.path)
	}
	if path == "" {
		return nil
	}
	if hasOtherNames(path) {
		return newError(codeDenied, "%s: the file has more than one name, and so more than one journal",
			path)
	}
	if _, used := usedByLibrary.Load(realPath(path)); used {
		return newError(codeUnsupported, "%s: libtenure has this file open as a store: use a file of "+
			"its own for the store, or another store", path)
	}
	return nil
}

// hasOtherNames sees a hard link and a mount of the single file. A file that cannot be examined
// counts as one with several names.
func hasOtherNames(path string) bool {
	var info syscall.Stat_t
	if err := syscall.Stat(path, &info); err != nil || info.Nlink > 1 {
		return true
	}
	folder := "."
	if cut := strings.LastIndexByte(path, '/'); cut >= 0 {
		folder = path[:cut+1]
	}
	file, ok := mountOf(path)
	around, folderOK := mountOf(folder)
	return !ok || !folderOK || file != around
}

// mountOf opens with O_PATH: closing another kind of descriptor would drop SQLite's locks.
func mountOf(path string) (string, bool) {
	const oPath = 0x200000
	fd, err := syscall.Open(path, oPath|syscall.O_CLOEXEC, 0)
	if err != nil {
		return "", false
	}
	defer func() { _ = syscall.Close(fd) }()
	info, err := os.ReadFile("/proc/self/fdinfo/" + strconv.Itoa(fd))
	if err != nil {
		return "", false
	}
	for _, line := range strings.Split(string(info), "\n") {
		if strings.HasPrefix(line, "mnt_id:") {
			return line, true
		}
	}
	return "", false
}
