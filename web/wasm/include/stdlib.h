/* stdlib.h - what the simulator uses of it. */
#ifndef TN_WASM_STDLIB_H
#define TN_WASM_STDLIB_H

#include <stddef.h>

void *malloc(size_t size);
void *realloc(void *memory, size_t size);
void free(void *memory);

#endif
