/* own_values.h - arrays of which each trainer of a job has values of its own. In a checkpoint such an array stands once for each trainer, under the
 * variable's name and "@TRAINER@0", "@TRAINER@1", ... */
#ifndef TR_STORAGE_OWN_VALUES_H
#define TR_STORAGE_OWN_VALUES_H

/* The name of a trainer's array; malloc'ed. */
char *tr_own_value_name(const char *name, int trainer);

#endif
