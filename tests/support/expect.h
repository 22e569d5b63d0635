/* expect.h - what every test begins with: cmocka, and failures that must explain themselves. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "framework/trireme.h"

#define TEST(name) static void name(void **state __attribute__((unused)))

/* `call` succeeds; if not, the test shows why. */
#define EXPECT_OK(call) test_expect_ok(call, #call, __FILE__, __LINE__)
/* A call, which may be a macro with commas in braces, fails with that code, and the text says that. */
#define EXPECT_FAIL(code, text, ...) test_expect_fail(code, text, __VA_ARGS__, #__VA_ARGS__, __FILE__, __LINE__)

void test_expect_ok(tr_status got, const char *call, const char *file, int line);
void test_expect_fail(tr_status expected, const char *text, tr_status got, const char *call, const char *file, int line);
/* The whole file, to be freed; *size is its size. */
uint8_t *test_read_file(size_t *size, const char *path);
/* A path in a fresh folder that is removed at the end of the program; one of a few rotating buffers. */
const char *test_path(const char *name);
