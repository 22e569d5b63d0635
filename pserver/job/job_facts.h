/* job_facts.h - the facts that all trainers must agree on: what a script says of the job, by name, so that a difference can be shown. */
#ifndef TR_PSERVER_JOB_FACTS_H
#define TR_PSERVER_JOB_FACTS_H

#include "pserver/job/job.h"

typedef struct tr__facts {
    size_t                   count, capacity;
    Trireme__Pserver__Fact **item;
} tr__facts;

/* Those of `spec`, behind what is there. */
tr_status tr__facts_collect(tr__facts *facts, const tr_job *job, const tr_job_spec *spec);
/* As the join message of one server, malloc'ed. */
void      tr__facts_pack(tr_client_setup *out, const tr__facts *facts);
void      tr__facts_deinit(tr__facts *facts);

#endif
