/* test.h - the unit test harness: tests that register themselves, and checks that name both sides.
 *
 * A test is written as
 *     TEST(name_of_what_holds)
 *     {
 *         CHECK_EQ_U64(tn_prng_below(&p, 1), 0);
 *     }
 * and is known as FILE/NAME. A check that fails prints where and what, and ends that test only. An
 * assertion that trips outside CHECK_ASSERTS fails the test in the same way. These are the only
 * control-flow macros in the project. */
#ifndef TN_TESTS_HARNESS_TEST_H
#define TN_TESTS_HARNESS_TEST_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CHECK_ASSERTS puts a setjmp into the test. gcc then warns of locals that are changed in between;
 * the statement under test is over by the time it jumps, so no test reads such a local. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wclobbered"
#endif

struct tn_test {
    const char *name;
    const char *file;
    void (*run)(void);
    struct tn_test *next;
};

#define TEST(name)                                                               \
    static void test_##name(void);                                               \
    static struct tn_test entry_##name = { #name, __FILE__, test_##name, NULL }; \
    __attribute__((constructor)) static void register_##name(void)               \
    {                                                                            \
        tn_test_register(&entry_##name);                                         \
    }                                                                            \
    static void test_##name(void)

#define CHECK(cond)                                        \
    do {                                                   \
        if (!(cond))                                       \
            tn_test_fail(__FILE__, __LINE__, "%s", #cond); \
    } while (0)

/* What must hold however busy the machine is; the line says so, as with t_promise in lib.sh. */
#define CHECK_PROMISE(cond)                                                \
    do {                                                                   \
        if (!(cond))                                                       \
            tn_test_fail(__FILE__, __LINE__, "broken promise: %s", #cond); \
    } while (0)

#define CHECK_EQ_U64(a, b)                                          \
    do {                                                            \
        tn_test_eq_u64(__FILE__, __LINE__, #a " == " #b, (a), (b)); \
    } while (0)

#define CHECK_EQ_I64(a, b)                                          \
    do {                                                            \
        tn_test_eq_i64(__FILE__, __LINE__, #a " == " #b, (a), (b)); \
    } while (0)

/* Two strings; NULL equals only NULL. */
#define CHECK_STR(a, b)                                             \
    do {                                                            \
        tn_test_eq_str(__FILE__, __LINE__, #a " == " #b, (a), (b)); \
    } while (0)

#define CHECK_MEM(a, b, size)                                               \
    do {                                                                    \
        tn_test_eq_mem(__FILE__, __LINE__, #a " == " #b, (a), (b), (size)); \
    } while (0)

/* Passes when the statement trips a TN_ASSERT. */
#define CHECK_ASSERTS(statement)                                                      \
    do {                                                                              \
        if (setjmp(*tn_test_assert_arm()) == 0) {                                     \
            statement;                                                                \
            tn_test_assert_disarm();                                                  \
            tn_test_fail(__FILE__, __LINE__, "no assertion tripped: %s", #statement); \
        }                                                                             \
    } while (0)

/* Ends the test without a verdict. It is reported, and fails the run when CI=true. */
#define SKIP(reason)          \
    do {                      \
        tn_test_skip(reason); \
    } while (0)

/* What the macros above call. */
void tn_test_register(struct tn_test *test);
_Noreturn void tn_test_fail(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
_Noreturn void tn_test_skip(const char *reason);
void tn_test_eq_u64(const char *file, int line, const char *expr, uint64_t a, uint64_t b);
void tn_test_eq_i64(const char *file, int line, const char *expr, int64_t a, int64_t b);
void tn_test_eq_str(const char *file, int line, const char *expr, const char *a, const char *b);
void tn_test_eq_mem(const char *file, int line, const char *expr, const void *a, const void *b,
                    size_t size);
jmp_buf *tn_test_assert_arm(void);
void tn_test_assert_disarm(void);

#endif
