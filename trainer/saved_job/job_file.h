/* job_file.h - a saved job on disk (docs/formats.md): a header with a checksum, then a message of proto/job.proto. */
#pragma once

#include "framework/base/status.h"
#include "proto/job.pb-c.h"
#include "trainer/trireme_trainer.h"

enum { TR_JOB_FILE_HEADER = 24, TR_JOB_FILE_VERSION = 1 };

/* Check header and checksum of a whole file and parse the message. `path` is for texts. */
tr_status tr_job_file_parse(Trireme__Trainer__Job **out, const void *bytes, size_t size, const char *path);
