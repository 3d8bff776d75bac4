// Package heap tells the tests what C code has allocated: Go's own tools do not see it.
package heap

/*
#include <malloc.h>
#include <stdlib.h>

static size_t in_use(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
*/
import "C"

// InUse is how many bytes malloc has given out and not got back. It counts one arena only: start
// the process with MALLOC_ARENA_MAX=1.
func InUse() int { return int(C.in_use()) }

// Lose allocates bytes that nobody frees.
func Lose(bytes int) { C.malloc(C.size_t(bytes)) }
