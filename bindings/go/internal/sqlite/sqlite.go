// Package sqlite is the smallest database/sql driver that the tests of SQLiteFence can use: the
// module needs no other module. It is registered as "sqlite-test".
package sqlite

/*
#cgo pkg-config: sqlite3
#include <sqlite3.h>
#include <stdlib.h>

static int bind_text(sqlite3_stmt *stmt, int at, const char *text, int len)
{
    return sqlite3_bind_text(stmt, at, text, len, SQLITE_TRANSIENT);
}
*/
import "C"

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"unsafe"
)

func init() { sql.Register("sqlite-test", opener{}) }

type opener struct{}

type conn struct{ db *C.sqlite3 }

func (c *conn) failure() error { return errors.New(C.GoString(C.sqlite3_errmsg(c.db))) }

// Open opens the file at path.
func (opener) Open(path string) (driver.Conn, error) {
	text := C.CString(path)
	defer C.free(unsafe.Pointer(text))
	c := &conn{}
	if C.sqlite3_open(text, &c.db) != C.SQLITE_OK {
		err := c.failure()
		C.sqlite3_close(c.db)
		return nil, err
	}
	C.sqlite3_busy_timeout(c.db, 30000)
	return c, nil
}

func (c *conn) Close() error {
	C.sqlite3_close(c.db)
	return nil
}

func (c *conn) Begin() (driver.Tx, error) { return c, c.run("BEGIN") }
func (c *conn) Commit() error             { return c.run("COMMIT") }
func (c *conn) Rollback() error           { return c.run("ROLLBACK") }

func (c *conn) run(query string) error {
	text := C.CString(query)
	defer C.free(unsafe.Pointer(text))
	if C.sqlite3_exec(c.db, text, nil, nil, nil) != C.SQLITE_OK {
		return c.failure()
	}
	return nil
}

func (c *conn) Prepare(query string) (driver.Stmt, error) {
	text := C.CString(query)
	defer C.free(unsafe.Pointer(text))
	s := &statement{conn: c}
	if C.sqlite3_prepare_v2(c.db, text, -1, &s.stmt, nil) != C.SQLITE_OK {
		return nil, c.failure()
	}
	return s, nil
}

type statement struct {
	conn *conn
	stmt *C.sqlite3_stmt
}

func (s *statement) Close() error {
	C.sqlite3_finalize(s.stmt)
	return nil
}

func (s *statement) NumInput() int { return int(C.sqlite3_bind_parameter_count(s.stmt)) }

func (s *statement) bind(arguments []driver.Value) error {
	C.sqlite3_reset(s.stmt)
	for i, argument := range arguments {
		at := C.int(i + 1)
		code := C.int(C.SQLITE_OK)
		switch value := argument.(type) {
		case int64:
			code = C.sqlite3_bind_int64(s.stmt, at, C.sqlite3_int64(value))
		case string:
			text := C.CString(value)
			code = C.bind_text(s.stmt, at, text, C.int(len(value)))
			C.free(unsafe.Pointer(text))
		default:
			return fmt.Errorf("an argument of type %T is not for tests", argument)
		}
		if code != C.SQLITE_OK {
			return s.conn.failure()
		}
	}
	return nil
}

func (s *statement) Exec(arguments []driver.Value) (driver.Result, error) {
	if err := s.bind(arguments); err != nil {
		return nil, err
	}
	for {
		switch C.sqlite3_step(s.stmt) {
		case C.SQLITE_ROW:
		case C.SQLITE_DONE:
			C.sqlite3_reset(s.stmt)
			return driver.RowsAffected(C.sqlite3_changes(s.conn.db)), nil
		default:
			err := s.conn.failure()
			C.sqlite3_reset(s.stmt)
			return nil, err
		}
	}
}

func (s *statement) Query(arguments []driver.Value) (driver.Rows, error) {
	return (*rows)(s), s.bind(arguments)
}

type rows statement

func (r *rows) Close() error {
	C.sqlite3_reset(r.stmt)
	return nil
}

func (r *rows) Columns() []string {
	names := make([]string, int(C.sqlite3_column_count(r.stmt)))
	for i := range names {
		names[i] = C.GoString(C.sqlite3_column_name(r.stmt, C.int(i)))
	}
	return names
}

func (r *rows) Next(into []driver.Value) error {
	switch C.sqlite3_step(r.stmt) {
	case C.SQLITE_ROW:
	case C.SQLITE_DONE:
		return io.EOF
	default:
		return r.conn.failure()
	}
	for i := range into {
		at := C.int(i)
		switch C.sqlite3_column_type(r.stmt, at) {
		case C.SQLITE_NULL:
			into[i] = nil
		case C.SQLITE_INTEGER:
			into[i] = int64(C.sqlite3_column_int64(r.stmt, at))
		default:
			text := (*C.char)(unsafe.Pointer(C.sqlite3_column_text(r.stmt, at)))
			into[i] = C.GoStringN(text, C.sqlite3_column_bytes(r.stmt, at))
		}
	}
	return nil
}
