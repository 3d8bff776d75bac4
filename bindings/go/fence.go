package tenure

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// Fence is a receiver that a former leader must not write to: URLFence, FileFence or *SQLiteFence.
type Fence interface {
	// fenceURL is what the library raises before the term begins; "": nothing.
	fenceURL() string
	// raise is what Go raises before Campaign returns.
	raise(ctx context.Context, token uint64) error
}

// URLFence is a fence that the library raises, such as "postgres://db/shop#orders" or
// "redis://cache#orders". docs/fencing.md says how its receiver checks a token.
type URLFence string

func (f URLFence) fenceURL() string                    { return string(f) }
func (f URLFence) raise(context.Context, uint64) error { return nil }

// FileFence is the path of a file that is written through its fence, which lies beside it in
// PATH.fence. The check and the write are one step. The file must exist when the fence is raised.
type FileFence string

func (f FileFence) fenceURL() string                    { return "file:" + string(f) }
func (f FileFence) raise(context.Context, uint64) error { return nil }

// fileWait is how long a write waits for another writer if its context has no deadline.
const fileWait = 5 * time.Second

// waitOf is how long a call may wait for others.
func waitOf(ctx context.Context) (time.Duration, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		return fileWait, nil
	}
	if left := time.Until(deadline); left > 0 {
		return left, nil
	}
	return 0, context.DeadlineExceeded
}

// Replace makes data the whole content of the file, if the token is admitted. An error that matches
// ErrStale means that a later leader exists: nothing was written, do not retry. It waits for
// another writer until the deadline of ctx, or five seconds; once begun, it is not interrupted.
func (f FileFence) Replace(ctx context.Context, token uint64, data []byte) error {
	return f.write(ctx, token, data, false)
}

// Append appends data, all of it or nothing, if the token is admitted. Errors are as in Replace.
func (f FileFence) Append(ctx context.Context, token uint64, data []byte) error {
	return f.write(ctx, token, data, true)
}

func (f FileFence) write(ctx context.Context, token uint64, data []byte, isAppend bool) error {
	if err := checkToken(string(f), token); err != nil {
		return err
	}
	wait, err := waitOf(ctx)
	if err != nil {
		return err
	}
	return writeFile(string(f), token, data, isAppend, wait)
}

// Raise admits nothing older than token from now on. The file need not exist.
func (f FileFence) Raise(ctx context.Context, token uint64) error {
	if err := checkToken(string(f), token); err != nil {
		return err
	}
	wait, err := waitOf(ctx)
	if err != nil {
		return err
	}
	return raiseFile(string(f), token, wait)
}

// Highest returns the highest token that was admitted or raised; 0: none.
func (f FileFence) Highest() (uint64, error) { return highestOfFile(string(f)) }

func checkToken(what string, token uint64) error {
	if token == 0 {
		return newError(codeInvalid, "%s: token 0 is never granted: the term is over", what)
	}
	return nil
}

func staleError(what string, token uint64) error {
	return newError(codeStale, "%s: token %d is stale: a later leader exists", what, token)
}

// usedByLibrary has the databases that libtenure opened in this process.
var usedByLibrary sync.Map

func rememberLibraryUse(url string) {
	if url == "" {
		url = os.Getenv("TENURE_STORE")
	}
	if path := storePath(url); path != "" {
		usedByLibrary.Store(realPath(path), true)
	}
}

func realPath(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return path
}

// checkResource accepts what a lease name accepts.
func checkResource(resource string) error {
	good := len(resource) >= 1 && len(resource) <= 255
	for _, segment := range strings.Split(resource, "/") {
		good = good && segment != "" && segment != "." && segment != ".."
	}
	for _, c := range []byte(resource) {
		good = good && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.IndexByte("._~:@-/", c) >= 0)
	}
	if !good {
		return newError(codeInvalid, "%q is no resource: it has the form of a lease name", resource)
	}
	return nil
}

func digits(token uint64) string { return fmt.Sprintf("%020d", token) }
