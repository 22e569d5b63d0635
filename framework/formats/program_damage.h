/* program_damage.h - where in the bytes of a ProgramDesc the damage lies. */
#pragma once

#include "framework/base/status.h"

/* For bytes that protobuf-c could not read: TR_EFORMAT with a message that names the innermost block,
 * variable, operator, slot or attribute that it cannot read. */
tr_status tr__program_explain_damage(const void *bytes, size_t size);
