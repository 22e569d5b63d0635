/* schedule.c - see schedule.h. */
#include "pserver/util/schedule.h"

const tr_schedule *tr__schedule;
