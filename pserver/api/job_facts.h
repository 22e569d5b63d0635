/* job_facts.h - the facts that all trainers must agree on: properties of the job by name, so that a message can show a difference. */
#pragma once

#include "pserver/api/job.h"

typedef struct tr__facts {
    size_t                   count, capacity;
    Trireme__Pserver__Fact **item;
} tr__facts;

/* Append the facts of `spec`. */
tr_status tr__facts_collect(tr__facts *facts, const tr_job *job, const tr_job_spec *spec);
/* Pack the facts as a trainer's join message for one server, malloc'ed. */
void      tr__facts_pack(tr_client_setup *out, const tr__facts *facts);
void      tr__facts_deinit(tr__facts *facts);
