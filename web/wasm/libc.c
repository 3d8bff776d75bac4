/* libc.c - the few functions of the C library that the simulator calls, for WebAssembly.
 *
 * Compiled with -fno-builtin, so that a loop is not turned into a call of itself. vsnprintf knows
 * the forms that are used and traps on any other, so a new one is noticed by the first test. */
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --- Bytes and strings ------------------------------------------------------------------------ */

void *memcpy(void *to, const void *from, size_t len)
{
    return __builtin_memcpy(to, from, len); /* One instruction: memory.copy. */
}

void *memmove(void *to, const void *from, size_t len)
{
    return __builtin_memmove(to, from, len);
}

void *memset(void *to, int byte, size_t len)
{
    return __builtin_memset(to, byte, len);
}

int memcmp(const void *a, const void *b, size_t len)
{
    const unsigned char *left = a, *right = b;
    for (size_t i = 0; i < len; i++)
        if (left[i] != right[i])
            return left[i] - right[i];
    return 0;
}

size_t strlen(const char *text)
{
    size_t len = 0;
    while (text[len] != '\0')
        len++;
    return len;
}

size_t strnlen(const char *text, size_t most)
{
    size_t len = 0;
    while (len < most && text[len] != '\0')
        len++;
    return len;
}

int strncmp(const char *a, const char *b, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (a[i] != b[i])
            return (unsigned char)a[i] - (unsigned char)b[i];
        if (a[i] == '\0')
            break;
    }
    return 0;
}

int strcmp(const char *a, const char *b)
{
    return strncmp(a, b, SIZE_MAX);
}

char *strchr(const char *text, int byte)
{
    for (;; text++) {
        if (*text == (char)byte)
            return (char *)(uintptr_t)text;
        if (*text == '\0')
            return NULL;
    }
}

char *strstr(const char *text, const char *part)
{
    for (; *text != '\0'; text++)
        if (strncmp(text, part, strlen(part)) == 0)
            return (char *)(uintptr_t)text;
    return NULL;
}

size_t strspn(const char *text, const char *bytes)
{
    size_t len = 0;
    while (text[len] != '\0' && strchr(bytes, text[len]) != NULL)
        len++;
    return len;
}

size_t strcspn(const char *text, const char *bytes)
{
    size_t len = 0;
    while (text[len] != '\0' && strchr(bytes, text[len]) == NULL)
        len++;
    return len;
}

/* --- Memory ----------------------------------------------------------------------------------- */

/* Memory is taken from the end and never given back: a world keeps what it has from one script to
 * the next, so there is an end to it. Each block knows its size. */
extern unsigned char __heap_base;

enum { PAGE = 65536 };

void *malloc(size_t size)
{
    static uintptr_t end;
    if (end == 0)
        end = (uintptr_t)&__heap_base;
    uintptr_t block = (end + 15) / 16 * 16 + 16;
    size_t pages = __builtin_wasm_memory_size(0);
    if (size > UINT32_MAX - block - PAGE)
        return NULL;
    if (block + size > pages * PAGE &&
        __builtin_wasm_memory_grow(0, (block + size - pages * PAGE) / PAGE + 1) == SIZE_MAX)
        return NULL;
    end = block + size;
    ((size_t *)block)[-1] = size;
    return (void *)block;
}

void *realloc(void *memory, size_t size)
{
    size_t had = memory != NULL ? ((size_t *)memory)[-1] : 0;
    if (size <= had)
        return memory;
    void *bigger = malloc(size);
    if (bigger != NULL && had > 0)
        memcpy(bigger, memory, had);
    return bigger;
}

void free(void *memory)
{
    (void)memory;
}

/* --- Formatted text --------------------------------------------------------------------------- */

struct out {
    char *buf;
    size_t size, len;
};

static void put(struct out *out, char byte)
{
    if (out->len + 1 < out->size)
        out->buf[out->len] = byte;
    out->len++;
}

struct form {
    bool left, zero;
    int width, precision;
    int longs;
    char kind;
};

static int read_count(const char **format)
{
    int count = 0;
    while (**format >= '0' && **format <= '9')
        count = 10 * count + (*(*format)++ - '0');
    return count;
}

static struct form read_form(const char **format, va_list *args)
{
    struct form form = { .precision = -1 };
    for (; **format == '-' || **format == '0'; (*format)++) {
        form.left = form.left || **format == '-';
        form.zero = form.zero || **format == '0';
    }
    form.width = read_count(format);
    if (**format == '.') {
        (*format)++;
        if (**format == '*') {
            (*format)++;
            form.precision = va_arg(*args, int);
        } else {
            form.precision = read_count(format);
        }
    }
    for (; **format == 'l'; (*format)++)
        form.longs++;
    form.kind = *(*format)++;
    return form;
}

static void put_padded(struct out *out, const struct form *form, const char *text, size_t len)
{
    size_t width = form->width > 0 ? (size_t)form->width : 0;
    size_t padding = width > len ? width - len : 0;
    for (size_t i = 0; i < padding && !form->left; i++)
        put(out, form->zero ? '0' : ' ');
    for (size_t i = 0; i < len; i++)
        put(out, text[i]);
    for (size_t i = 0; i < padding && form->left; i++)
        put(out, ' ');
}

static void put_number(struct out *out, const struct form *form, uint64_t value, bool minus)
{
    char digits[24];
    size_t at = sizeof digits;
    unsigned base = form->kind == 'x' ? 16 : 10;
    do
        digits[--at] = "0123456789abcdef"[value % base];
    while ((value /= base) > 0);
    if (minus)
        digits[--at] = '-';
    put_padded(out, form, digits + at, sizeof digits - at);
}

static void put_text(struct out *out, const struct form *form, const char *text)
{
    size_t len = 0;
    while ((form->precision < 0 || len < (size_t)form->precision) && text[len] != '\0')
        len++;
    put_padded(out, form, text, len);
}

int vsnprintf(char *buf, size_t size, const char *format, va_list given)
{
    struct out out = { .buf = buf, .size = size };
    va_list args;

    va_copy(args, given);
    while (*format != '\0') {
        if (*format != '%') {
            put(&out, *format++);
            continue;
        }
        format++;
        struct form form = read_form(&format, &args);
        if (form.kind == 's') {
            put_text(&out, &form, va_arg(args, const char *));
        } else if (form.kind == 'c') {
            put(&out, (char)va_arg(args, int));
        } else if (form.kind == 'd') {
            int64_t value = form.longs == 2 ? va_arg(args, long long) : va_arg(args, int);
            put_number(&out, &form, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
        } else if (form.kind == 'u' || form.kind == 'x') {
            put_number(&out, &form,
                       form.longs == 2 ? va_arg(args, unsigned long long) : va_arg(args, unsigned),
                       false);
        } else {
            __builtin_trap();
        }
    }
    va_end(args);
    if (size > 0)
        buf[out.len < size ? out.len : size - 1] = '\0';
    return (int)out.len;
}

int snprintf(char *buf, size_t size, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int len = vsnprintf(buf, size, format, args);
    va_end(args);
    return len;
}
