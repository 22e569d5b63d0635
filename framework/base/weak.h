/* weak.h - a weak reference: its owner ends it, and from then on its holders find NULL in the place of the object.
 *
 * So a holder never follows a pointer to an object that is gone, and the owner need not know its holders. Any thread may call these. The owner ends a
 * reference when no call that has asked for the object is still under way. */
#pragma once

typedef struct tr_weak tr_weak;

/* The owner's reference to `object`. */
tr_weak *tr__weak_new(void *object);
/* One more holder; returns `weak`. NULL is fine here and below. */
tr_weak *tr__weak_retain(tr_weak *weak);
void     tr__weak_release(tr_weak *weak);
/* The object, or NULL: it is gone, or there was none. */
void    *tr__weak_object(const tr_weak *weak);
/* The object is gone. The owner still releases its own reference. */
void     tr__weak_end(tr_weak *weak);
