/* roster_state.h - what the files of the roster share: roster.c (ranks and roles) and roster_groups.c (host groups). */
#pragma once

#include "pserver/core/base/roster.h"

/* All trainers have their numbers. TR_EINVAL: TRIREME_HOST_GROUPS has sizes of other groups than theirs. */
tr_status tr__roster_form_groups(tr_roster *roster);
