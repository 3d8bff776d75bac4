/* assert.h - assertions that stay on in release builds.
 *
 * They are for our own bugs, never for bad input. A crash is a safe way to lose a lease; going on
 * with a broken state is not. One condition per assertion, so that the line tells which one. */
#ifndef TN_BASE_ASSERT_H
#define TN_BASE_ASSERT_H

#ifdef TN_ASSERT_BRIEF /* Where size counts: the place is enough to find the condition. */
#define TN_ASSERT(cond) ((cond) ? (void)0 : tn_assert_fail("", __FILE__, __LINE__))
#else
#define TN_ASSERT(cond) ((cond) ? (void)0 : tn_assert_fail(#cond, __FILE__, __LINE__))
#endif

/* Calls the hook, which may leave by longjmp; aborts when it returns. */
_Noreturn void tn_assert_fail(const char *expr, const char *file, int line);

/* Prints one line to stderr unless replaced. Replace it before other threads start. */
extern void (*tn_assert_hook)(const char *expr, const char *file, int line);

#endif
