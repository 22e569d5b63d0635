/* memory.h - memory for the small things that a program is made of: names, slots, attributes.
 *
 * The setters of descs return nothing, so that building a program stays readable; a machine that has no room
 * for a name has none for the program either. These helpers therefore end the process with a message instead
 * of returning NULL. Whatever grows with data (tensors, files, serialised programs) does not use them: there
 * the caller gets TR_ENOMEM. */
#ifndef TR_FRAMEWORK_MEMORY_H
#define TR_FRAMEWORK_MEMORY_H

#include <stddef.h>

void *tr__must_alloc(size_t size);                        /* zeroed; never NULL, not even for 0 */
void *tr__must_realloc(void *memory, size_t size);
char *tr__must_copy(const void *bytes, size_t size);      /* and a 0 behind it */
char *tr__must_strdup(const char *text);
char *tr__must_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
